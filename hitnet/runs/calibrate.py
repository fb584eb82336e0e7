"""Choose which answers of a run to reject, so that few of the accepted ones are wrong: RUN/calibration.json."""

from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from hitnet.core.model import TEST_BATCH, Model
from hitnet.data import Batches, ImageSet, split_training
from hitnet.files import read_json, write_json
from hitnet.runs.bounds import choose_threshold, upper_bound
from hitnet.runs.reopen import reopen
from hitnet.runs.run import Run
from hitnet.settings import RunSettings


@dataclass(frozen=True)
class Answers:
    """The effect of a threshold on a set of images."""

    images: int
    answered: int
    mistakes: int
    """Among the answers."""


@dataclass(frozen=True)
class Calibration:
    """A run's threshold, how it was chosen, and its effect on the test images, which were not used to choose it."""

    threshold: float
    """Images with a larger outlier score are rejected."""
    max_error: float
    """At most this fraction of the answers is wrong, …"""
    confidence: float
    """… with this confidence."""
    validation: Answers
    test: Answers
    test_bound: float
    """Upper bound on the error rate among the answers, from test images alone (Clopper–Pearson)."""
    notes: tuple[str, ...]


def calibrate_run(
    path: Path, max_error: float, confidence: float = 0.95, data_dir: Path | None = None, device: str = "auto"
) -> tuple[Calibration, Path]:
    """Choose the threshold of a run on its validation images: (calibration, its file)."""
    if not 0 < max_error < 1:
        raise ValueError(f"max_error must lie between 0 and 1, got {max_error}; 0.01 is one in a hundred")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}; 0.95 is nineteen in twenty")
    opened = reopen(path, device)
    run, model, settings = opened.run, opened.model, opened.run.read_settings()
    if not settings.validation:
        raise ValueError(
            f"{run.path} held out no validation images: it was trained on all it had, and training images do not "
            "show how often a network is wrong; train one with --validation 0.1"
        )
    if not run.is_finished:
        raise ValueError(
            f"{run.path} is not finished, so its network may still change; resume it with: {run.resume_command}"
        )
    data = opened.load_data(data_dir=data_dir)
    _, held_out = split_training(
        data.train, count=settings.train_images, validation=settings.validation, seed=settings.seed
    )
    assert held_out is not None
    scores, wrong = answer_all(model, held_out)
    threshold = choose_threshold(scores, wrong, max_error, confidence)
    test = count_answers(*answer_all(model, data.test), threshold)
    calibration = Calibration(
        threshold=threshold,
        max_error=max_error,
        confidence=confidence,
        validation=count_answers(scores, wrong, threshold),
        test=test,
        test_bound=upper_bound(test.mistakes, test.answered, confidence),
        notes=_notes(settings),
    )
    write_json(run.calibration_file, asdict(calibration))
    return calibration, run.calibration_file


def read_calibration(path: Path) -> Calibration | None:
    """The calibration of a run, if it has one."""
    file = Run(path).calibration_file
    if not file.is_file():
        return None
    content = read_json(file)
    try:
        for name in ("validation", "test"):
            content[name] = Answers(**content[name])
        for name in ("threshold", "max_error", "confidence", "test_bound"):
            content[name] = float(content[name])
        return Calibration(**{**content, "notes": tuple(content["notes"])})
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} is not a calibration ({error!r}); make it again with: hitnet calibrate") from None


def answer_all(model: Model, data: ImageSet) -> tuple[Tensor, Tensor]:
    """(outlier scores, whether the answer is wrong): both (count,)."""
    scores = torch.cat([model.scores(images.to(model.device)).cpu() for images, _ in Batches(data, TEST_BATCH)])
    return model.head.outlier_score(scores), model.head.decide(scores) != data.labels


def count_answers(scores: Tensor, wrong: Tensor, threshold: float) -> Answers:
    answered = scores <= threshold
    return Answers(len(scores), int(answered.sum()), int(wrong[answered].sum()))


def _notes(settings: RunSettings) -> tuple[str, ...]:
    notes = []
    if settings.patience:
        notes.append(
            "the validation images also chose the epoch that was kept (--patience), so their error is optimistic"
        )
    if settings.teacher is not None:
        notes.append("the network that deformed the training images may have seen validation images")
    return tuple(notes)
