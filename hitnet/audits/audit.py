"""An audit, from a data set to a folder with its findings."""

import io
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

import hitnet
from hitnet.audits.networks import Answers, ask_epochs, ask_folds
from hitnet.audits.page import write_page
from hitnet.core.checkpoint import write_tensors
from hitnet.data import Dataset, list_datasets
from hitnet.data.corrections import read_corrections, write_corrections
from hitnet.data.duplicates import exact_sets, near_sets
from hitnet.data.folder import natural_order
from hitnet.data.folds import Pool, pool
from hitnet.data.mapped import MappedImages
from hitnet.files import LOCK, only_command, write_bytes, write_json
from hitnet.interpret.label_quality import KINDS, Judgement, judge
from hitnet.runs.audit_folder import COLUMNS, AuditFolder, Issue, duplicate_sets
from hitnet.runs.reopen import load_data
from hitnet.runs.run import find_runs
from hitnet.runs.train import with_full_paths
from hitnet.settings import TrainConfig
from hitnet.training.watchers import Watcher


class Listener:
    """Called as an audit proceeds, to display its progress. This base class does nothing."""

    watcher: Watcher | None = None
    """Of the training of an audit with one network."""

    def opened(self, data: Dataset, images: int) -> None: ...

    def changed(self, all_progress: list[Any], seconds_left: float | None) -> None:
        """A network of a fold may have advanced."""

    def looking(self) -> None:
        """The networks have judged; duplicates are looked for and the findings written."""


def audit_data(
    config: TrainConfig,
    *,
    folds: int = 1,
    workers: int = 1,
    listener: Listener | None = None,
) -> AuditFolder:
    """Audit `config.data` into the folder `config.out`; the same call resumes an audit that was stopped.

    folds: 1 for one network that learns from all images, judged by what its first epochs said; more for as many
        networks, each of which judges the images that it has not seen.
    workers: the number of networks that train at the same time.
    """
    listener = listener or Listener()
    _check_wishes(config, folds, workers)
    folder = AuditFolder(config.out)
    with _nothing_left(folder), only_command(folder.path):
        _check_source(folder, config)
        data = load_data(config.resolve())
        everything = pool(data)
        listener.opened(data, len(everything.images))
        try:
            if folds == 1:
                answers = ask_epochs(config, folder, data, everything, listener.watcher)
            else:
                answers = ask_folds(config, folder, data, everything, folds, workers, listener.changed)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"stopped; the same command resumes from the last epochs in {folder.path}"
            ) from None
        listener.looking()
        _write(folder, config, data, everything, answers)
    return folder


def audit(
    images: Any,
    labels: Any,
    *,
    folds: int = 1,
    workers: int = 1,
    out: str | Path | None = None,
    **options: Any,
) -> Any:
    """Find the wrong labels, odd images and duplicates among these images: a row for each, in their order.

    Images that `corrections` leave out have no row.

    images: (count, height, width), (count, channels, height, width) or (count, height, width, channels), bytes or
        floats in [0, 1].
    labels: (count,), integers or strings.
    folds, workers: as in `hitnet audit`.
    out: the folder to keep, which the same call resumes and `hitnet explore` opens; a temporary one if not given.
    options: of `TrainConfig`, such as epochs or seed.

    Returns a pandas DataFrame with the columns of issues.csv and the labels' own index, or if pandas is not installed,
    a dict of arrays. Labels in it are of the kind that was given.
    """
    if out is None:
        with tempfile.TemporaryDirectory() as place:
            return audit(images, labels, folds=folds, workers=workers, out=place, **options)
    folder = AuditFolder(Path(out))
    config = TrainConfig(data=str(folder.images_file), out=folder.path, **options)
    _check_wishes(config, folds, workers)
    names, given, value_of = _numbered(labels)
    with _nothing_left(folder):
        _keep_images(folder.images_file, x_train=np.asarray(images), y_train=given, class_names=np.array(names))
        audit_data(config, folds=folds, workers=workers)
    issues = sorted(folder.read_issues(), key=_place)
    columns = {name: np.array([getattr(issue, name) for issue in issues]) for name in COLUMNS}
    for name in ("given_label", "predicted_label"):
        columns[name] = np.array([value_of[text] for text in columns[name]])
    if find_spec("pandas") is None:
        return columns
    import pandas

    index = labels.index if isinstance(labels, pandas.Series) else pandas.RangeIndex(len(given))
    index = index.take([_place(issue) for issue in issues])
    return pandas.DataFrame(columns, index=index).astype({"duplicate_set": "Int64"})


