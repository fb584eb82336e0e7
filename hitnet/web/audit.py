"""An audit opened for deciding: one suspect at a time, and what a person says of it, kept at once. Thread-safe."""

import base64
import hashlib
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from hitnet.core.model import Model
from hitnet.data import list_datasets, read_image, to_bytes, to_float
from hitnet.data.corrections import ACTIONS, Correction, check_fits, read_corrections, write_corrections
from hitnet.data.folds import fold_of, pool
from hitnet.interpret.label_quality import KIND_WORDS, KINDS
from hitnet.interpret.prototypes import prototypes
from hitnet.pictures import SUFFIXES, decode
from hitnet.runs.audit_folder import AuditFolder, Issue, duplicate_sets
from hitnet.runs.reopen import load_data, load_model
from hitnet.web.bundle import webp

LARGEST_SHOWN = 480  # pixels of a picture file's longer side
SHOWS = (*KINDS, "copies", "all", "decided")


class Outdated(ValueError):
    """The decisions changed since the page saw them."""


class Audit:
    """The suspects of an audit, the pictures that they are, and corrections.csv."""

    def __init__(self, folder: AuditFolder, device: str = "cpu") -> None:
        self.folder, self.device = folder, device
        self.issues, self.runs = folder.read_issues(), folder.networks()
        self.settings = self.runs[0].read_own_settings()
        self.models: dict[int, Model] = {}
        self.class_names = self._model(0).config.class_names
        self.lock = Lock()  # of the models, the images and the file of decisions
        self.former: list[tuple[str, Correction | None]] = []  # what each decision replaced, for undoing
        self.places = {issue.path: index for index, issue in enumerate(self.issues)}
        self.sets = duplicate_sets(self.issues)
        begun = read_corrections(folder.former_file) if folder.former_file.is_file() else []
        self.begun = {each.path: each for each in begun}  # what was corrected before the audit
        self._check()

    def _check(self) -> None:
        known = set(self.class_names)
        for issue in self.issues:
            fits = {issue.given_label, issue.predicted_label} <= known and issue.kind in KINDS
            if not (fits and 0 <= issue.network < len(self.runs)):
                raise ValueError(
                    f"{self.folder.issues_file} does not fit its networks: see {issue.path!r}; audit again"
                )

    def describe(self) -> dict[str, Any]:
        """How many suspects of each kind there are, and what was decided so far."""
        decided, version = self._read()
        counts = {kind: sum(issue.kind == kind for issue in self.issues) for kind in KINDS}
        return {
            "counts": {
                **counts,
                "copies": sum(map(len, self.sets.values())),
                "all": len(self.issues),
                "decided": self._count(decided),
            },
            "classes": list(self.class_names),
            "version": version,
            "file": str(self.folder.corrections_file),
            "data": self.settings.data,
        }

    def suspect(self, show: str, place: int) -> dict[str, Any]:
        """The suspect at a place among those that are shown: what was found, decided and drawn."""
        with self.lock:
            decided, version = self._read()
            chosen = self._shown(show, decided)
            if not chosen:
                return {"total": 0, "place": 0, "decided": self._count(decided), "version": version}
            place = min(place, len(chosen) - 1)
            index = chosen[place]
            issue = self.issues[index]
            correction = decided.get(issue.path)
            return {
                "total": len(chosen),
                "place": place,
                "decided": self._count(decided),
                "version": version,
                "index": index,
                "path": issue.path,
                "split": issue.split,
                "given": self.class_names.index(issue.given_label),
                "suggested": self.class_names.index(issue.predicted_label),
                "kind": issue.kind,
                "kind_words": KIND_WORDS[issue.kind],
                "quality": issue.label_score,
                "own": issue.distance_given,
                "nearest": issue.distance_predicted,
                "copies": [self.issues[other].path for other in self._copies(issue) if other != index],
                "decision": None if correction is None else {"action": correction.action, "label": correction.label},
                **self._pictures(issue),
            }

    def decide(self, path: str, action: str, label: str, version: str) -> dict[str, Any]:
        """Keep a decision about a picture on the disk; an empty action removes it."""
        if path not in self.places:
            raise ValueError(f"the audit has no picture {path[:200]!r}; reload the page")
        issue = self.issues[self.places[path]]
        if action and action not in ACTIONS:
            raise ValueError(f"the action must be one of {', '.join(ACTIONS)}, got {action[:40]!r}")
        if action == "relabel" and label not in self.class_names:
            raise ValueError(f"there is no class {label[:40]!r}")
        label = label if action == "relabel" else ""
        with self.lock:
            decided = self._read_same(version)
            before, begun = decided.pop(issue.path, None), self.begun.get(issue.path)
            if begun is not None and (not action or (action, begun.action) == ("keep", "relabel")):
                decided[issue.path] = begun  # the class that is kept is a corrected one
            elif action:
                # The class that the picture has in the data, not the one that a former correction gave it.
                given = issue.given_label if begun is None else begun.given_label
                notes = {} if before is None else before.notes
                decided[issue.path] = Correction(issue.path, action, label, given, notes=notes)
            answer = self._write(decided)
            self.former.append((issue.path, before))
            return answer

    def undo(self, version: str) -> dict[str, Any]:
        """Take the last decision back: what it replaced is there again. Returns its suspect too."""
        with self.lock:
            decided = self._read_same(version)
            path, before = self.former[-1] if self.former else self._last(decided)
            decided.pop(path, None)
            if before is not None:
                decided[path] = before
            answer = self._write(decided)
            self.former = self.former[:-1]
            return answer | {"index": self.places[path]}

    def _last(self, decided: dict[str, Correction]) -> tuple[str, Correction | None]:
        """The picture decided about last, and what was corrected before the audit."""
        for path in reversed(decided):
            if path in self.places and decided[path] != self.begun.get(path):
                return path, self.begun.get(path)
        raise ValueError("there is nothing to undo")

    def place_of(self, index: int, show: str) -> int:
        """Where a suspect is among those that are shown; 0 if it is not."""
        decided, _ = self._read()
        shown = self._shown(show, decided)
        return shown.index(index) if index in shown else 0

    def _copies(self, issue: Issue) -> list[int]:
        """The set of copies that a picture belongs to, itself included."""
        return [] if issue.duplicate_set is None else self.sets[issue.duplicate_set]

    def _shown(self, show: str, decided: dict[str, Correction]) -> list[int]:
        if show == "copies":
            return [index for number in sorted(self.sets) for index in self.sets[number]]
        return [
            index
            for index, issue in enumerate(self.issues)
            if show == "all" or issue.kind == show or (show == "decided" and issue.path in decided)
        ]

    def _read(self) -> tuple[dict[str, Correction], str]:
        """The decisions by path, the last one last, and their version: it changes with the file, whoever writes it."""
        path = self.folder.corrections_file
        if not path.is_file():
            return dict(self.begun), "none"
        version = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        decided = {each.path: each for each in read_corrections(path)}
        for each in decided.values():
            check_fits(
                each, self.begun if each.path in self.begun else self.places, self.class_names, "the audit", path
            )
        return decided, version

    def _count(self, decided: dict[str, Correction]) -> int:
        """Pictures decided about, without those that were left out before the audit."""
        return len(decided.keys() & self.places.keys())

    def _read_same(self, version: str) -> dict[str, Correction]:
        decided, now = self._read()
        if now != version:
            self.former.clear()
            raise Outdated("Another window, or an editor, has changed the decisions. They are shown now; decide again.")
        return decided

    def _write(self, decided: dict[str, Correction]) -> dict[str, Any]:
        write_corrections(self.folder.corrections_file, decided.values())
        _, version = self._read()
        return {"version": version, "decided": self._count(decided)}

    def _pictures(self, issue: Issue) -> dict[str, Any]:
        """The picture, the prototypes of both classes and the network's drawing, as base64 WebP.

        Of a picture that is no longer there or cannot be read, it is said why, and others can still be decided about.
        """
        model, drawn = self._model(issue.network), self._prototypes
        file = self._file(issue)
        try:
            shown, pixels = self._read_picture(issue, file)
        except (OSError, ValueError) as error:
            return {"picture": None, "missing": str(error), "prototypes": None, "redrawn": None}
        packed = {"picture": _packed(shown), "missing": None, "prototypes": None, "redrawn": None}
        if drawn is None:
            return packed
        both = [self.class_names.index(name) for name in (issue.given_label, issue.predicted_label)]
        with torch.no_grad():
            seen = to_float(pixels[None].to(model.device))
            redrawn = model(seen, torch.tensor(both[1:], device=model.device)).reconstruction[0]
        pictures = [_packed(to_bytes(picture).cpu()) for picture in (*drawn[both], redrawn)]
        return packed | {"prototypes": pictures[:2], "redrawn": pictures[2]}

    def _file(self, issue: Issue) -> Path | None:
        """The file of a picture, which lies in the data folder; None for data that are not picture files."""
        root, inside = Path(self.settings.data), Path(issue.path)
        if self.settings.data in list_datasets() or not root.is_dir():
            return None
        # A picture may be a link to one elsewhere, so the name is checked, not where it leads.
        if inside.is_absolute() or ".." in inside.parts or inside.suffix.lower() not in SUFFIXES:
            raise ValueError(f"{issue.path!r} is not a picture in {root}; audit again")
        return root / inside

    def _read_picture(self, issue: Issue, file: Path | None) -> tuple[Tensor, Tensor]:
        """A picture to show, from its own file if there is one, and as the network sees it: uint8 (c, h, w) both."""
        if file is None:
            if issue.path not in self._loaded:
                raise ValueError(f"{self.settings.data} has no image {issue.path!r}; audit again")
            pixels = self._loaded[issue.path]
            return pixels, pixels
        picture = decode(file)
        picture.thumbnail((LARGEST_SHOWN, LARGEST_SHOWN))
        config = self.models[issue.network].config
        assert config.image_shape is not None
        return _from_picture(picture), read_image(file, config.image_shape, config.fit)[0]

    @cached_property
    def _loaded(self) -> dict[str, Tensor]:
        """All images by name, for data that are not picture files."""
        data = load_data(replace(self.settings, fold=None))
        assert self.settings.fold is not None
        self.runs[0].check_same({"data": fold_of(data, self.settings.fold, self.settings.seed).fingerprint})
        everything = pool(data)
        return dict(zip(everything.names, everything.images.images, strict=True))

    @cached_property
    def _prototypes(self) -> Tensor | None:
        """Of the first network, which has finished its drawings; None if it does not draw."""
        return None if self._model(0).decoder is None else prototypes(self._model(0))

    def _model(self, number: int) -> Model:
        if number not in self.models:
            self.models[number] = load_model(self.runs[number].path, self.device)
        return self.models[number]


def _from_picture(picture: Image.Image) -> Tensor:
    pixels = torch.from_numpy(np.array(picture))
    return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)


def _packed(picture: Tensor) -> str:
    return base64.b64encode(webp(picture)).decode()
