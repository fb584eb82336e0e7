"""The training loop. It writes no files: watchers display and save what it produces."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hitnet.core.model import Loss
from hitnet.data import Batches, Dataset, ImageSet
from hitnet.settings import RunSettings
from hitnet.training.devices import Team, autocast
from hitnet.training.evaluation import evaluate
from hitnet.training.needs import Memory
from hitnet.training.state import State
from hitnet.training.statistics import refresh_norm
from hitnet.training.watchers import Row, Watcher


class TrainingStopped(RuntimeError):
    """Training cannot continue; what was saved after the last complete epoch is still good."""


@dataclass(frozen=True)
class Job:
    """Everything that training needs, already checked."""

    settings: RunSettings
    data: Dataset
    batches: Batches
    held_out: dict[str, ImageSet]
    """The images evaluated after each epoch, by name: test, and validation if there is any."""
    state: State
    device: torch.device
    precision: torch.dtype
    team: Team
    memory: Memory | None
    """What each process is expected to take; None if it is not known."""


def train_epochs(job: Job, watchers: Sequence[Watcher]) -> None:
    """Train from the state's epoch until the last one, or until patience runs out."""
    settings, state, batches, team = job.settings, job.state, job.batches, job.team
    network = team.wrap(state.model, job.device)
    for watcher in watchers:
        watcher.started(job)

    while state.epoch < settings.epochs and not state.out_of_patience(settings.patience):
        began, began_computing, totals = time.perf_counter(), time.process_time(), Totals()
        if team.size > 1:
            # The saved state holds only the first process's torch generator, and processes consume different amounts
            # of random numbers. So each process gets a new seed at the start of every epoch.
            torch.manual_seed(int(torch.randint(2**62, (), generator=state.generator)) + team.rank)
        state.model.train()
        for index, (images, labels, whole) in enumerate(batches.epoch(state.epoch)):
            rate = learning_rate(settings, state.epoch + index / len(batches))
            for group in state.optimizer.param_groups:
                group["lr"] = rate
            with autocast(job.device, job.precision):
                out = network(images, labels)
                loss = state.model.loss(out, whole, labels)
            value = totals.add(loss, state.model.head.decide(out.scores) != labels)
            if not math.isfinite(team.sum(torch.tensor(value))):
                raise TrainingStopped(_with_remedy(_not_finite(loss), state.epoch, index + 1, rate))
            state.optimizer.zero_grad(set_to_none=True)
            loss.total.backward()
            state.optimizer.step()
            if state.averaged is not None:
                state.averaged.update_parameters(state.model)
            for watcher in watchers:
                watcher.stepped(len(labels) * team.size, value)
        if not state.is_finite:
            raise TrainingStopped(_with_remedy("the weights are no longer finite", state.epoch, index + 1, rate))

        row: Row = {"epoch": state.epoch + 1, "learning_rate": rate, **totals.means(team)}
        if settings.refresh_norm:
            refresh_norm(state.kept_model, batches.data.images, batches.order(torch.Generator().manual_seed(0)))
        team.agree(state.kept_model)
        # What may be kept is measured as it will be used, in full precision; the epochs before it only for the curve.
        may_be_kept = settings.patience or state.epoch + 1 == settings.epochs
        with autocast(job.device, torch.float32 if may_be_kept else job.precision):
            for name, images_of in job.held_out.items():
                measured = evaluate(state.kept_model, images_of, team=team)
                row |= {f"{name}_error": measured.error, f"{name}_loss": measured.loss}
        state.rows.append(row)
        state.seconds += time.perf_counter() - began
        state.processor_seconds += time.process_time() - began_computing
        for watcher in watchers:
            watcher.epoch_ended(row)


def learning_rate(settings: RunSettings, progress: float) -> float:
    """The rate after `progress` epochs (a fraction counts). A pure function, so resuming has nothing to restore."""
    if settings.schedule == "constant":
        return settings.learning_rate
    if settings.schedule == "decay":
        return settings.learning_rate * 0.95 ** math.floor(progress)
    warm_up = 0.2 * settings.epochs
    if progress < warm_up:
        return settings.learning_rate * (0.05 + 0.95 * progress / warm_up)
    return settings.learning_rate * 0.5 * (1 + math.cos(math.pi * (progress - warm_up) / (settings.epochs - warm_up)))


@dataclass
class Totals:
    """Sums over an epoch: (loss, classification, reconstruction, mistakes, images)."""

    sums: Tensor = field(default_factory=lambda: torch.zeros(5, dtype=torch.float64))

    def add(self, loss: Loss, wrong: Tensor) -> float:
        """Add one batch and return its loss. Everything is copied from the device in one transfer."""
        reconstruction = torch.zeros_like(loss.total) if loss.reconstruction is None else loss.reconstruction
        parts = [part.detach().float() for part in (*loss[:2], reconstruction, wrong.sum())]
        *losses, mistakes = torch.stack(parts).tolist()
        count = len(wrong)
        self.sums += torch.tensor([*(value * count for value in losses), mistakes, count], dtype=torch.float64)
        return losses[0]

    def means(self, team: Team) -> Row:
        total, classification, reconstruction, mistakes, count = team.sum(self.sums).tolist()
        return {
            "train_loss": total / count,
            "train_classification": classification / count,
            "train_reconstruction": reconstruction / count,
            "train_error": 100 * mistakes / count,
        }


def _not_finite(loss: Loss) -> str:
    if torch.isfinite(loss.total):
        return "the loss of another process is no longer finite"
    part = "reconstruction" if torch.isfinite(loss.classification) else "classification"
    return f"the {part} loss became {loss.total.item()}"


def _with_remedy(what: str, epochs_done: int, batch: int, rate: float) -> str:
    return (
        f"{what} in epoch {epochs_done + 1}, batch {batch}, at learning rate {rate:g}; "
        "most likely the rate is too high: try a tenth of it"
    )
