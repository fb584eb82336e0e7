"""From which outlier score on an answer is refused: a threshold for a wished error, and what can be said for it.

Answers are given in the order of their score, the least unusual image first, for as long as an exact binomial test
shows, on images held out of training, that at most `max_error` of them are wrong. The tests begin at a number of
answers that no label decides and end at the first that fails, so that many of them are as safe as one, provided that
less unusual images are no more often wrong. Of the test images, which have no say, it is reported what becomes.
"""

import math
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from hitnet.data import Batches, ImageSet
from hitnet.files import read_json, write_json
from hitnet.interpret.verdicts import scores_of, unusual
from hitnet.model import Model, load
from hitnet.training.config import TrainConfig
from hitnet.training.evaluation import data_for
from hitnet.training.loop import split_training
from hitnet.training.run import Run

FILE = "calibration.json"


@dataclass(frozen=True)
class Answers:
    """What a threshold makes of a set of images."""

    images: int
    answered: int
    mistakes: int
    """Among the answers."""
    error_bound: float
    """What the share of mistakes among answers does not exceed, at the confidence asked for (Clopper–Pearson)."""


@dataclass(frozen=True)
class Calibration:
    """A run's threshold and how it was found; calibration.json holds the same."""

    threshold: float
    """Images with a larger outlier score get no answer."""
    max_error: float
    confidence: float
    notes: tuple[str, ...]
    validation: Answers
    test: Answers


def calibrate_run(
    path: Path, max_error: float, confidence: float = 0.95, data_dir: Path | None = None
) -> tuple[Calibration, Path]:
    """Choose the threshold of a run on its validation images: (calibration, its file)."""
    for name, value in (("max_error", max_error), ("confidence", confidence)):
        if not 0 < value < 1:
            raise ValueError(f"{name} must lie between 0 and 1, got {value}; 0.01 is one in a hundred")
    run, model = Run.open(path), load(path)
    if not run.config.validation:
        raise ValueError(
            f"{run.path} held no validation images out: it was trained on all it had, and images that a network has "
            "seen do not show how often it errs; train one with --validation 0.1"
        )
    if not run.is_finished:
        raise ValueError(f"{run.path} is not finished, its network may still change; go on with: {run.resume_command}")
    data = data_for(run, model, data_dir=data_dir)
    run.check_data(data.fingerprint)
    held_out = split_training(run.config, data.train)[1]
    assert held_out is not None
    scores, wrong = answers(model, held_out)
    threshold = choose_threshold(scores, wrong, max_error, confidence)
    found = Calibration(
        threshold,
        max_error,
        confidence,
        _notes(run.config),
        validation=count_answers(scores, wrong, threshold, confidence),
        test=count_answers(*answers(model, data.test), threshold, confidence),
    )
    write_json(run.path / FILE, asdict(found))
    return found, run.path / FILE


def read_calibration(path: Path) -> Calibration | None:
    """The calibration of a run, if it has one."""
    file = path / FILE
    if not file.is_file():
        return None
    content = read_json(file)
    try:
        parts = {name: Answers(**content.pop(name)) for name in ("validation", "test")}
        return Calibration(**{**content, "threshold": float(content["threshold"]), **parts})
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} is no calibration ({error!r}); make it again with: hitnet calibrate") from None


def answers(model: Model, data: ImageSet) -> tuple[Tensor, Tensor]:
    """(outlier scores, whether the answer is wrong), one for each image."""
    scores = torch.cat([scores_of(model, images) for images, _ in Batches(data, 512)])
    return unusual(model, scores), model.head.decide(scores) != data.labels


def choose_threshold(scores: Tensor, wrong: Tensor, max_error: float, confidence: float) -> float:
    """The largest outlier score up to which answers are shown to be good enough: (count,), (count,) -> number."""
    count = len(scores)
    # So many right answers, without one mistake, are the least that shows anything.
    least = math.ceil(math.log(1 - confidence) / math.log1p(-max_error))
    if count < least:
        possible = 1 - (1 - confidence) ** (1 / count)
        raise ValueError(
            f"{count:,} validation images cannot show an error below {100 * max_error:g} %, it takes {least:,}; "
            f"hold out more (--validation), or ask for --max-error {_rounded_up(possible):g}"
        )
    order = scores.argsort()
    ranked, mistakes = scores[order], wrong[order].cumsum(0)
    # Images of the same score are answered together or not at all.
    ends = torch.cat([ranked[:-1] < ranked[1:], torch.tensor([True], device=ranked.device)]).nonzero().squeeze(1) + 1
    threshold = None
    for answered in ends[ends >= max(least, count // 2)].tolist():
        bad = int(mistakes[answered - 1])
        if binomial_at_most(bad, answered, max_error) > 1 - confidence:
            break
        threshold = float(ranked[answered - 1])
    if threshold is None:
        raise ValueError(
            f"{bad:,} of the {answered:,} surest answers are wrong, too many to show an error below "
            f"{100 * max_error:g} %; train a better network, or ask for "
            f"--max-error {_rounded_up(upper_bound(bad, answered, confidence)):g}"
        )
    return threshold


def count_answers(scores: Tensor, wrong: Tensor, threshold: float, confidence: float) -> Answers:
    """What a threshold makes of images with these outlier scores."""
    answered = scores <= threshold
    count, mistakes = int(answered.sum()), int(wrong[answered].sum())
    return Answers(len(scores), count, mistakes, upper_bound(mistakes, count, confidence))


def upper_bound(mistakes: int, count: int, confidence: float) -> float:
    """The largest rate of mistakes at which so few of them are not yet too unlikely (Clopper–Pearson)."""
    low, high = (mistakes / count, 1.0) if count else (1.0, 1.0)
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if binomial_at_most(mistakes, count, middle) > 1 - confidence else (low, middle)
    return high


def binomial_at_most(mistakes: int, count: int, rate: float) -> float:
    """The probability of so many mistakes or fewer in `count` answers, each wrong with probability `rate`."""
    wrong = torch.arange(mistakes + 1, dtype=torch.float64)
    ways = math.lgamma(count + 1) - torch.lgamma(wrong + 1) - torch.lgamma(count - wrong + 1)
    return float((ways + wrong * math.log(rate) + (count - wrong) * math.log1p(-rate)).exp().sum())


def _rounded_up(rate: float) -> float:
    """Two digits, never less."""
    digits = 10.0 ** (1 - math.floor(math.log10(rate)))
    return math.ceil(rate * digits) / digits


def _notes(config: TrainConfig) -> tuple[str, ...]:
    notes = []
    if config.patience:
        notes.append("validation images also chose the epoch that was kept (--patience), which flatters them a little")
    if config.teacher is not None:
        notes.append("the network that deformed the training images may have seen validation images")
    return tuple(notes)
