"""A folder of class folders as a data set."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Condition
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from hitnet.data.dataset import Dataset, ImageSet
from hitnet.data.split import split_off_test
from hitnet.pictures import SUFFIXES, Pixels, decode, picture_size

LARGEST_KEPT = 128  # pictures of one size are kept as they are up to this side
DEFAULT_SIDES = (28, 64)  # others become squares of their median side, within these bounds
MOST_PIXELS = 50_000_000  # that are decoded at the same time; each takes some ten bytes
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


class Allowance:
    """Lets threads decode pictures at the same time, as long as these have so many pixels together at most."""

    def __init__(self, pixels: int) -> None:
        self.most = self.left = pixels
        self.changed = Condition()

    @contextmanager
    def of(self, pixels: int) -> Iterator[None]:
        """Wait until so many pixels are left, or nobody else has any."""
        pixels = min(pixels, self.most)
        with self.changed:
            self.changed.wait_for(lambda: self.left >= pixels)
            self.left -= pixels
        try:
            yield
        finally:
            with self.changed:
                self.left += pixels
                self.changed.notify_all()


def load_folder(
    root: Path,
    *,
    image_size: tuple[int, int] | None = None,
    test_fraction: float | None = 0.2,
    split_seed: int = 0,
    skip_bad: bool = False,
) -> Dataset:
    """`root/train/<class>/…` and `root/test/<class>/…`, or `root/<class>/…` split by `test_fraction` -> Dataset.

    `root/val/<class>/…` beside train/ and test/ is used for validation.
    """
    notes: list[str] = []
    entries, images = _read_all(_find_entries(root, notes), image_size, skip_bad, notes)
    names = natural_order({entry.class_name for entry in entries})
    labels = torch.tensor([names.index(entry.class_name) for entry in entries])
    files = tuple(entry.path.relative_to(root).as_posix() for entry in entries)
    whole = ImageSet(images, labels, files)
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
    return Dataset(name, whole.subset(train), whole.subset(test), tuple(names), tuple(notes), validation)


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
    # A class may be called "train" (the vehicle): then its pictures are directly inside.
    return (
        folder.is_dir()
        and not any(_is_picture(path) for path in folder.iterdir())
        and any(path.is_dir() for path in folder.iterdir())
    )


def _check_name(name: str, folder: Path) -> None:
    """Refuse names that are not UTF-8, as in old archives: a run's files could not store them."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the name of the class folder {name!r} in {folder} is not UTF-8; rename it") from None


