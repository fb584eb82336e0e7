"""How training images are varied: what is done to them, in what order, and all random choices of an epoch."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hitnet.core.checks import check_labels
from hitnet.core.model import Model, evaluating, load
from hitnet.data.dataset import Dataset
from hitnet.data.transforms import affine_maps, erase, mirror, move, recolour, to_float, warp
from hitnet.errors import listed
from hitnet.settings import Fill

NET = 4  # points along each side of the net that bends images


class Choices(NamedTuple):
    """What was chosen for each image of an epoch, in the order of showing; None where there is nothing to choose."""

    offsets: Tensor | None = None
    """(count, 2): moves (down, right) in whole pixels."""
    mirrored: Tensor | None = None
    """(count,) of bool."""
    maps: Tensor | None = None
    """(count, 2, 2): rotation, shear and scaling."""
    strengths: Tensor | None = None
    """(count, 3): saturation, contrast and brightness as factors."""
    holes: Tensor | None = None
    """(count, 2): the middle of the erased square, as fractions of height and width."""
    bends: Tensor | None = None
    """(count, 2, 4, 4): how much farther (right, down) points of a net come from, as fractions of the shorter side."""

    def of(self, start: int, stop: int) -> Choices:
        """The choices for some of the images."""
        return Choices(*(None if chosen is None else chosen[start:stop] for chosen in self))

    def to(self, device: torch.device) -> Choices:
        return Choices(*(None if chosen is None else chosen.to(device) for chosen in self))


@dataclass(frozen=True)
class Variation:
    """What is done to training images: mirrored, scaled, slanted, turned, moved, bent, recoloured, deformed, hidden.

    All random choices come from the generator of the run.
    """

    shift: int = 0
    """Shift by up to this many whole pixels in each direction."""
    fill: Fill = "zeros"
    """What comes in at the edge."""
    flip: bool = False
    """Mirror each image in every other epoch."""
    rotate: float = 0.0
    """Turn by up to this many degrees."""
    scale: float = 0.0
    """Make wider or narrower, taller or shorter, each by up to this fraction."""
    shear: float = 0.0
    """Slant by up to this many degrees."""
    bend: float = 0.0
    """Move 4×4 points of each image by up to this fraction of its shorter side; what lies between them follows."""
    colour: float = 0.0
    """Change saturation, contrast and brightness, each by up to this fraction."""
    hybrid: HybridAugmentation | None = None
    """Let a trained network deform them."""
    hybrid_fraction: float = 1.0
    """The fraction of each batch that is deformed."""
    erase: float = 0.0
    """Hide a square of this fraction of the shorter side."""
    seed: int = 0
    """Decides which half of the images is mirrored in the first epoch."""

    def choose(self, order: Tensor, epoch: int, generator: torch.Generator, device: torch.device) -> Choices:
        """The choices for an epoch that shows the images in this order, (count,), on a device."""
        # For the whole epoch at once: one copy to the device, and the same choices for any number of processes.
        count = len(order)
        warped = self.rotate or self.scale or self.shear or self.bend
        return Choices(
            offsets=random_offsets(count, self.shift, generator) if self.shift else None,
            mirrored=mirrored_in(epoch, count, self.seed)[order.cpu()] if self.flip else None,
            maps=self._random_maps(count, generator) if warped else None,
            strengths=1 + self.colour * random_signed(count, 3, generator) if self.colour else None,
            holes=torch.rand(count, 2, generator=generator, device=generator.device) if self.erase else None,
            bends=self.bend * random_signed(count, 2 * NET**2, generator).view(-1, 2, NET, NET) if self.bend else None,
        ).to(device)

    def _random_maps(self, count: int, generator: torch.Generator) -> Tensor:
        angle, slant, wide, tall = random_signed(count, 4, generator).unbind(1)
        shear = (math.radians(self.shear) * slant).tan()
        return affine_maps(math.radians(self.rotate) * angle, shear, 1 + self.scale * wide, 1 + self.scale * tall)

    def apply(
        self, images: Tensor, labels: Tensor, choices: Choices, generator: torch.Generator, rank: int = 0
    ) -> Tensor:
        """uint8 (batch, c, h, w), (batch,) -> the varied images as float32 in [0, 1], nothing hidden yet."""
        if choices.mirrored is not None:
            images = mirror(images, choices.mirrored)
        if choices.maps is not None:
            # Bilinear ones would all be softer than the images that the network is tested on.
            bends = None if choices.bends is None else choices.bends * min(images.shape[-2:])
            varied = warp(to_float(images), choices.maps, choices.offsets, self.fill, "bicubic", bends).clamp_(0, 1)
        else:
            varied = to_float(images if choices.offsets is None else move(images, choices.offsets, self.fill))
        if choices.strengths is not None:
            varied = recolour(varied, choices.strengths)
        return varied if self.hybrid is None else self._deform(varied, labels, generator, rank)

    def _deform(self, images: Tensor, labels: Tensor, generator: torch.Generator, rank: int) -> Tensor:
        assert self.hybrid is not None
        # One number per batch: processes with different numbers of images leave the shared generator in the same state.
        seed = int(torch.randint(2**62, (), generator=generator)) + rank
        # The batch is shuffled, so its first images are a random choice.
        count = round(self.hybrid_fraction * len(images))
        if count == 0:
            return images
        deformed = self.hybrid(images[:count], labels[:count], torch.Generator().manual_seed(seed))
        return torch.cat([deformed, images[count:]])

    def hide(self, images: Tensor, choices: Choices) -> Tensor:
        """The varied images as the network sees them: with a square erased, if asked for."""
        return images if choices.holes is None else erase(images, choices.holes, self.erase)


def shift(images: Tensor, limit: int, *, fill: Fill = "zeros", generator: torch.Generator) -> Tensor:
    """Each image moved by up to `limit` whole pixels per axis: (count, c, h, w) -> same."""
    return move(images, random_offsets(len(images), limit, generator).to(images.device), fill)


def random_offsets(count: int, limit: int, generator: torch.Generator) -> Tensor:
    """Moves (down, right), uniform in {-limit..limit}: (count, 2)."""
    if limit < 0:
        raise ValueError(f"the limit of shifts must be 0 pixels or more, got {limit}")
    return torch.randint(-limit, limit + 1, (count, 2), generator=generator, device=generator.device)


def random_signed(count: int, columns: int, generator: torch.Generator) -> Tensor:
    """Uniform in [-1, 1): (count, columns)."""
    return 2 * torch.rand(count, columns, generator=generator, device=generator.device) - 1


def mirrored_in(epoch: int, count: int, seed: int) -> Tensor:
    """Which images are mirrored in an epoch: a half chosen by the seed, and the other half in the next: (count,)."""
    # Not drawn anew: in two epochs, every image is seen once from each side.
    halves = torch.randperm(count, generator=torch.Generator().manual_seed(seed)) % 2
    return halves == epoch % 2


# ---- hybrid augmentation: the network deforms its reconstruction of an image, and the image's details are kept


class Hybrids(NamedTuple):
    """New images, and the drawings that they are made of: (batch, channels, height, width)."""

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
        change = self.model.enlarge(modified) - self.model.enlarge(reconstruction)
        return Hybrids((images + change).clamp(0, 1), reconstruction, modified)


def load_teacher(path: Path, data: Dataset) -> Model:
    """The trained network that deforms images, frozen; it must draw images of the data's shape and classes."""
    teacher = load(path)
    if teacher.decoder is None:
        raise ValueError(f"the teacher in {path}, {teacher.config.name}, has no decoder; use a network that has one")
    known, classes = teacher.config.image_shape, teacher.config.class_names
    if known != data.image_shape:
        raise ValueError(f"the teacher in {path} takes images of shape {known}, {data.name} has {data.image_shape}")
    if classes != data.class_names:
        raise ValueError(
            f"the teacher in {path} has other classes than {data.name}: {listed(classes)} "
            f"against {listed(data.class_names)}; train it on the same classes"
        )
    return teacher.requires_grad_(False)


def fingerprint(model: nn.Module) -> str:
    """16 hex digits that change with any weight."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.cpu().contiguous().numpy().data)
    return digest.hexdigest()[:16]
