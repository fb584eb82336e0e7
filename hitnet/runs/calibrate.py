"""Calibrate a run on its validation images: the radii of its verdicts, in model/config.json, and, if asked for, which
answers to reject so that few of the accepted ones are wrong, in calibration.json."""

from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from hitnet.core.checkpoint import write_config
from hitnet.core.model import Model
from hitnet.data import ImageSet
from hitnet.errors import listed
from hitnet.files import read_json, write_json
from hitnet.interpret.verdicts import COVERAGE, VerdictCounts, calibrate_on, count_verdicts
from hitnet.runs.bounds import choose_threshold, upper_bound
from hitnet.runs.reopen import reopen, split
from hitnet.runs.run import Run
from hitnet.settings import ModelConfig, RunSettings
from hitnet.training.evaluation import all_scores


@dataclass(frozen=True)
class Answers:
    """The effect of a threshold on a set of images."""

    images: int
    answered: int
    mistakes: int
    """Among the answers."""


@dataclass(frozen=True)
class Rejection:
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


@dataclass(frozen=True)
class Calibrated:
    """What calibrating a run found, and its effect on the test images, which were not used for it."""

    config: ModelConfig
    """The model's, with its radii if it has any."""
    verdicts: VerdictCounts | None
    """On the test images; None for a network without radii."""
    rejection: Rejection | None
    notes: tuple[str, ...]


def calibrate_run(
    path: Path,
    coverage: float = COVERAGE,
    max_error: float | None = None,
    confidence: float = 0.95,
    data_dir: Path | None = None,
    device: str = "auto",
) -> Calibrated:
    """Find the radii of a run's verdicts on its validation images; with `max_error`, also a threshold of rejection."""
    _check_shares(coverage, max_error, confidence)
    opened = reopen(path, device)
    run, model, settings = opened.run, opened.model, opened.run.read_settings()
    if not model.head.has_hit_zone and max_error is None:
        raise ValueError(
            f"{run.path} is {model.config.name}, which has no hit zone and so no radii; "
            "choose which of its answers to reject with --max-error 0.01"
        )
    data = opened.load_data(data_dir=data_dir)
    _, held_out = split(data, settings)
    if held_out is None:
        raise ValueError(
            f"{run.path} held out no validation images: it was trained on all it had, and training images do not "
            "show how often a network is wrong; train one with --validation 0.1"
        )
    result = run.read_result()
    scores, on_test = all_scores(model, held_out), all_scores(model, data.test)
    counted, rejection = None, None
    if max_error is not None:  # first, since it may find too few images
        rejection = _choose(model, scores, held_out, on_test, data.test, max_error, confidence)
    if model.head.has_hit_zone:
        calibrate_on(model, scores, held_out.labels, coverage)
        counted = count_verdicts(model, on_test, data.test.labels)
        write_config(run.model_folder, model.config)
        write_json(run.result_file, result | {"verdicts": asdict(counted)})
    if rejection is not None:
        write_json(run.calibration_file, asdict(rejection))
    return Calibrated(model.config, counted, rejection, calibration_notes(settings, held_out, model.config.class_names))


def find_radii(run: Run, model: Model, held_out: ImageSet, coverage: float) -> None:
    """The radii of a run's model that was just trained, into its configuration."""
    calibrate_on(model, all_scores(model, held_out), held_out.labels, coverage)
    write_config(run.model_folder, model.config)


def calibration_notes(settings: RunSettings, held_out: ImageSet, class_names: tuple[str, ...]) -> tuple[str, ...]:
    """What makes the promise of a calibration weaker than it sounds."""
    notes = []
    if settings.patience:
        notes.append(
            "the validation images also chose the epoch that was kept (--patience), so their error is optimistic"
        )
    if settings.teacher is not None:
        notes.append("the network that deformed the training images may have seen validation images")
    there = set(held_out.labels.tolist())
    if missing := [name for index, name in enumerate(class_names) if index not in there]:
        notes.append(f"no images of {listed(missing)} were held out")
    return tuple(notes)


def read_rejection(path: Path) -> Rejection | None:
    """The rejection of a run, if it has one."""
    file = Run(path).calibration_file
    if not file.is_file():
        return None
    content = read_json(file)
    try:
        for name in ("validation", "test"):
            content[name] = Answers(**content[name])
        for name in ("threshold", "max_error", "confidence", "test_bound"):
            content[name] = float(content[name])
        content.pop("notes", None)  # of former versions
        return Rejection(**content)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} is not a calibration ({error!r}); make it again with: hitnet calibrate") from None


def _choose(
    model: Model,
    scores: Tensor,
    held_out: ImageSet,
    on_test: Tensor,
    test: ImageSet,
    max_error: float,
    confidence: float,
) -> Rejection:
    """The threshold, chosen by the scores of the held-out images, and its effect on them and on the test images."""
    unusual, wrong = model.head.outlier_score(scores), model.head.decide(scores) != held_out.labels
    threshold = choose_threshold(unusual, wrong, max_error, confidence)
    answers = count_answers(model.head.outlier_score(on_test), model.head.decide(on_test) != test.labels, threshold)
    return Rejection(
        threshold=threshold,
        max_error=max_error,
        confidence=confidence,
        validation=count_answers(unusual, wrong, threshold),
        test=answers,
        test_bound=upper_bound(answers.mistakes, answers.answered, confidence),
    )


def count_answers(scores: Tensor, wrong: Tensor, threshold: float) -> Answers:
    answered = scores <= threshold
    return Answers(len(scores), int(answered.sum()), int(wrong[answered].sum()))


def _check_shares(coverage: float, max_error: float | None, confidence: float) -> None:
    shares = (
        ("coverage", coverage, "0.99 misses one true class in a hundred"),
        ("max_error", max_error, "0.01 is one in a hundred"),
        ("confidence", confidence, "0.95 is nineteen in twenty"),
    )
    for name, share, example in shares:
        if share is not None and not 0 < share < 1:
            raise ValueError(f"{name} must lie between 0 and 1, got {share}; {example}")