def _place(issue: Issue) -> int:
    return int(issue.path.removeprefix("train/"))


@contextmanager
def _nothing_left(folder: AuditFolder) -> Iterator[None]:
    """Remove again what the block wrote, if it is refused before a network begins."""
    was_there = folder.path.exists()
    new = [path for path in (folder.images_file, folder.path / LOCK) if not path.exists()]
    try:
        yield
    except Exception:
        if not folder.runs_folder.exists():
            for path in new:
                path.unlink(missing_ok=True)
            if not was_there and folder.path.is_dir() and not any(folder.path.iterdir()):
                folder.path.rmdir()
        raise


def _keep_images(path: Path, **arrays: Any) -> None:
    """Write the images, or find the same ones there: an audit is about one set of images."""
    content = io.BytesIO()
    np.savez(content, **arrays)
    if not path.exists():
        write_bytes(path, content.getvalue())
    elif path.read_bytes() != content.getvalue():
        raise ValueError(f"{path} must hold these images and labels, got others; choose another out, or remove it")


def _numbered(labels: Any) -> tuple[list[str], Any, dict[str, Any]]:
    """The names of the classes, any labels as numbers from 0, and the label that each name stands for."""
    values = np.asarray(labels).ravel().tolist()
    for place, value in enumerate(values):
        if value is None or value != value:  # NaN differs from itself
            raise ValueError(f"every image must have a label, got {value} for image {place}; leave it out, or label it")
    value_of = {str(value): value for value in values}
    names = natural_order(set(value_of))
    number = {name: index for index, name in enumerate(names)}
    return names, np.array([number[str(value)] for value in values], dtype=np.int64), value_of


def _check_wishes(config: TrainConfig, folds: int, workers: int) -> None:
    if folds < 1:
        raise ValueError(f"folds must be at least 1, got {folds}; 1 is one network for all images")
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    if workers > folds:
        raise ValueError(
            f"workers must be at most folds, the number of networks, got {workers} for {folds}; try --folds {workers}"
        )
    if config.fold is not None:
        raise ValueError("an audit makes its own folds; say how many with --folds")
    pictures = Path(config.data).expanduser()
    own = config.data not in list_datasets() and pictures.is_dir()
    # The next audit would take the pictures of this one for those of a class.
    if own and config.out.resolve().is_relative_to(pictures.resolve()):
        raise ValueError(
            f"the audit must be written outside the folder of pictures, got {config.out.resolve()} in "
            f"{pictures.resolve()}; choose another place with --out"
        )


def _check_source(folder: AuditFolder, config: TrainConfig) -> None:
    """A folder holds the audit of one source: what was decided about its pictures must not be taken for others."""
    source = with_full_paths(config).data
    for run in find_runs(folder.runs_folder):
        if (before := run.read_settings().data) != source:
            raise ValueError(f"{folder.path} holds an audit of {before}, got {source}; choose another --out")


def _write(folder: AuditFolder, config: TrainConfig, data: Dataset, everything: Pool, answers: Answers) -> None:
    """Judge, look for duplicates, and write everything; the summary last."""
    folder.summary_file.unlink(missing_ok=True)  # a kill must not leave the files of two audits
    judged = judge(answers.distances, everything.images.labels, answers.networks, config.coverage)
    issues = make_issues(data.class_names, everything, answers, judged)
    order = sorted(range(len(issues)), key=lambda index: (issues[index].label_score, index))
    write_tensors(folder.distances_file, {"distances": answers.distances, "networks": answers.networks})
    folder.write_issues([issues[index] for index in order])
    summary = summarise(config, data, issues, answers, folder)
    write_page(folder, data.class_names, everything.images, issues, order, answers, summary)
    if config.corrections is None:
        folder.former_file.unlink(missing_ok=True)
    else:
        former = read_corrections(config.corrections.expanduser())
        write_corrections(folder.former_file, former)
        if not folder.corrections_file.exists():
            write_corrections(folder.corrections_file, former)  # one file is enough to train with
    write_json(folder.summary_file, summary)


