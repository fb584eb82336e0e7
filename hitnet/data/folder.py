"""A folder of class folders as a data set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from hitnet.data.dataset import Dataset, ImageSet
from hitnet.data.mapped import MappedImages
from hitnet.data.reading import Loading, Pictures, read_pictures
from hitnet.data.split import split_off_test
from hitnet.pictures import SUFFIXES, files_below, foreign_kind, is_picture
from hitnet.settings import Fit

LISTED = 50  # at most this many bad files are listed in an error
SYSTEM_FILES = frozenset({"thumbs.db", "desktop.ini"})

Part = Literal["train", "val", "test"]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True)
class Entry:
    """One picture file, the class folder it is in and whether that is in train/, val/ or test/."""

    path: Path
    class_name: str
    part: Part = "train"


def load_folder(
    root: Path,
    *,
    image_size: tuple[int, int] | None = None,
    test_fraction: float | None = 0.2,
    split_seed: int = 0,
    skip_bad: bool = False,
    fit: Fit = "stretch",
    cache: Path | None = None,
    loading: Loading | None = None,
) -> Dataset:
    """`root/train/<class>/…` and `root/test/<class>/…`, or `root/<class>/…` split by `test_fraction` -> Dataset.

    `root/val/<class>/…` beside train/ and test/ is used for validation.
    """
    notes: list[str] = []
    entries = _find_entries(root, notes)
    pictures = read_pictures(root, [entry.path for entry in entries], image_size, fit, cache, loading or Loading())
    notes += pictures.notes
    readable = _readable(entries, pictures, skip_bad, notes)
    entries = [entries[place] for place in readable.tolist()]
    notes.append(_colour_note(pictures.coloured, len(entries)))
    names = natural_order({entry.class_name for entry in entries})
    index = {name: place for place, name in enumerate(names)}
    labels = torch.tensor([index[entry.class_name] for entry in entries])
    files = tuple(entry.path.relative_to(root).as_posix() for entry in entries)
    images = pictures.images
    whole = ImageSet(images.subset(readable) if isinstance(images, MappedImages) else images[readable], labels, files)
    parts = {part: torch.tensor([entry.part == part for entry in entries]).nonzero()[:, 0] for part in PARTS}
    validation = None
    if len(parts["test"]):
        if untrained := _lacking(names, entries, "train"):
            raise ValueError(f"{root}: train/ lacks {untrained}; every class needs readable pictures there")
        if untested := _lacking(names, entries, "test"):
            notes.append(f"test/ has no pictures of {untested}")
        train, test = parts["train"], parts["test"]
        if len(parts["val"]):
            validation = whole.subset(parts["val"])
            notes.append(f"the {len(validation)} pictures in val/ are used for validation")
    else:
        lonely = [name for name, count in zip(names, labels.bincount().tolist(), strict=True) if count < 2]
        if lonely and test_fraction is not None:
            few = ", ".join(lonely)
            raise ValueError(f"{root}: a split needs at least 2 pictures of each class, got one of {few}; add some")
        train, test = split_off_test(labels, test_fraction, split_seed, notes)
    name = root.resolve().name
    held_out = not len(parts["test"])
    return Dataset(name, whole.subset(train), whole.subset(test), tuple(names), tuple(notes), validation, held_out)


def folder_name(class_name: str) -> str:
    """A class name as a folder name; characters that folder names cannot contain become dashes."""
    return re.sub(r'[/\\:*?"<>|\x00]', "-", class_name).strip(". ") or "-"


def natural_order(names: Iterable[str]) -> list[str]:
    """Sorted in natural order: class2 before class10."""

    def key(name: str) -> tuple[list[tuple[int, int, str]], str]:
        pieces = re.findall(r"[0-9]+|[^0-9]+", name.casefold())
        return [(0, int(piece), "") if piece[0] in "0123456789" else (1, 0, piece) for piece in pieces], name

    return sorted(names, key=key)


def _find_entries(root: Path, notes: list[str]) -> list[Entry]:
    """Every picture under the class folders of `root`, or of its train/, val/ and test/."""
    train, test = _part(root, "train", "training"), _part(root, "test", "testing")
    validation = _part(root, "val", "valid", "validation", "dev")
    if _holds_class_folders(train) != _holds_class_folders(test):
        there, missing = (train, test) if _holds_class_folders(train) else (test, train)
        raise ValueError(
            f"{root} has {there.name}/ with class folders but no such {missing.name}/; add it, "
            f"or give {there} itself to have it split by test_fraction"
        )
    if not _holds_class_folders(train):
        return _class_entries(root, "train", notes)
    entries = _class_entries(train, "train", notes) + _class_entries(test, "test", notes)
    return entries + _class_entries(validation, "val", notes) if _holds_class_folders(validation) else entries


def _part(root: Path, *names: str) -> Path:
    """The folder of one of these names, in upper or lower case."""
    matches = (path for path in root.iterdir() if path.name.casefold() in names)
    return min(matches, default=root / names[0])


def _holds_class_folders(folder: Path) -> bool:
    if not folder.is_dir() or not (inside := [path for path in folder.iterdir() if path.is_dir()]):
        return False
    # A class may be called "train" (the vehicle): then most of its pictures are directly inside.
    loose = sum(is_picture(path) for path in folder.iterdir())
    return not loose or sum(is_picture(path) for path in chain.from_iterable(map(files_below, inside))) > loose


def _check_name(name: str, folder: Path) -> None:
    """Refuse names that are not UTF-8, as in old archives: a run's files could not store them."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the name of the class folder {name!r} in {folder} is not UTF-8; rename it") from None


