"""Training, from settings to a finished run folder."""

import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from hitnet.data import Batches, Dataset, ImageSet, stratified_split, stratified_subset
from hitnet.files import read_json, write_json
from hitnet.model import Loss, Model
from hitnet.training.config import TrainConfig
from hitnet.training.devices import Team, autocast, choose_device, choose_precision, join_team
from hitnet.training.evaluation import evaluate, load_data
from hitnet.training.finish import finish
from hitnet.training.run import Row, Run, describe_environment
from hitnet.training.state import State


class Watcher:
    """Told how training goes, so that it can be shown. This one is silent."""

    def started(self, run: Run, data: Dataset, model: Model, epochs_done: int, batches: int) -> None: ...

    def stepped(self, images: int, loss: float) -> None: ...

    def epoch_ended(self, row: Row) -> None: ...


class TrainingStopped(RuntimeError):
    """Training cannot go on; the last good epoch is on disk."""


def train(config: TrainConfig, *, watcher: Watcher | None = None, overwrite: bool = False) -> Run:
    """Train a new network into a new run folder."""
    device = choose_device(config.device)
    with join_team(device) as team:
        data = load_data(config)
        run = Run.named(config, data.name)
        if team.leads:
            run.create(config, overwrite=overwrite)
            write_json(run.path / "env.json", describe_environment(device, data.fingerprint))
        state = State.fresh(config, config.model_config(data.image_shape, data.class_names), device)
        return _train(run, config, data, state, device, team, watcher or Watcher())


def resume(path: str | Path, *, watcher: Watcher | None = None) -> Run:
    """Go on with a run that was stopped, from its last whole epoch."""
    run = Run.open(path)
    if run.is_finished:
        raise ValueError(f"{run.path} is finished, there is nothing to resume; see its result.json")
    config = run.config
    device = choose_device(config.device)
    with join_team(device) as team:
        data = load_data(config)
        before = read_json(run.path / "env.json")["data"]
        if data.fingerprint != before:
            raise ValueError(
                f"the data of {run.path} changed since it began (fingerprint {before}, now {data.fingerprint}); "
                "bring the former data back, or start a new run"
            )
        state = State.fresh(config, config.model_config(data.image_shape, data.class_names), device)
        state.restore(run)
        return _train(run, config, data, state, device, team, watcher or Watcher())


def _train(
    run: Run, config: TrainConfig, data: Dataset, state: State, device: torch.device, team: Team, watcher: Watcher
) -> Run:
    training, validation = split_training(config, data.train.to(device))
    test = data.test.to(device)
    precision = choose_precision(config, device)
    network = team.wrap(state.model, device)
    batches = Batches(
        training,
        config.batch_size,
        shift=config.shift,
        flip=config.flip,
        generator=state.generator,
        rank=team.rank,
        world_size=team.size,
    )
    watcher.started(run, data, state.model, state.epoch, len(batches))

    while state.epoch < config.epochs and not out_of_patience(state.rows, config.patience):
        began, totals = time.perf_counter(), Totals()
        state.model.train()
        for index, (images, labels) in enumerate(batches):
            rate = learning_rate(config, state.epoch + index / len(batches))
            for group in state.optimizer.param_groups:
                group["lr"] = rate
            with autocast(device, precision):
                out = network(images, labels)
                loss = state.model.loss(out, images, labels)
            value = loss.total.item()
            if not math.isfinite(value):
                raise TrainingStopped(_why_not_finite(loss, state.epoch + 1, index + 1, rate, run))
            state.optimizer.zero_grad(set_to_none=True)
            loss.total.backward()
            state.optimizer.step()
            if state.averaged is not None:
                state.averaged.update_parameters(state.model)
            totals.add(loss, state.model.head.decide(out.scores) != labels)
            watcher.stepped(len(labels) * team.size, value)

        row: Row = {"epoch": state.epoch + 1, "learning_rate": rate, **totals.means(team)}
        for name, held_out in (("validation", validation), ("test", test)):
            if held_out is not None:
                measured = evaluate(state.result, held_out, team=team)
                row |= {f"{name}_error": measured.error, f"{name}_loss": measured.loss}
        state.rows.append(row)
        state.seconds += time.perf_counter() - began
        if team.leads:
            if best_epoch(state.rows, config.patience) == state.epoch:
                state.result.save(run.path / "model")
            run.write_metrics(state.rows)
            state.save(run)
        watcher.epoch_ended(row)

    if team.leads:
        finish(run, config, data, state, test)
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


def best_epoch(rows: list[Row], patience: int) -> int:
    """The epoch to keep: the last one, or with patience the one of the lowest validation error."""
    if not patience:
        return len(rows)
    return 1 + min(range(len(rows)), key=lambda index: rows[index]["validation_error"])


def out_of_patience(rows: list[Row], patience: int) -> bool:
    return bool(rows and patience) and len(rows) - best_epoch(rows, patience) >= patience


@dataclass
class Totals:
    """Sums over an epoch, kept on the device: (loss, classification, reconstruction, mistakes, images)."""

    sums: Tensor | None = None

    def add(self, loss: Loss, mistakes: Tensor) -> None:
        parts = [part.detach() if part is not None else torch.zeros_like(loss.total.detach()) for part in loss]
        count = torch.full_like(parts[0], len(mistakes))
        batch = torch.stack([*(part * count for part in parts), mistakes.sum(), count]).double()
        self.sums = batch if self.sums is None else self.sums + batch

    def means(self, team: Team) -> Row:
        assert self.sums is not None
        sums = [float(value) for value in team.sum(self.sums)]
        total, classification, reconstruction, mistakes, count = sums
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


def _why_not_finite(loss: Loss, epoch: int, batch: int, rate: float, run: Run) -> str:
    part = "classification" if not torch.isfinite(loss.classification) else "reconstruction"
    return (
        f"the {part} loss became {loss.total.item()} in epoch {epoch}, batch {batch}, at learning rate {rate:g}; most "
        f"likely the rate is too high: try a tenth of it. The state after epoch {epoch - 1} is kept in {run.path}"
    )
