"""Training, from settings to a finished run folder."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from hitnet.data import Batches, Dataset, ImageSet, stratified_split, stratified_subset
from hitnet.files import sweep
from hitnet.interpret.snapshots import write_snapshot
from hitnet.model import Loss
from hitnet.training.augmentation import Augmentation, fingerprint, load_teacher, make_augmentation
from hitnet.training.config import TrainConfig
from hitnet.training.devices import Team, autocast, choose_device, choose_precision, join_team
from hitnet.training.evaluation import evaluate, load_data
from hitnet.training.finish import finish
from hitnet.training.run import Row, Run, describe_environment
from hitnet.training.state import FILE, State
from hitnet.training.tracking import make_tracker
from hitnet.training.watcher import Watcher


class TrainingStopped(RuntimeError):
    """Training cannot go on; the last good epoch is on disk."""


def train(config: TrainConfig, *, watcher: Watcher | None = None, overwrite: bool = False) -> Run:
    """Train a new network into a new run folder."""
    with prepare(config) as job:
        run = Run.named(config, job.data.name)
        if config.teacher is not None and config.teacher.resolve().is_relative_to(run.path.resolve()):
            raise ValueError(f"{run.path} is the teacher itself and would be replaced; choose another --seed or --out")
        if job.team.leads:
            environment = describe_environment(job.device, job.precision, job.team.size, job.fingerprints)
            run.create(config, environment, overwrite=overwrite)
        return _train(run, job, watcher or Watcher())


def resume(path: str | Path, *, watcher: Watcher | None = None) -> Run:
    """Go on with a run that was stopped, from its last whole epoch."""
    run = Run.open(path)
    if run.is_finished:
        (run.path / FILE).unlink(missing_ok=True)  # a kill may have come just before
        raise ValueError(f"{run.path} is finished, there is nothing to resume; see its result.json")
    with prepare(run.config) as job:
        run.check_same(job.fingerprints)
        job.state.restore(run)
        if job.team.leads:
            sweep(run.path)
        return _train(run, job, watcher or Watcher())


@dataclass(frozen=True)
class Job:
    """What training needs, checked and ready; nothing is on disk yet."""

    config: TrainConfig
    data: Dataset
    fingerprints: dict[str, str]
    """What must be the same again when the run is resumed: data, and teacher if there is one."""
    batches: Batches
    augment: Augmentation
    held_out: dict[str, ImageSet]
    """What is measured after each epoch, by name: test, and validation if there is any."""
    state: State
    device: torch.device
    precision: torch.dtype
    team: Team
    tracker: Watcher


@contextmanager
def prepare(config: TrainConfig) -> Iterator[Job]:
    """All that can be wrong with settings and data comes to light here, before any file is written or replaced."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    precision = choose_precision(config, device)
    with join_team(device) as team:
        data = load_data(config)
        state = State.fresh(config, config.model_config(data.image_shape, data.class_names), device)
        training, validation = split_training(config, data.train.to(device))
        batches = Batches(
            training,
            config.batch_size,
            shift=0 if config.augment == "none" else config.shift,
            flip=config.flip,
            generator=state.generator,
            rank=team.rank,
            world_size=team.size,
        )
        fingerprints, teacher = {"data": data.fingerprint}, None
        if config.teacher is not None:
            teacher = load_teacher(config.teacher, data).to(device)
            fingerprints["teacher"] = fingerprint(teacher)
        augment = make_augmentation(teacher, config.hybrid_fraction, state.generator, team)
        if config.snapshots and state.model.decoder is None:
            raise ValueError(f"{config.model} has no decoder, so there is nothing to keep; leave --snapshots out")
        tracker = make_tracker(config, team)
        held_out = {"test": data.test.to(device)}
        if validation is not None:
            held_out = {"validation": validation, **held_out}
        yield Job(config, data, fingerprints, batches, augment, held_out, state, device, precision, team, tracker)


