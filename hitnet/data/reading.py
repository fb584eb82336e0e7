"""Many picture files, decoded side by side to one size and colour mode: into memory, or into a file if too large."""

from __future__ import annotations

import math
import os
import statistics
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Condition
from typing import TypeVar

import numpy as np
import torch

from hitnet.data.announced import gigabytes
from hitnet.data.cache import Place, check_room
from hitnet.data.mapped import Images, MappedImages
from hitnet.pictures import Pixels, decode, picture_size
from hitnet.settings import Fit

LARGEST_KEPT = 128  # pictures of one size are kept as they are up to this side
DEFAULT_SIDES = (28, 64)  # others become squares of their median side, within these bounds
MOST_IN_MEMORY = 256_000_000  # bytes of pixels in colour; more are kept in a file
MOST_PIXELS = 50_000_000  # that are decoded at the same time; each takes some ten bytes
MANY = 5_000  # files; looking at their sizes takes a few seconds
MOST_SQUEEZED, SQUEEZED = 0.1, 1.25  # share of pictures that may be squeezed by more than this without a note

Size = tuple[int, int]
"""(height, width)"""
Item = TypeVar("Item")
Result = TypeVar("Result")


class Loading:
    """Called as pictures are decoded, to show the progress. This base class does nothing."""

    def announced(self, text: str) -> None:
        """Something that takes long is about to begin."""

    def decoded(self, done: int, total: int) -> None: ...


@dataclass(frozen=True)
class Pictures:
    """The pixels of files, one row for each, and what there is to say of them."""

    images: Images
    bad: dict[int, str]
    """Why a file could not be read, by its place among all; its row is black."""
    coloured: int
    """How many have colour."""
    notes: tuple[str, ...]
    """How they were brought to one size."""


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


def read_pictures(
    root: Path, paths: Sequence[Path], size: Size | None, fit: Fit, cache: Path | None, loading: Loading
) -> Pictures:
    """All pictures of a folder; many of them are decoded once into a file in `cache`, and read from there."""
    place = Place.of(root, size, fit, cache)
    if (known := _from_file(place, paths)) is not None:
        return known
    if len(paths) > MANY:
        loading.announced(f"looking at {len(paths):,} pictures in {root}")
    with ThreadPoolExecutor() as pool:  # PIL releases the GIL while decoding
        sizes = list(_in_order(pool, _size_or_error, paths))
        good = [each for each in sizes if not isinstance(each, Exception)]
        notes: list[str] = []
        target = size or _choose_size(good, notes)
        notes += _shape_notes(good, target, fit)
        decoded = _in_order(pool, Decoder(target, fit), zip(paths, sizes, strict=True))
        shape = (len(paths), 3, *target)
        if math.prod(shape) <= MOST_IN_MEMORY:
            return _into_memory(decoded, shape, notes, loading)
        return _into_file(place, paths, decoded, shape, notes, loading)


def _into_memory(
    decoded: Iterable[Pixels | Exception], shape: tuple[int, int, int, int], notes: list[str], loading: Loading
) -> Pictures:
    pixels = np.zeros(shape, np.uint8)

    def put(index: int, row: Pixels) -> None:
        pixels[index] = row

    bad, coloured = _fill(put, decoded, shape, loading)
    images = torch.from_numpy(pixels if coloured else pixels[:, :1].copy())
    return Pictures(images, bad, coloured, tuple(notes))


def _into_file(
    place: Place,
    paths: Sequence[Path],
    decoded: Iterable[Pixels | Exception],
    shape: tuple[int, int, int, int],
    notes: list[str],
    loading: Loading,
) -> Pictures:
    with place.alone(lambda: loading.announced(f"waiting for another process that decodes into {place.path}")):
        if (known := _from_file(place, paths)) is not None:
            return known  # the other process has made it
        room = check_room(place.path, math.prod(shape))
        announced = f"decoding {len(paths):,} pictures once, into {place.path}"
        loading.announced(f"{announced}: {gigabytes(math.prod(shape))} of {gigabytes(room)} free there")
        with place.writing(paths) as file:
            bad, coloured = _fill(lambda index, row: file.add(row), decoded, shape, loading)
            file.finish(shape, bad=bad, coloured=coloured, notes=notes)
    known = _from_file(place, paths)
    assert known is not None
    return known


