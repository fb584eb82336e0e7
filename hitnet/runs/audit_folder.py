"""The folder of an audit. `summary.json` is written last: if it exists, the audit is finished."""

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hitnet.files import read_json, write_table
from hitnet.runs.run import Run

LARGEST_TABLE = 500_000_000  # bytes of issues.csv


@dataclass(frozen=True)
class Issue:
    """What the audit says of one picture: a line of issues.csv. Names are cleanlab's where it has them."""

    path: str
    """The picture file in the data set's folder; of other sources as in train/17, the split and the number in it."""
    split: str
    """train, validation or test."""
    given_label: str
    predicted_label: str
    """The class that is hit, if exactly one is; otherwise the nearest."""
    kind: str
    """wrong label, ambiguous, odd or fine."""
    is_label_issue: bool
    """Whether it is a wrong label."""
    label_score: float
    """How well the given label fits, 0..1; low is bad."""
    is_outlier_issue: bool
    """Whether it is odd."""
    distance_given: float
    """Distance to the centre of the given class, in units of its radius: up to 1 is a hit."""
    distance_predicted: float
    """The same for the predicted class."""
    network: int
    """The number of the network that judged it, from 0, as in summary.json."""
    is_exact_duplicate_issue: bool
    """Whether another picture has the same pixels."""
    is_near_duplicate_issue: bool
    """Whether another picture is nearly the same."""
    duplicate_set: int | None
    """The same number for all pictures that are copies of each other; None if there is no other."""
    duplicate_in_other_class: bool
    duplicate_in_other_split: bool


COLUMNS = tuple(field.name for field in fields(Issue))


@dataclass(frozen=True)
class AuditFolder:
    """One audit on disk. Only this class knows where its files are.

    runs/                 the run folders of its networks
    distances.safetensors the distance of each picture to each class
    issues.csv            one line per picture, the most suspicious first
    index.html            the most suspicious ones as pictures
    corrections.csv       what a person decided about them, and what was corrected before
    former.csv            what was corrected before, with --corrections
    images.npz            the images themselves, if they came from Python
    summary.json          counts, settings and networks
    """

    path: Path

    @property
    def runs_folder(self) -> Path:
        return self.path / "runs"

    @property
    def distances_file(self) -> Path:
        return self.path / "distances.safetensors"

    @property
    def issues_file(self) -> Path:
        return self.path / "issues.csv"

    @property
    def page_file(self) -> Path:
        return self.path / "index.html"

    @property
    def corrections_file(self) -> Path:
        return self.path / "corrections.csv"

    @property
    def former_file(self) -> Path:
        return self.path / "former.csv"

    @property
    def images_file(self) -> Path:
        return self.path / "images.npz"

    @property
    def summary_file(self) -> Path:
        return self.path / "summary.json"

    @property
    def is_begun(self) -> bool:
        """Whether there is a network of an audit, finished or not."""
        return any(self.runs_folder.glob("*/*-fold-*"))

    @property
    def is_finished(self) -> bool:
        return self.summary_file.is_file() and self.issues_file.is_file()

    def read_summary(self) -> dict[str, Any]:
        summary = read_json(self.summary_file)
        networks = summary.get("networks")
        if not (isinstance(networks, list) and networks and all(isinstance(each, dict) for each in networks)):
            raise ValueError(f"{self.summary_file} does not say which networks judged; audit again")
        return summary

    def networks(self) -> list[Run]:
        """The runs of the networks that judged, in their order."""
        runs = []
        for each in self.read_summary()["networks"]:
            place = (self.path / str(each.get("run"))).resolve()
            if not place.is_relative_to(self.runs_folder.resolve()):
                raise ValueError(f"{self.summary_file} names a network outside {self.runs_folder}; audit again")
            runs.append(Run.open(place))
        return runs

    def write_issues(self, issues: Sequence[Issue]) -> None:
        rows = ([_cell(getattr(issue, name)) for name in COLUMNS] for issue in issues)
        write_table(self.issues_file, [COLUMNS, *rows])

    def read_issues(self) -> list[Issue]:
        if not self.is_finished:
            raise FileNotFoundError(f"there is no finished audit in {self.path}; make one with: hitnet audit DATA")
        if (size := self.issues_file.stat().st_size) > LARGEST_TABLE:
            raise ValueError(f"{self.issues_file} has {size / 1e6:.0f} MB, expected at most {LARGEST_TABLE / 1e6:.0f}")
        with io.StringIO(os.fsdecode(self.issues_file.read_bytes()), newline="") as text:
            lines = csv.DictReader(text, strict=True)
            try:
                return [_issue(line) for line in lines]
            except (csv.Error, KeyError, TypeError, ValueError) as error:
                raise ValueError(
                    f"{self.issues_file}, line {lines.line_num}: not a line of an audit ({error!r}); audit again"
                ) from None


def duplicate_sets(issues: Sequence[Issue]) -> dict[int, list[int]]:
    """Which issues are copies of each other: the places of the members, by number of the set."""
    sets: dict[int, list[int]] = {}
    for place, issue in enumerate(issues):
        if issue.duplicate_set is not None:
            sets.setdefault(issue.duplicate_set, []).append(place)
    return sets


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _issue(line: dict[str, str]) -> Issue:
    words = {"True": True, "False": False}
    values: dict[str, Any] = {}
    for field in fields(Issue):
        text = line[field.name]
        if field.type is bool:
            values[field.name] = words[text]
        elif field.type is float:
            values[field.name] = float(text)
        elif field.type is str:
            values[field.name] = text
        else:
            values[field.name] = int(text) if text else None
    return Issue(**values)