def _train(run: Run, job: Job, watcher: Watcher) -> Run:
    config, state, batches, team = job.config, job.state, job.batches, job.team
    network = team.wrap(state.model, job.device)
    for each in (watcher, job.tracker):
        each.started(run, job.data, state.model, state.epoch, len(batches))

    while state.epoch < config.epochs and not state.out_of_patience(config.patience):
        began, began_computing, totals = time.perf_counter(), time.process_time(), Totals()
        if team.size > 1:
            # The file of the state keeps the first process's torch generator alone, and they draw differently much.
            torch.manual_seed(int(torch.randint(2**62, (), generator=state.generator)) + team.rank)
        state.model.train()
        for index, (images, labels) in enumerate(batches):
            rate = learning_rate(config, state.epoch + index / len(batches))
            for group in state.optimizer.param_groups:
                group["lr"] = rate
            images = job.augment(images, labels)
            with autocast(job.device, job.precision):
                out = network(images, labels)
                loss = state.model.loss(out, images, labels)
            value = totals.add(loss, state.model.head.decide(out.scores) != labels)
            if not math.isfinite(team.sum(torch.tensor(value))):
                raise TrainingStopped(_why_not_finite(loss, state.epoch, index + 1, rate, run))
            state.optimizer.zero_grad(set_to_none=True)
            loss.total.backward()
            state.optimizer.step()
            if state.averaged is not None:
                state.averaged.update_parameters(state.model)
            watcher.stepped(len(labels) * team.size, value)
        if not state.is_finite:
            raise TrainingStopped(_why_not_finite(loss, state.epoch, index + 1, rate, run))

        row: Row = {"epoch": state.epoch + 1, "learning_rate": rate, **totals.means(team)}
        team.agree(state.result)
        for name, images_of in job.held_out.items():
            measured = evaluate(state.result, images_of, team=team)
            row |= {f"{name}_error": measured.error, f"{name}_loss": measured.loss}
        state.rows.append(row)
        state.seconds += time.perf_counter() - began
        state.processor_seconds += time.process_time() - began_computing
        if team.leads:
            if state.best_epoch(config.patience) == state.epoch:
                state.result.save(run.path / "model")
            if config.snapshots:
                write_snapshot(state.result, run.path, state.epoch)
            run.write_metrics(state.rows)
            state.save(run)
        job.tracker.epoch_ended(row)
        watcher.epoch_ended(row)

    if team.leads:
        finish(run, config, job.data, state, job.held_out["test"])
    team.wait()
    return run


def learning_rate(config: TrainConfig, progress: float) -> float:
    """The rate after `progress` epochs, which need not be whole: a pure function, so there is nothing to restore."""
    if config.schedule == "constant":
        return config.learning_rate
    if config.schedule == "decay":
        return config.learning_rate * 0.95 ** math.floor(progress)
    warm_up = 0.2 * config.epochs
    if progress < warm_up:
        return config.learning_rate * (0.05 + 0.95 * progress / warm_up)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * (progress - warm_up) / (config.epochs - warm_up)))


@dataclass
class Totals:
    """Sums over an epoch: (loss, classification, reconstruction, mistakes, images)."""

    sums: Tensor = field(default_factory=lambda: torch.zeros(5, dtype=torch.float64))

    def add(self, loss: Loss, wrong: Tensor) -> float:
        """Count one batch in; its loss as a number. All of it comes from the device in one piece."""
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


def split_training(config: TrainConfig, images: ImageSet) -> tuple[ImageSet, ImageSet | None]:
    """(training images, validation images), both seeded and with all classes; of `train_images` if that is set."""
    generator = torch.Generator().manual_seed(config.seed)
    if config.train_images is not None:
        images = images.subset(stratified_subset(images.labels, config.train_images, generator))
    if not config.validation:
        return images, None
    kept, held_out = stratified_split(images.labels, config.validation, generator)
    return images.subset(kept), images.subset(held_out)


def _why_not_finite(loss: Loss, epochs_done: int, batch: int, rate: float, run: Run) -> str:
    if not torch.isfinite(loss.total):
        part = "reconstruction" if torch.isfinite(loss.classification) else "classification"
        what = f"the {part} loss became {loss.total.item()}"
    else:
        what = "the weights are not finite any more"
    kept = f"the state after epoch {epochs_done} is kept in {run.path}" if epochs_done else "no epoch was finished"
    return (
        f"{what} in epoch {epochs_done + 1}, batch {batch}, at learning rate {rate:g}; "
        f"most likely the rate is too high: try a tenth of it ({kept})"
    )
