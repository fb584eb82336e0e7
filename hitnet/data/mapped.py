"""Images in one large file, of which only those in use are in memory."""

from __future__ import annotations

import hashlib
import math
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hitnet.files import read_json, write_json

GIVEN_BACK = 256_000_000  # bytes; after reading so many, their memory is given back
FINGERPRINTS = "fingerprints.json"

Index = int | slice | Sequence[int] | Tensor


class MappedFile:
    """A file of uint8 images (count, channels, height, width), mapped into memory."""

    def __init__(self, path: Path, shape: tuple[int, int, int, int]) -> None:
        self.path, self.shape, self.read = path, shape, 0
        with path.open("rb") as file:
            self.mapping = mmap.mmap(file.fileno(), math.prod(shape), access=mmap.ACCESS_READ)
        self.pixels = np.frombuffer(self.mapping, np.uint8).reshape(shape)

    def rows(self, rows: Tensor) -> Tensor:
        """Copies of some images: (chosen,) -> (chosen, channels, height, width)."""
        chosen = torch.from_numpy(self.pixels[rows.numpy()])
        self.read += chosen.nbytes
        # Pages that were read count as this process's memory until it gives them back; the file keeps them.
        if self.read > GIVEN_BACK and hasattr(mmap, "MADV_DONTNEED"):
            self.mapping.madvise(mmap.MADV_DONTNEED)
            self.read = 0
        return chosen

    def remembered(self, arrangement: str, compute: Callable[[], str]) -> str:
        """The fingerprint of these images in some arrangement, computed once: reading them all takes a while."""
        file = self.path.with_name(FINGERPRINTS)
        try:
            known = read_json(file)
        except (OSError, ValueError):
            known = {}
        if not isinstance(known.get(arrangement), str):
            known[arrangement] = compute()
            with suppress(OSError):  # others may share the folder and not let this process write
                write_json(file, known)
        return str(known[arrangement])


class MappedImages:
    """Some images of a file, in some order. It is indexed and split like a tensor; only the answers are in memory."""

    dtype, ndim = torch.uint8, 4

    def __init__(self, file: MappedFile, rows: Tensor, channels: int | None = None, device: str = "cpu") -> None:
        self.file, self.places = file, rows
        self.channels = channels or file.shape[1]
        self.device = torch.device(device)

    @property
    def shape(self) -> torch.Size:
        return torch.Size((len(self.places), self.channels, *self.file.shape[2:]))

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: Index) -> Tensor:
        """The chosen images, in memory, on the device."""
        places = self._at(index)
        images = in_channels_of(self.file.rows(places.reshape(-1)), self.channels)
        return (images if places.ndim else images[0]).to(self.device)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(len(self)))

    def split(self, size: int) -> Iterator[Tensor]:
        """So many images at a time, in order."""
        return (self[start : start + size] for start in range(0, len(self), size))

    def subset(self, index: Tensor) -> MappedImages:
        """Some of them, still in the file."""
        return MappedImages(self.file, self._at(index), self.channels, str(self.device))

    def to(self, device: torch.device | str) -> MappedImages:
        """The same, whose images are given on another device."""
        return MappedImages(self.file, self.places, self.channels, str(device))

    def in_channels(self, channels: int) -> MappedImages:
        """The same in grey or in colour."""
        return MappedImages(self.file, self.places, channels, str(self.device))

    def arrangement(self) -> bytes:
        """What tells this choice of images from others of the same file."""
        return hashlib.sha256(f"{self.channels} ".encode() + self.places.numpy().tobytes()).digest()

    def _at(self, index: Index) -> Tensor:
        return self.places[index.cpu() if isinstance(index, Tensor) else index]


Images = Tensor | MappedImages


def in_channels_of(images: Tensor, channels: int) -> Tensor:
    """Grey images with three equal channels, or colour images in grey: uint8 (count, 1 or 3, h, w) -> the other."""
    if images.shape[1] == channels:
        return images
    if channels == 3:
        return images.expand(-1, 3, -1, -1).contiguous()
    weights = torch.tensor([299, 587, 114], dtype=torch.int32).view(1, 3, 1, 1)  # of perceived brightness, BT.601
    return (((images.int() * weights).sum(1, keepdim=True) + 500) // 1000).byte()