def _class_entries(folder: Path, part: Part, notes: list[str]) -> list[Entry]:
    """The pictures of each class folder, at any depth; other files are only counted."""
    entries: list[Entry] = []
    others = 0
    class_folders = {path.name: path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")}
    for name in natural_order(class_folders):
        _check_name(name, folder)
        files = {
            path.relative_to(folder).as_posix(): path
            for path in class_folders[name].rglob("*")
            if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        }
        pictures = [files[key] for key in natural_order(files) if _is_picture(files[key])]
        others += sum(not _is_picture(path) and path.name.lower() not in SYSTEM_FILES for path in files.values())
        entries += [Entry(path, name, part) for path in pictures]
        if not pictures:
            notes.append(f"folder {name}/ in {folder.name}/ has no pictures and is left out")
    if others:
        notes.append(f"{others} files in {folder.name}/ are not pictures and are left out")
    if loose := sum(_is_picture(path) for path in folder.iterdir()):
        notes.append(f"{loose} pictures in {folder.name}/ are in no class folder and are left out")
    names = natural_order({entry.class_name for entry in entries})
    # A class without test pictures cannot be evaluated, but it can be learned.
    least, folders = (2, "at least 2 class folders") if part == "train" else (1, "a class folder")
    if len(names) < least:
        raise ValueError(
            f"{folder} must hold {folders} with pictures ({', '.join(sorted(SUFFIXES))}), "
            f"got {names or 'none'}; put the pictures of each class in a folder named after it"
        )
    return entries


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()


def _read_all(
    entries: list[Entry], size: tuple[int, int] | None, skip_bad: bool, notes: list[str]
) -> tuple[list[Entry], Tensor]:
    """The readable entries and their pixels, all of one size and colour mode: -> uint8 (count, channels, h, w)."""
    paths = [entry.path for entry in entries]
    with ThreadPoolExecutor() as pool:  # PIL releases the GIL while decoding
        sizes = [each for each in pool.map(_size_or_error, paths) if not isinstance(each, Exception)]
        if size is None and sizes:
            size = _choose_size(sizes, notes)
        pictures = list(pool.map(partial(_pixels_or_error, size=size, allowance=Allowance(MOST_PIXELS)), paths))
    bad = [str(picture) for picture in pictures if isinstance(picture, Exception)]
    if bad and not skip_bad:
        remedy = "Remove them, or skip them (--skip-bad, skip_bad=True)"
        raise ValueError(f"{len(bad)} of {len(paths)} pictures are bad:\n{_listed(bad)}\n{remedy}")
    if bad:
        notes.append(f"{len(bad)} bad pictures left out:\n{_listed(bad)}")
    read = [
        (entry, pixels) for entry, pixels in zip(entries, pictures, strict=True) if not isinstance(pixels, Exception)
    ]
    if not read:
        raise ValueError(f"none of the {len(paths)} pictures can be read:\n{_listed(bad)}")
    kept, pixels = zip(*read, strict=True)
    return list(kept), _stack(pixels, notes)


def _size_or_error(path: Path) -> tuple[int, int] | Exception:
    try:
        return picture_size(path)
    except (ValueError, OSError) as error:
        return error


def _pixels_or_error(path: Path, size: tuple[int, int] | None, allowance: Allowance) -> Pixels | Exception:
    try:
        with allowance.of(math.prod(picture_size(path))):
            return np.asarray(decode(path, size))
    except (ValueError, OSError) as error:
        return error


def _choose_size(sizes: list[tuple[int, int]], notes: list[str]) -> tuple[int, int]:
    """The size of all pictures if they share a small one, else a square of their median side."""
    distinct = sorted(set(sizes), key=math.prod)
    if len(distinct) == 1 and max(distinct[0]) <= LARGEST_KEPT:
        return distinct[0]
    median = round(statistics.median(side for size in sizes for side in size))
    side = min(max(median, DEFAULT_SIDES[0]), DEFAULT_SIDES[1])
    (low_h, low_w), (high_h, high_w) = distinct[0], distinct[-1]
    came = f"{low_w}×{low_h}" if len(distinct) == 1 else f"{len(distinct)} sizes, {low_w}×{low_h} to {high_w}×{high_h}"
    notes.append(f"pictures resized to {side}×{side} (they come in {came}); choose another with image_size")
    return side, side


def _stack(pictures: Sequence[Pixels], notes: list[str]) -> Tensor:
    """Grey (h, w) and colour (h, w, 3) pictures -> (count, 1 or 3, h, w), in colour if any is."""
    grey = sum(picture.ndim == 2 for picture in pictures)
    if grey == len(pictures):
        notes.append("grey: no picture has colour")
        return torch.from_numpy(np.stack(pictures)[:, None])
    notes.append(f"in colour, although {grey} of {len(pictures)} pictures are grey" if grey else "in colour")
    shape = (*pictures[0].shape[:2], 3)
    # Grey pictures get three equal channels.
    coloured = [np.broadcast_to(picture.reshape(*shape[:2], -1), shape) for picture in pictures]
    return torch.from_numpy(np.ascontiguousarray(np.stack(coloured).transpose(0, 3, 1, 2)))


def _lacking(names: list[str], entries: list[Entry], part: Part) -> str:
    """The classes without pictures in a part."""
    there = {entry.class_name for entry in entries if entry.part == part}
    return ", ".join(name for name in names if name not in there)


def _listed(lines: list[str]) -> str:
    more = [f"  and {len(lines) - LISTED} more"] if len(lines) > LISTED else []
    return "\n".join([*(f"  {line}" for line in lines[:LISTED]), *more])
