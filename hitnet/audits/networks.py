"""The networks of an audit: a single one whose first epochs are asked, or one for each fold."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from hitnet.audits.trials import FoldTrial
from hitnet.core.checkpoint import read_tensors, write_tensors
from hitnet.core.model import find_recipe
from hitnet.data import Dataset, ImageSet
from hitnet.data.folds import Pool, assign_folds, fold_of
from hitnet.data.split import unevenness
from hitnet.defaults import UNEVEN
from hitnet.experiments.runner import Progress, do, run_here, run_local, survey
from hitnet.runs import train
from hitnet.runs.audit_folder import AuditFolder
from hitnet.runs.reopen import load_model
from hitnet.runs.run import Run
from hitnet.settings import RunSettings, TrainConfig
from hitnet.training.evaluation import all_scores
from hitnet.training.loop import Job
from hitnet.training.watchers import Row, Watcher

# In later epochs the network knows more and more wrong labels by heart. Tried with 80, 200 and 1,000 clothes, a tenth
# or more of them labelled wrongly: the mean over the first ten epochs tells them better than that over all.
EPOCHS_ASKED = 10

Watch = Callable[[list[Progress], float | None], None]
"""Called with the progress of each network, and the seconds left if that is known."""


@dataclass(frozen=True)
class Answers:
    """The distances of each image to each class, and who said so."""

    distances: Tensor
    """(count, classes)"""
    networks: Tensor
    """(count,): the number of the network that judged it."""
    runs: list[Run]
    """The networks."""


def settings_of_fold(config: TrainConfig, folder: AuditFolder, fold: str, labels: Tensor) -> RunSettings:
    """The settings of a network of an audit, for training images with these labels.

    Without a choice of the user's, no images are held out for radii, which come from the judged images, and only the
    first network learns to finish its drawings, since its prototypes are shown.
    """
    if not find_recipe(config.model).head.has_hit_zone:
        raise ValueError(f"an audit asks what is hit, and {config.model} has no Hit-or-Miss layer; use hitnet-fast")
    chosen = replace(
        train.with_full_paths(config),
        out=folder.runs_folder.resolve(),
        fold=fold,
        finishing=0.0 if config.finishing is None and not fold.startswith("1/") else config.finishing,
        validation=config.validation if config.validation is not None or config.patience else 0.0,
    )
    return chosen.resolve(config.train_images or len(labels), uneven=unevenness(labels) > UNEVEN)


def ask_folds(
    config: TrainConfig, folder: AuditFolder, data: Dataset, everything: Pool, folds: int, workers: int, watch: Watch
) -> Answers:
    """Train a network for each fold, and let each judge the images that it has not seen."""
    images = everything.images
    parts = assign_folds(images, data.class_names, folds, config.seed)
    trials = [
        FoldTrial(
            variant=f"fold {part + 1} of {folds}",
            settings=settings_of_fold(config, folder, f"{part + 1}/{folds}", images.labels[parts != part]),
            data_name=data.name,
        )
        for part in range(folds)
    ]
    for trial in trials:
        _check_data(Run(trial.path), data, trial.settings)
    all_progress, began = survey(list(trials)), time.monotonic()

    def changed(current: list[Progress]) -> None:
        watch(current, _seconds_left(current, time.monotonic() - began))

    if workers == 1:
        run_here(all_progress, changed)
    else:
        run_local(all_progress, workers, changed)
    if failures := [progress.failure for progress in all_progress if progress.failure is not None]:
        raise RuntimeError("; ".join(failures))
    runs = [Run(trial.path) for trial in trials]
    distances = torch.empty(len(images), data.num_classes)
    for part, run in enumerate(runs):
        held_out = (parts == part).nonzero()[:, 0]
        judged = images.subset(held_out)
        distances[held_out] = all_scores(load_model(run.path, config.device), judged)
    return Answers(distances, parts, runs)


def _check_data(run: Run, data: Dataset, settings: RunSettings) -> None:
    """Refuse a network that learned from other images or labels than these."""
    if run.exists:
        assert settings.fold is not None
        run.check_same({"data": fold_of(data, settings.fold, settings.seed).fingerprint})


def _seconds_left(all_progress: list[Progress], elapsed: float) -> float | None:
    """From the epochs done so far; None before the first and after the last."""
    done = sum(each.epochs - each.began for each in all_progress)
    left = sum(each.trial.settings.epochs - each.epochs for each in all_progress)
    return left * elapsed / done if done and left else None


def ask_epochs(
    config: TrainConfig, folder: AuditFolder, data: Dataset, everything: Pool, watcher: Watcher | None
) -> Answers:
    """Train one network on everything, and take the mean of the distances after each of its first epochs.

    Wrong labels are learned last: until then, the network says what it makes of the picture.
    """
    images = everything.images
    assign_folds(images, data.class_names, 2, config.seed)  # refuses what it would refuse with folds
    settings = settings_of_fold(config, folder, "1/1", images.labels)
    trial = FoldTrial(variant="all pictures", settings=settings, data_name=data.name)
    run = Run(trial.path)
    _check_data(run, data, settings)
    do(trial, EpochAnswers(run.epochs_file, images, watcher))
    total, epochs = _read_epochs(run.epochs_file)
    if epochs != min(run.read_result()["epochs"], EPOCHS_ASKED):
        raise ValueError(_not_asked(run.epochs_file))
    return Answers(total / epochs, torch.zeros(len(images), dtype=torch.long), [run])


class EpochAnswers(Watcher):
    """Adds up the distances that the network says after each of its first epochs; hands all calls on."""

    def __init__(self, path: Path, images: ImageSet, watcher: Watcher | None) -> None:
        self.path, self.images, self.watcher = path, images, watcher or Watcher()

    def announced(self, text: str) -> None:
        self.watcher.announced(text)

    def decoded(self, done: int, total: int) -> None:
        self.watcher.decoded(done, total)

    def opened(self, folder: Path) -> None:
        self.watcher.opened(folder)

    def looking(self, done: int, pictures: int) -> None:
        self.watcher.looking(done, pictures)

    def started(self, job: Job) -> None:
        self.job, epoch = job, job.state.epoch
        if epoch == 0:
            self.path.unlink(missing_ok=True)
        _, asked = _read_epochs(self.path)
        if asked == epoch - 1 < EPOCHS_ASKED:
            self._add()  # it was killed between an epoch and its answers
        elif asked != min(epoch, EPOCHS_ASKED):
            raise ValueError(_not_asked(self.path))
        self.watcher.started(job)

    def stepped(self, images: int, loss: float) -> None:
        self.watcher.stepped(images, loss)

    def epoch_ended(self, row: Row) -> None:
        if row["epoch"] <= EPOCHS_ASKED:
            self._add()
        self.watcher.epoch_ended(row)

    def finishing(self, done: int, steps: int) -> None:
        self.watcher.finishing(done, steps)

    def measuring(self) -> None:
        self.watcher.measuring()

    def _add(self) -> None:
        distances = all_scores(self.job.state.kept_model, self.images)
        total, epochs = _read_epochs(self.path)
        write_tensors(self.path, {"total": total + distances}, {"epochs": str(epochs + 1)})


def _not_asked(path: Path) -> str:
    return f"{path.parent} was trained without being asked after each epoch; remove it, and audit again"


def _read_epochs(path: Path) -> tuple[Tensor, int]:
    """(sum of the distances, number of epochs); nothing yet if there is no file."""
    if not path.is_file():
        return torch.zeros(()), 0
    tensors, metadata = read_tensors(path)
    try:
        return tensors["total"], int(metadata["epochs"])
    except (KeyError, ValueError):
        raise ValueError(f"{path} does not hold what the epochs said; remove the folder, and audit again") from None