def _class_entries(folder: Path, part: Part, notes: list[str]) -> list[Entry]:
    """The pictures of each class folder, at any depth; other files are only counted."""
    entries: list[Entry] = []
    others: list[Path] = []
    subfolders = [path for path in folder.iterdir() if path.is_dir()]
    class_folders = {path.name: path for path in subfolders if not path.name.startswith(".")}
    hidden = [path for path in subfolders if path.name.startswith(".") and any(map(is_picture, files_below(path)))]
    notes += [f"folder {path.name}/ in {folder.name}/ is hidden and is left out; rename it" for path in hidden]
    for name in natural_order(class_folders):
        _check_name(name, folder)
        files = {path.relative_to(folder).as_posix(): path for path in files_below(class_folders[name])}
        pictures = [files[key] for key in natural_order(files) if is_picture(files[key])]
        others += [path for path in files.values() if not is_picture(path) and path.name.lower() not in SYSTEM_FILES]
        entries += [Entry(path, name, part) for path in pictures]
        if not pictures:
            notes.append(f"folder {name}/ in {folder.name}/ has no pictures and is left out")
    foreign = Counter(kind for path in others if path.exists() and (kind := foreign_kind(path)))
    unread = [
        f"{count} files in {folder.name}/ are {kind}, which is not read; convert them to JPEG or PNG"
        for kind, count in foreign.items()
    ]
    notes += unread
    if dangling := sum(not path.exists() for path in others):
        notes.append(f"{dangling} links in {folder.name}/ lead to nothing and are left out")
    if rest := len(others) - foreign.total() - dangling:
        notes.append(f"{rest} files in {folder.name}/ are not pictures and are left out")
    if loose := sum(is_picture(path) for path in folder.iterdir()):
        notes.append(f"{loose} pictures in {folder.name}/ are in no class folder and are left out")
    names = natural_order({entry.class_name for entry in entries})
    # A class without test pictures cannot be evaluated, but it can be learned.
    least, folders = (2, "at least 2 class folders") if part == "train" else (1, "a class folder")
    if len(names) < least:
        raise ValueError(
            f"{folder} must hold {folders} with pictures ({', '.join(sorted(SUFFIXES))}), "
            f"got {names or 'none'}; {'; '.join(unread) or 'put the pictures of each class in a folder named after it'}"
        )
    return entries


def _readable(entries: list[Entry], pictures: Pictures, skip_bad: bool, notes: list[str]) -> Tensor:
    """The places of the entries whose pictures could be read; unless bad ones may be skipped, they are an error."""
    bad = list(pictures.bad.values())
    if bad and not skip_bad:
        remedy = "Remove them, or skip them (--skip-bad, skip_bad=True)"
        raise ValueError(f"{len(bad)} of {len(entries)} pictures are bad:\n{_listed(bad)}\n{remedy}")
    if bad:
        notes.append(f"{len(bad)} bad pictures left out:\n{_listed(bad)}")
    if len(bad) == len(entries):
        raise ValueError(f"none of the {len(entries)} pictures can be read:\n{_listed(bad)}")
    return torch.tensor([place for place in range(len(entries)) if place not in pictures.bad])


def _colour_note(coloured: int, total: int) -> str:
    if not coloured:
        return "grey: no picture has colour"
    return "in colour" if coloured == total else f"in colour, although {total - coloured} of {total} pictures are grey"


def _lacking(names: list[str], entries: list[Entry], part: Part) -> str:
    """The classes without pictures in a part."""
    there = {entry.class_name for entry in entries if entry.part == part}
    return ", ".join(name for name in names if name not in there)


def _listed(lines: list[str]) -> str:
    more = [f"  and {len(lines) - LISTED} more"] if len(lines) > LISTED else []
    return "\n".join([*(f"  {line}" for line in lines[:LISTED]), *more])
