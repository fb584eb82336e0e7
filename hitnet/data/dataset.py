"""What a data set is: the images and labels of two splits, as uint8, in memory or in a file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from hitnet.data.mapped import Images, MappedImages, in_channels_of
from hitnet.settings import Fit

PIECE = 64_000_000  # bytes that are read together


@dataclass(frozen=True, eq=False)
class ImageSet:
    """One split: uint8 images (count, channels, height, width) and int64 labels (count,)."""

    images: Images
    """A tensor, or for large folders what is read from a file when it is indexed."""
    labels: Tensor
    files: tuple[str, ...] | None = None
    """The picture file of each image, relative to the folder they come from, or its place in an .npz without a test
    split, as in train/17; None for other sources."""

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            got = f"{self.images.dtype} of shape {tuple(self.images.shape)}"
            raise ValueError(f"images must be uint8 of shape (count, channels, height, width), got {got}")
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            got = f"{self.labels.dtype} of shape {tuple(self.labels.shape)}"
            raise ValueError(f"labels must be int64, one for each of {len(self.images)} images, got {got}")
        if self.files is not None and len(self.files) != len(self.images):
            raise ValueError(f"files must name one for each of {len(self.images)} images, got {len(self.files)}")

    def __len__(self) -> int:
        return len(self.images)

    def to(self, device: torch.device | str) -> ImageSet:
        """The same images and labels on another device."""
        return replace(self, images=self.images.to(device), labels=self.labels.to(device))

    def subset(self, indices: Tensor) -> ImageSet:
        """Some of the images: (chosen,) indices -> ImageSet of that length and order."""
        indices = indices.to(self.labels.device)
        files = None if self.files is None else tuple(self.files[index] for index in indices.tolist())
        images = self.images
        chosen = images.subset(indices) if isinstance(images, MappedImages) else images[indices]
        return ImageSet(chosen, self.labels[indices], files)

    def pixels(self) -> Tensor:
        """All images in memory: uint8 (count, channels, height, width)."""
        return self.images[:]

    def pieces(self) -> Iterable[Tensor]:
        """All images, one after the other, some at a time."""
        return self.images.split(max(1, PIECE // self.images.shape[1:].numel()))


@dataclass(frozen=True, eq=False)
class Dataset:
    """A training and a test split of the same classes and image shape."""

    name: str
    train: ImageSet
    test: ImageSet
    class_names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What the user should know: conversions, skipped files, generated images."""
    validation: ImageSet | None = None
    """Validation images, if the source itself sets some aside; otherwise some of the training images are held out."""
    test_is_held_out: bool = False
    """Whether the source has no test part, so that the test images are some of its training images, held out."""

    def __post_init__(self) -> None:
        if self.num_classes < 2:
            raise ValueError(f"{self.name}: expected at least 2 classes, got {list(self.class_names)}")
        if self.train.images.shape[1:] != self.test.images.shape[1:]:
            shapes = [tuple(split.images.shape[1:]) for split in (self.train, self.test)]
            raise ValueError(f"{self.name}: training and test images differ in shape, {shapes[0]} and {shapes[1]}")
        for split, part in (("training", self.train), ("test", self.test), ("validation", self.validation)):
            if part is None:
                continue
            if len(part) == 0:
                raise ValueError(f"{self.name}: the {split} split has no images")
            low, high = int(part.labels.min()), int(part.labels.max())
            if low < 0 or high >= self.num_classes:
                expected = f"{split} labels must lie in 0..{self.num_classes - 1}"
                raise ValueError(f"{self.name}: {expected}, got {low}..{high}; check the label file")

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of every image."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    def with_parts(self, change: Callable[[ImageSet], ImageSet]) -> Dataset:
        """The same with every part changed."""
        validation = None if self.validation is None else change(self.validation)
        return replace(self, train=change(self.train), test=change(self.test), validation=validation)

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits that change with any pixel, label or shape of either split."""
        parts = [self.train, self.test, *([] if self.validation is None else [self.validation])]
        if isinstance(self.train.images, MappedImages):
            return self.train.images.file.remembered(_arrangement(parts), lambda: _fingerprint(parts))
        return _fingerprint(parts)


def _fingerprint(parts: list[ImageSet]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(str(tuple(part.images.shape)).encode())
        for piece in part.pieces():
            digest.update(piece.cpu().contiguous().numpy().data)
        digest.update(part.labels.cpu().contiguous().numpy().data)
    return digest.hexdigest()[:16]


def _arrangement(parts: list[ImageSet]) -> str:
    """What tells this data set from others with images in the same file."""
    digest = hashlib.sha256()
    for part in parts:
        assert isinstance(part.images, MappedImages)
        digest.update(part.images.arrangement())
        digest.update(part.labels.cpu().numpy().data)
    return digest.hexdigest()


def parse_size(image_size: int | str | tuple[int, int] | None) -> tuple[int, int] | None:
    """The size that the user gave, one side, (height, width) or "WIDTHxHEIGHT", as (height, width)."""
    if image_size is None:
        return None
    if isinstance(image_size, str):
        sides = re.fullmatch(r"([0-9]{1,6})[x×]([0-9]{1,6})", image_size)
        if sides is None:
            raise ValueError(f"image_size must be a side or WIDTHxHEIGHT in pixels, as in 32x48, got {image_size!r}")
        image_size = (int(sides[2]), int(sides[1]))
    size = (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)
    if len(size) != 2 or not all(isinstance(side, int) and side > 0 for side in size):
        raise ValueError(f"image_size must be a side or (height, width) in pixels, got {image_size!r}")
    return size


def resize_dataset(dataset: Dataset, size: tuple[int, int] | None, fit: Fit = "stretch") -> Dataset:
    """All images resized to (height, width), as `hitnet.pictures.decode` fits them; None leaves them as they are."""
    _, height, width = dataset.image_shape
    if size is None or size == (height, width):
        return dataset
    note = f"images resized to {size[1]}×{size[0]} from {width}×{height}"
    return replace(dataset.with_parts(lambda part: _resize(part, size, fit)), notes=(*dataset.notes, note))


def in_channels(dataset: Dataset, channels: int) -> Dataset:
    """Grey images with three equal channels, or colour images in grey, as a model expects them."""
    if dataset.image_shape[0] == channels or {dataset.image_shape[0], channels} != {1, 3}:
        return dataset
    if channels == 3:
        note = "grey images are given to the network in three equal channels"
    else:
        note = "colour images are given to the network in grey"
    return replace(dataset.with_parts(lambda part: _in_channels(part, channels)), notes=(*dataset.notes, note))


def _in_channels(data: ImageSet, channels: int) -> ImageSet:
    if isinstance(data.images, MappedImages):
        return replace(data, images=data.images.in_channels(channels))
    return replace(data, images=torch.cat([in_channels_of(piece, channels) for piece in data.pieces()]))


def _resize(data: ImageSet, size: tuple[int, int], fit: Fit) -> ImageSet:
    # In pieces: as float32 the whole set would take four times its memory.
    pieces = [_fitted(piece.float(), size, fit).round_().clamp_(0, 255).byte() for piece in data.pieces()]
    return replace(data, images=torch.cat(pieces))


def _fitted(images: Tensor, size: tuple[int, int], fit: Fit) -> Tensor:
    """(count, c, h, w) -> (count, c, *size)."""
    height, width = images.shape[2:]
    if fit == "crop":
        kept = (
            min(height, max(1, round(width * size[0] / size[1]))),
            min(width, max(1, round(height * size[1] / size[0]))),
        )
        top, left = (height - kept[0]) // 2, (width - kept[1]) // 2
        images = images[:, :, top : top + kept[0], left : left + kept[1]]
    scale = min(size[0] / height, size[1] / width)
    inner = (max(1, round(scale * height)), max(1, round(scale * width))) if fit == "pad" else size
    resized = interpolate(images, inner, mode="bilinear", antialias=True)
    below, right = size[0] - inner[0], size[1] - inner[1]
    frame = [right // 2, right - right // 2, below // 2, below - below // 2]
    return pad(resized, frame, mode="replicate") if any(frame) else resized
