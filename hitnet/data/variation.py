"""How training images are varied: whole-pixel shifts, mirroring, and deformations by a trained network."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from hitnet.core.checks import check_labels
from hitnet.core.model import Model, evaluating, load
from hitnet.data.dataset import Dataset
from hitnet.settings import Fill


def to_float(images: Tensor) -> Tensor:
    """Bytes 0..255 as float32 in [0, 1], exactly x/255: any shape -> same."""
    return images.float().div_(255)


class Choices(NamedTuple):
    """The random choices for the images of an epoch, made for all at once; None where there is nothing to choose."""

    offsets: Tensor | None
    mirrored: Tensor | None

    def of(self, start: int, stop: int) -> Choices:
        """The choices for some of the images."""
        return Choices(*(None if chosen is None else chosen[start:stop] for chosen in self))


@dataclass(frozen=True)
class Variation:
    """What is done to training images, in this order. All random choices come from the generator of the run."""

    shift: int = 0
    """Shift by up to this many whole pixels in each direction."""
    fill: Fill = "zeros"
    """What comes in at the edge."""
    flip: bool = False
    """Mirror half of the images."""
    hybrid: HybridAugmentation | None = None
    """Let a trained network deform them."""
    hybrid_fraction: float = 1.0
    """The fraction of each batch that is deformed."""

    def choose(self, count: int, generator: torch.Generator, device: torch.device) -> Choices:
        """The random choices for an epoch of `count` images."""
        # For the whole epoch at once: one copy to the device, and the same choices for any number of processes.
        offsets = random_offsets(count, self.shift, generator).to(device) if self.shift else None
        mirrored = random_coins(count, generator).to(device) if self.flip else None
        return Choices(offsets, mirrored)

    def apply(
        self, images: Tensor, labels: Tensor, choices: Choices, generator: torch.Generator, rank: int = 0
    ) -> Tensor:
        """uint8 (batch, c, h, w), (batch,) -> the varied images as float32 in [0, 1]."""
        if choices.offsets is not None:
            images = move(images, choices.offsets, self.fill)
        if choices.mirrored is not None:
            images = mirror(images, choices.mirrored)
        varied = to_float(images)
        if self.hybrid is None:
            return varied
        # One number per batch: processes with different numbers of images leave the shared generator in the same state.
        seed = int(torch.randint(2**62, (), generator=generator)) + rank
        # The batch is shuffled, so its first images are a random choice.
        count = round(self.hybrid_fraction * len(varied))
        if count == 0:
            return varied
        deformed = self.hybrid(varied[:count], labels[:count], torch.Generator().manual_seed(seed))
        return torch.cat([deformed, varied[count:]])


# ---- shifting and mirroring, on the device of the batch, without a loop over images


def shift(images: Tensor, limit: int, *, fill: Fill = "zeros", generator: torch.Generator) -> Tensor:
    """Each image moved by up to `limit` whole pixels per axis: (count, c, h, w) -> same."""
    return move(images, random_offsets(len(images), limit, generator).to(images.device), fill)


def flip(images: Tensor, *, generator: torch.Generator) -> Tensor:
    """Each image mirrored left to right with probability one half: (count, c, h, w) -> same."""
    return mirror(images, random_coins(len(images), generator).to(images.device))


def random_offsets(count: int, limit: int, generator: torch.Generator) -> Tensor:
    """Moves (down, right), uniform in {-limit..limit}: (count, 2)."""
    if limit < 0:
        raise ValueError(f"the limit of shifts must be 0 pixels or more, got {limit}")
    return torch.randint(-limit, limit + 1, (count, 2), generator=generator, device=generator.device)


def random_coins(count: int, generator: torch.Generator) -> Tensor:
    """Fair coins: (count,) of bool."""
    return torch.rand(count, generator=generator, device=generator.device) < 0.5


def move(images: Tensor, offsets: Tensor, fill: Fill = "zeros") -> Tensor:
    """Images moved by their (down, right): (count, c, h, w), (count, 2) -> (count, c, h, w)."""
    _, channels, height, width = images.shape
    down, right = offsets.unbind(1)
    rows = torch.arange(height, device=images.device) - down[:, None]
    columns = torch.arange(width, device=images.device) - right[:, None]
    # One gather, still in bytes: where a pixel comes from in its own flattened image, or the nearest on the edge.
    place = rows.clamp(0, height - 1)[:, :, None] * width + columns.clamp(0, width - 1)[:, None, :]
    moved = images.flatten(2).gather(2, place.flatten(1)[:, None].expand(-1, channels, -1)).view_as(images)
    if fill == "edge":
        return moved
    outside = ((rows < 0) | (rows >= height))[:, :, None] | ((columns < 0) | (columns >= width))[:, None, :]
    return moved.masked_fill_(outside.unsqueeze(1), 0)


def mirror(images: Tensor, coins: Tensor) -> Tensor:
    """Images whose coin is True mirrored left to right: (count, c, h, w), (count,) -> (count, c, h, w)."""
    return torch.where(coins[:, None, None, None], images.flip(-1), images)


# ---- hybrid augmentation: the network deforms its reconstruction of an image, and the image's details are kept


class Hybrids(NamedTuple):
    """New images and what they are made of, each (batch, channels, height, width)."""

    images: Tensor
    """clip(modified + original − reconstruction, 0, 1)"""
    reconstruction: Tensor
    """What the decoder draws from the images' own capsules."""
    modified: Tensor
    """What it draws after the capsules were moved."""


