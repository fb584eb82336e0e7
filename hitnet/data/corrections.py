"""Corrections of labels: a CSV file that a person decides about, or writes by hand.

    path,action,label,given_label
    cat/12.png,relabel,dog,cat
    cat/17.png,leave out,,cat
    dog/3.png,keep,,dog

`path` is the name of a picture in the data set's folder; an image of another source has a name as in train/17, its
split and its number in it, from 0. Only relabelling needs a label. `given_label` may be left out; other columns are
kept as they are.
"""

import codecs
import csv
import io
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

import torch

from hitnet.data.dataset import Dataset, ImageSet
from hitnet.data.folds import Split, image_names
from hitnet.errors import check_known, did_you_mean
from hitnet.files import read_record, write_table

Action = Literal["keep", "relabel", "leave out"]
ACTIONS: tuple[Action, ...] = get_args(Action)
COLUMNS = ("path", "action", "label", "given_label")


@dataclass(frozen=True)
class Correction:
    """What a person decided about one image."""

    path: str
    action: Action
    label: str = ""
    """The right class, if it is relabelled."""
    given_label: str = ""
    """Its class when that was decided; empty if unknown."""
    line: int = field(default=0, compare=False)
    """Where it is in its file."""
    notes: dict[str, str] = field(default_factory=dict, compare=False)
    """What other columns say."""


def read_corrections(path: Path) -> list[Correction]:
    """The corrections in a file; an error names the line that cannot be one."""
    try:
        content = read_record(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"there are no corrections in {path}; check --corrections") from None
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{path} is UTF-16, expected UTF-8; save it as CSV UTF-8")
    text = os.fsdecode(content).removeprefix("\ufeff")  # a mark that spreadsheets put first
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    corrections: list[Correction] = []
    lines: dict[str, int] = {}
    try:
        head = next(reader, [])
        places = {name: head.index(name) for name in COLUMNS if name in head}
        if not {"path", "action"} <= places.keys():
            raise ValueError(f"{path}, line 1: expected the columns path, action, label, got {', '.join(head)[:80]!r}")
        for cells in reader:
            if not any(cells):
                continue
            if any(cells[len(head) :]):
                raise ValueError(
                    f"{path}, line {reader.line_num}: expected {len(head)} cells, as the first line has, "
                    f"got {len(cells)}; put names with a comma in quotes, and remove the others"
                )
            given = {name: cells[place] if place < len(cells) else "" for name, place in places.items()}
            notes = {name: cell for name, cell in zip(head, cells, strict=False) if name not in COLUMNS}
            found = replace(_checked(given, path, reader.line_num), notes=notes)
            if (earlier := lines.setdefault(found.path, found.line)) != found.line:
                raise ValueError(
                    f"{path}, line {found.line}: {found.path!r} was in line {earlier} already; remove one of the two"
                )
            corrections.append(found)
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: not a line of a CSV file ({error}); repair it") from None
    return corrections


def _checked(given: dict[str, str], path: Path, line: int) -> Correction:
    action, label = given["action"].strip().lower().replace("-", " "), given.get("label", "")
    if not given["path"]:
        raise ValueError(f"{path}, line {line}: expected the name of a picture in the column path, got none")
    if action not in ACTIONS:
        raise ValueError(f"{path}, line {line}: the action must be {', '.join(ACTIONS)}, got {given['action']!r}")
    if (action == "relabel") != bool(label):
        wanted = (
            "relabel needs the right class in the column label" if action == "relabel" else f"{action} has no label"
        )
        raise ValueError(f"{path}, line {line}: {wanted}, got {label!r}")
    return Correction(given["path"], action, label, given.get("given_label", ""), line)


def write_corrections(path: Path, corrections: Collection[Correction]) -> None:
    """All corrections, in place of the former ones; complete on the disk when this returns."""
    more = tuple(dict.fromkeys(name for each in corrections for name in each.notes))
    rows = (
        [each.path, each.action, each.label, each.given_label, *(each.notes.get(name, "") for name in more)]
        for each in corrections
    )
    write_table(path, [COLUMNS + more, *rows])


def check_fits(each: Correction, names: Collection[str], class_names: Sequence[str], what: str, source: Path) -> None:
    """Refuse an unknown picture or class; the error names its line of `source`, the file. `what` has these names."""
    if each.path not in names:
        raise ValueError(
            f"{source}, line {each.line}: {what} has no picture {each.path!r}; "
            f"{did_you_mean(each.path, names) if len(names) < 2000 else ''}remove the line, or correct it"
        )
    if each.action == "relabel":
        try:
            check_known(each.label, class_names, "class")
        except ValueError as error:
            raise ValueError(f"{source}, line {each.line}: {error}") from None


def correct(data: Dataset, corrections: list[Correction], source: Path) -> Dataset:
    """The data set with corrected labels, without the images left out; errors name the line of `source`, the file."""
    splits: dict[Split, ImageSet | None] = {"train": data.train, "validation": data.validation, "test": data.test}
    places = {
        name: (split, index)
        for split, part in splits.items()
        if part is not None
        for index, name in enumerate(image_names(part, split))
    }
    labels = {split: part.labels.clone() for split, part in splits.items() if part is not None}
    kept = {split: torch.ones(len(part), dtype=torch.bool) for split, part in splits.items() if part is not None}
    for each in corrections:
        check_fits(each, places, data.class_names, data.name, source)
        split, index = places[each.path]
        now = data.class_names[int(labels[split][index])]
        if each.given_label and each.given_label != now:
            raise ValueError(
                f"{source}, line {each.line}: {each.path!r} was {each.given_label!r} when it was decided about, and is "
                f"now {now!r}; decide again, or remove the line"
            )
        if each.action == "relabel":
            labels[split][index] = data.class_names.index(each.label)
        elif each.action == "leave out":
            kept[split][index] = False
    changed = {
        split: replace(part, labels=labels[split], files=image_names(part, split)).subset(kept[split].nonzero()[:, 0])
        for split, part in splits.items()
        if part is not None
    }
    _check_left(changed["train"], data.class_names, source)
    counts = {action: sum(each.action == action for each in corrections) for action in ACTIONS}
    note = f"{counts['relabel']} labels corrected and {counts['leave out']} pictures left out, as {source.name} says"
    return replace(
        data,
        train=changed["train"],
        validation=changed.get("validation"),
        test=changed["test"],
        notes=(*data.notes, note),
    )


def _check_left(train: ImageSet, class_names: tuple[str, ...], source: Path) -> None:
    counts = train.labels.bincount(minlength=len(class_names)).tolist()
    if empty := [name for name, count in zip(class_names, counts, strict=True) if not count]:
        raise ValueError(f"{source} leaves no training images of {', '.join(empty)}; keep some of them")
