"""Where the decoded pictures of a large folder are kept, and how they come there complete or not at all.

A folder of pictures has one place for each size and fit: a folder with the pixels, a record of what they are, and the
fingerprints of data sets made of them. The record names the files by a key; if they change, the place is made anew.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from hitnet.data.download import cache_folder
from hitnet.data.mapped import MappedFile
from hitnet.files import new_folder, read_json, write_json
from hitnet.pictures import Pixels
from hitnet.settings import Fit

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PIXELS, RECORD = "pixels.uint8", "record.json"
FORMAT = 1  # of the record and the pixels; another one is made anew


@dataclass(frozen=True)
class Found:
    """Pixels that were decoded before, and what was noticed then."""

    pixels: MappedFile
    bad: dict[int, str]
    coloured: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """Where the pictures of one folder are kept, decoded to one size."""

    root: Path
    path: Path

    @classmethod
    def of(cls, root: Path, size: tuple[int, int] | None, fit: Fit, cache: Path | None) -> Place:
        """In `cache`, or in the user's cache folder."""
        name = re.sub(r"[^\w-]+", "-", root.resolve().name)[:40]
        wish = f"{root.resolve()}\n{size}\n{fit}".encode(errors="surrogateescape")
        parent = (cache or cache_folder("pictures")).expanduser()
        return cls(root, parent / f"{name}-{hashlib.sha256(wish).hexdigest()[:12]}")

    def find(self, paths: Sequence[Path]) -> Found | None:
        """What was decoded of exactly these files, if anything; an incomplete or damaged one counts as nothing."""
        try:
            record = read_json(self.path / RECORD)
            if record["format"] != FORMAT or record["key"] != self.key(paths):
                return None
            count, channels, height, width = map(int, record["shape"])
            if (self.path / PIXELS).stat().st_size != count * channels * height * width:
                return None
            bad = {int(place): str(why) for place, why in record["bad"].items()}
            pixels = MappedFile(self.path / PIXELS, (count, channels, height, width))
            return Found(pixels, bad, int(record["coloured"]), tuple(map(str, record["notes"])))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def key(self, paths: Sequence[Path]) -> str:
        """Changes with any file's name, size or time of modification."""
        digest = hashlib.sha256()
        for path in paths:
            facts = path.stat()
            digest.update(os.fsencode(path.relative_to(self.root)))
            digest.update(f"\0{facts.st_size} {facts.st_mtime_ns}\n".encode())
        return digest.hexdigest()

    @contextmanager
    def alone(self, waiting: Callable[[], None]) -> Iterator[None]:
        """Only one process at a time is in the block; another one calls `waiting`, and waits."""
        lock = self.path.with_name(f"{self.path.name}.lock")
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = lock.open("wb")
        except OSError as error:
            reason = f"the decoded pictures cannot be written to {lock.parent} ({error.strerror})"
            raise type(error)(f"{reason}; choose another folder with --cache") from error
        with file:
            if fcntl is not None:
                _lock(file, waiting)
            yield

    @contextmanager
    def writing(self, paths: Sequence[Path]) -> Iterator[PicturesFile]:
        """A file to fill; if that succeeds it takes its place, and nothing stays otherwise."""
        key = self.key(paths)  # a picture that changes meanwhile makes it outdated
        with new_folder(self.path, replace=True) as folder, (folder / PIXELS).open("w+b") as file:
            yield PicturesFile(folder, file, key)


@dataclass(frozen=True)
class PicturesFile:
    """Pixels that are being written, one picture after the other."""

    folder: Path
    file: BinaryIO
    key: str

    def add(self, row: Pixels) -> None:
        """The next picture: (3, height, width)."""
        self.file.write(np.ascontiguousarray(row).data)

    def finish(
        self, shape: tuple[int, int, int, int], *, bad: dict[int, str], coloured: int, notes: Sequence[str]
    ) -> None:
        """Say what the file holds; without a coloured picture, it shrinks to one channel."""
        self.file.flush()
        if not coloured:
            _keep_one_channel(self.file, shape)
            shape = (shape[0], 1, *shape[2:])
        os.fsync(self.file.fileno())
        record = {"format": FORMAT, "key": self.key, "shape": shape, "bad": bad, "coloured": coloured, "notes": notes}
        write_json(self.folder / RECORD, record)


def check_room(place: Path, size: int) -> int:
    """The free bytes for a new file, what it replaces included; an error if they are too few."""
    former = place / PIXELS
    room = shutil.disk_usage(place.parent).free + (former.stat().st_size if former.is_file() else 0)
    if room < 1.05 * size:
        raise ValueError(
            f"the decoded pictures take {size / 1e9:.3g} GB, {place.parent} has {room / 1e9:.3g} GB free; make room, "
            "choose another folder with --cache, or a smaller --image-size"
        )
    return room


def _lock(file: BinaryIO, waiting: Callable[[], None]) -> None:
    """The lock of an open file, which ends with the process, however that ends."""
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        remedy = "choose a folder on another disk with --cache"
        raise OSError(f"{file.name} cannot be locked ({error.strerror}); {remedy}") from error


def _keep_one_channel(file: BinaryIO, shape: tuple[int, int, int, int]) -> None:
    """Move the first channel of each picture to the front of the file and cut off the rest."""
    count, channels, height, width = shape
    plane = height * width
    with mmap.mmap(file.fileno(), math.prod(shape)) as mapping:
        for index in range(1, count):
            start = index * channels * plane
            mapping[index * plane : (index + 1) * plane] = mapping[start : start + plane]
        mapping.flush()
    file.truncate(count * plane)
