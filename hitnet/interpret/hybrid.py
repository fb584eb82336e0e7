"""Hybrid data augmentation: the network deforms what it understood of an image, and the image keeps its details."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from hitnet.checks import check_labels
from hitnet.interpret.prototypes import draw, unit
from hitnet.layer import HitOrMiss
from hitnet.model import Model, evaluating


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
        self.model, self.tweak = model, unit(model) if tweak is None else tweak
        if not 0 <= self.tweak < math.inf:
            raise ValueError(f"tweak must be a number from 0 on, got {tweak}; the paper has 0.025")

    def __call__(self, images: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.make(images, labels, generator).images

    @torch.no_grad()
    def make(self, images: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Hybrids:
        """The new images together with both drawings."""
        check_labels(labels, len(images), self.model.head.num_classes)
        with evaluating(self.model):
            capsules = self.model.capsules(images)
        own = capsules[torch.arange(len(images), device=labels.device), labels.long()]
        # Drawn where the generator lives, so that one seed gives the same images on every device.
        device = None if generator is None else generator.device
        moves = self.tweak * (2 * torch.rand(own.shape, generator=generator, device=device) - 1)
        moved = own + moves.to(own)
        if isinstance(self.model.head.layer, HitOrMiss):
            moved = moved.clamp(0, 1)  # a sigmoid goes no further
        reconstruction, modified = draw(self.model, torch.cat([own, moved]), labels.repeat(2)).chunk(2)
        # In this order nothing is lost to rounding where nothing moved.
        return Hybrids((images + (modified - reconstruction)).clamp(0, 1), reconstruction, modified)