class HybridAugmentation:
    """Makes new training images with a trained network: (images, labels, generator) -> images.

    Each component of the true class's capsule moves by at most `tweak`; m/√n if not given (the paper's 0.025).
    """

    def __init__(self, model: Model, tweak: float | None = None) -> None:
        self.model, self.tweak = model, model.head.unit if tweak is None else tweak
        if not 0 <= self.tweak < math.inf:
            raise ValueError(f"tweak must be finite and at least 0, got {tweak}; the paper uses 0.025")

    def __call__(self, images: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.make(images, labels, generator).images

    @torch.no_grad()
    def make(self, images: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Hybrids:
        """The new images together with both drawings."""
        check_labels(labels, len(images), self.model.head.num_classes)
        with evaluating(self.model):
            capsules = self.model.capsules(images)
        own = capsules[torch.arange(len(images), device=labels.device), labels.long()]
        # Made where the generator lives, so that one seed gives the same images on every device.
        device = None if generator is None else generator.device
        moves = self.tweak * (2 * torch.rand(own.shape, generator=generator, device=device) - 1)
        moved = self.model.head.nearest_possible(own + moves.to(own))
        reconstruction, modified = self.model.draw(torch.cat([own, moved]), labels.repeat(2)).chunk(2)
        # In this order, unchanged pixels keep their exact values.
        return Hybrids((images + (modified - reconstruction)).clamp(0, 1), reconstruction, modified)


def load_teacher(path: Path, data: Dataset) -> Model:
    """The trained network that deforms images, frozen; it must draw images of the data's shape and classes."""
    teacher = load(path)
    if teacher.decoder is None:
        raise ValueError(f"the teacher in {path}, {teacher.config.name}, has no decoder; use a network that has one")
    known, classes = teacher.config.image_shape, teacher.config.class_names
    if known != data.image_shape:
        raise ValueError(f"the teacher in {path} draws images of shape {known}, {data.name} has {data.image_shape}")
    if classes != data.class_names:
        raise ValueError(
            f"the teacher in {path} has other classes than {data.name}: {', '.join(classes[:5])}, … "
            f"against {', '.join(data.class_names[:5])}, …; train it on the same classes"
        )
    return teacher.requires_grad_(False)


def fingerprint(model: Model) -> str:
    """16 hex digits that change with any weight."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.cpu().contiguous().numpy().data)
    return digest.hexdigest()[:16]