def _from_file(place: Place, paths: Sequence[Path]) -> Pictures | None:
    """What was decoded before, if the files are still the same."""
    if (found := place.find(paths)) is None:
        return None
    images = MappedImages(found.pixels, torch.arange(len(paths)))
    size = gigabytes(math.prod(found.pixels.shape))
    kept = f"decoded pictures are kept in {place.path} ({size}) for the next start; remove it when you need the space"
    return Pictures(images, found.bad, found.coloured, (*found.notes, kept))


def _fill(
    put: Callable[[int, Pixels], None],
    decoded: Iterable[Pixels | Exception],
    shape: tuple[int, int, int, int],
    loading: Loading,
) -> tuple[dict[int, str], int]:
    """Put every picture as (3, height, width); grey ones get three equal channels: -> (bad ones, how many coloured)."""
    bad: dict[int, str] = {}
    coloured = 0
    for index, pixels in enumerate(decoded):
        if isinstance(pixels, Exception):
            bad[index] = str(pixels)
            put(index, np.zeros(shape[1:], np.uint8))
        else:
            coloured += pixels.ndim == 3
            put(index, np.broadcast_to(pixels if pixels.ndim == 2 else pixels.transpose(2, 0, 1), shape[1:]))
        loading.decoded(index + 1, shape[0])
    return bad, coloured


class Decoder:
    """Decodes a file whose size is known, or passes on why it is not."""

    def __init__(self, target: Size, fit: Fit) -> None:
        self.target, self.fit, self.allowance = target, fit, Allowance(MOST_PIXELS)

    def __call__(self, file: tuple[Path, Size | Exception]) -> Pixels | Exception:
        path, size = file
        if isinstance(size, Exception):
            return size
        try:
            with self.allowance.of(math.prod(size)):
                return np.asarray(decode(path, self.target, self.fit))
        except (ValueError, OSError) as error:
            return error


def _size_or_error(path: Path) -> Size | Exception:
    try:
        return picture_size(path)
    except (ValueError, OSError) as error:
        return error


def _in_order(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterable[Item], ahead: int = 8
) -> Iterator[Result]:
    """The results in order, with only a few made ahead of their use: `pool.map` would keep them all in memory."""
    waiting: deque[Future[Result]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) > ahead * (os.cpu_count() or 1):
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _choose_size(sizes: list[Size], notes: list[str]) -> Size:
    """The size of all pictures if they share a small one, else a square of their median side."""
    distinct = sorted(set(sizes), key=math.prod)
    if not distinct:  # none can be read, which is said elsewhere
        return DEFAULT_SIDES[0], DEFAULT_SIDES[0]
    if len(distinct) == 1 and max(distinct[0]) <= LARGEST_KEPT:
        return distinct[0]
    median = round(statistics.median(side for size in sizes for side in size))
    side = min(max(median, DEFAULT_SIDES[0]), DEFAULT_SIDES[1])
    (low_h, low_w), (high_h, high_w) = distinct[0], distinct[-1]
    came = f"{low_w}×{low_h}" if len(distinct) == 1 else f"{len(distinct)} sizes, {low_w}×{low_h} to {high_w}×{high_h}"
    notes.append(f"pictures resized to {side}×{side} (they come in {came}); choose another with image_size")
    return side, side


def _shape_notes(sizes: list[Size], target: Size, fit: Fit) -> list[str]:
    """What happens to pictures that are much wider or higher than the target's shape, if there are many."""
    wider = (width * target[0] / (height * target[1]) for height, width in sizes)
    other = sum(max(ratio, 1 / ratio) > SQUEEZED for ratio in wider)
    if other <= MOST_SQUEEZED * len(sizes):
        return []
    shape = f"{other:,} of {len(sizes):,} pictures have another shape than {target[1]}×{target[0]}"
    if fit == "stretch":
        return [f"{shape} and are squeezed; keep their shape with --fit pad or --fit crop, or change --image-size"]
    how = "their middle is taken" if fit == "crop" else "the pixels of their edge are repeated beside them"
    return [f"{shape}: {how} (--fit {fit})"]