def make_issues(class_names: Sequence[str], everything: Pool, answers: Answers, judged: Judgement) -> list[Issue]:
    """A row for each image, in their order."""
    images = everything.images
    labels = images.labels.tolist()
    exact = {index for members in exact_sets(images.images) for index in members}
    sets = near_sets(images.images)
    set_of = {index: number for number, members in enumerate(sets) for index in members}
    first_pixels = [_distinct(members, images.images) for members in sets]
    issues = []
    for index, name in enumerate(everything.names):
        number = set_of.get(index)
        others = [] if number is None else [other for other in sets[number] if other != index]
        issues.append(
            Issue(
                path=name,
                split=everything.splits[index],
                given_label=class_names[labels[index]],
                predicted_label=class_names[int(judged.suggested[index])],
                kind=judged.kinds[index],
                is_label_issue=judged.kinds[index] == "wrong label",
                label_score=float(judged.quality[index]),
                is_outlier_issue=judged.kinds[index] == "odd",
                distance_given=float(judged.own[index]),
                distance_predicted=float(judged.nearest[index]),
                network=int(answers.networks[index]),
                is_exact_duplicate_issue=index in exact,
                is_near_duplicate_issue=number is not None and first_pixels[number] > 1,
                duplicate_set=number,
                duplicate_in_other_class=any(labels[other] != labels[index] for other in others),
                duplicate_in_other_split=any(everything.splits[other] != everything.splits[index] for other in others),
            )
        )
    return issues


def _distinct(members: list[int], images: Tensor | MappedImages) -> int:
    """How many different pictures a set of copies has."""
    return len({images[index].numpy().tobytes() for index in members})


def summarise(
    config: TrainConfig, data: Dataset, issues: Sequence[Issue], answers: Answers, folder: AuditFolder
) -> dict[str, Any]:
    """What summary.json holds."""
    kinds = Counter(issue.kind for issue in issues)
    wrong = Counter((issue.given_label, issue.predicted_label) for issue in issues if issue.is_label_issue)
    of_class = {name: Counter[str]() for name in data.class_names}
    for issue in issues:
        of_class[issue.given_label][issue.kind] += 1
    results = [run.read_result() for run in answers.runs]
    return {
        "hitnet": hitnet.__version__,
        "data": data.name,
        "source": config.data,
        "images": len(issues),
        "classes": list(data.class_names),
        "way": "one network" if len(answers.runs) == 1 else f"{len(answers.runs)} folds",
        "seconds": round(sum(result["seconds"] for result in results), 1),
        "kinds": {kind: kinds[kind] for kind in KINDS},
        "per_class": {
            name: {"images": counts.total(), **{kind: counts[kind] for kind in KINDS}}
            for name, counts in of_class.items()
        },
        "wrong_labels": [
            {"given": given, "suggested": suggested, "images": count}
            for (given, suggested), count in wrong.most_common()
        ],
        "duplicates": count_duplicates(issues),
        "networks": [
            {
                "run": run.path.resolve().relative_to(folder.path.resolve()).as_posix(),
                "error": result["test"]["error"],
                "epochs": result["epochs"],
                "seconds": result["seconds"],
            }
            for run, result in zip(answers.runs, results, strict=True)
        ],
        "notes": list(data.notes),
        "settings": {name: value for name, value in asdict(config).items() if isinstance(value, (str, int, float))},
    }


def count_duplicates(issues: Sequence[Issue]) -> dict[str, int]:
    """Sets of copies, and how many of them are of which sort."""
    sets = [[issues[place] for place in members] for members in duplicate_sets(issues).values()]
    return {
        "sets": len(sets),
        "images": sum(map(len, sets)),
        "exact": sum(not members[0].is_near_duplicate_issue for members in sets),
        "near": sum(members[0].is_near_duplicate_issue for members in sets),
        "in_one_class": sum(not members[0].duplicate_in_other_class for members in sets),
        "in_different_classes": sum(any(m.duplicate_in_other_class for m in members) for members in sets),
        "across_splits": sum(any(m.duplicate_in_other_split for m in members) for members in sets),
    }
