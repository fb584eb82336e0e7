"""What a data set is: the images and labels of two splits, kept whole in memory as uint8."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import interpolate


@dataclass(frozen=True, eq=False)
class ImageSet:
    """One split: uint8 images (count, channels, height, width) and int64 labels (count,)."""

    images: Tensor
    labels: Tensor
    files: tuple[str, ...] | None = None
    """The picture file of each image, relative to the folder they come from; None for other sources."""

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
        indices = indices.to(self.images.device)
        files = None if self.files is None else tuple(self.files[index] for index in indices.tolist())
        return ImageSet(self.images[indices], self.labels[indices], files)


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
        digest = hashlib.sha256()
        for part in (self.train, self.test, *([] if self.validation is None else [self.validation])):
            digest.update(str(tuple(part.images.shape)).encode())
            digest.update(part.images.cpu().contiguous().numpy().data)
            digest.update(part.labels.cpu().contiguous().numpy().data)
        return digest.hexdigest()[:16]


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


def resize_dataset(dataset: Dataset, size: tuple[int, int] | None) -> Dataset:
    """All images resized to (height, width); None leaves them as they are."""
    _, height, width = dataset.image_shape
    if size is None or size == (height, width):
        return dataset
    note = f"images resized to {size[1]}×{size[0]} from {width}×{height}"
    return replace(dataset.with_parts(lambda part: _resize(part, size)), notes=(*dataset.notes, note))


def in_channels(dataset: Dataset, channels: int) -> Dataset:
    """Grey images with three equal channels, or colour images in grey, as a model expects them."""
    if dataset.image_shape[0] == channels or {dataset.image_shape[0], channels} != {1, 3}:
        return dataset
    if channels == 3:
        changed, note = dataset.with_parts(_in_colour), "grey images are given to the network in three equal channels"
    else:
        changed, note = dataset.with_parts(_in_grey), "colour images are given to the network in grey"
    return replace(changed, notes=(*dataset.notes, note))


def _in_colour(data: ImageSet) -> ImageSet:
    return replace(data, images=data.images.expand(-1, 3, -1, -1).contiguous())


def _in_grey(data: ImageSet) -> ImageSet:
    weights = torch.tensor([299, 587, 114], dtype=torch.int32).view(1, 3, 1, 1)  # of perceived brightness, BT.601
    pieces = [((piece.int() * weights).sum(1, keepdim=True) + 500) // 1000 for piece in data.images.split(4096)]
    return replace(data, images=torch.cat(pieces).byte())


def _resize(data: ImageSet, size: tuple[int, int]) -> ImageSet:
    # In pieces: as float32 the whole set would take four times its memory.
    pieces = [
        interpolate(piece.float(), size, mode="bilinear", antialias=True).round_().clamp_(0, 255).byte()
        for piece in data.images.split(4096)
    ]
    return replace(data, images=torch.cat(pieces))
