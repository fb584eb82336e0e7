"""Digits on 40×40: placed at random, as training for affNIST requires, or deformed into a test set like affNIST's."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from hitnet.data.transforms import affine_maps, warp
from hitnet.data.variation import shift

FRAME = 40
CANVAS = 64  # room for any deformed digit before it is placed
ROTATION = math.radians(20)
SHEAR = 0.2
SCALE = (0.8, 1.2)


def place_at_random(images: Tensor, *, generator: torch.Generator) -> Tensor:
    """Each image on a black 40×40 frame, all places equally likely: (count, 1, 28, 28) -> (…, 40, 40)."""
    margin = (FRAME - images.shape[-1]) // 2
    # In pieces: the indices of a shift take eight bytes per one-byte pixel.
    pieces = pad(images, (margin,) * 4).split(4096)
    return torch.cat([shift(piece, margin, generator=generator) for piece in pieces])


def deform(images: Tensor, *, generator: torch.Generator) -> Tensor:
    """Digits after a random affine map, entirely inside the frame: uint8 (count, 1, 28, 28) -> (count, 1, 40, 40).

    The recipe: rotation within ±20°, horizontal shear within ±0.2, height and width scaled independently by 0.8 to 1.2,
    each uniform, bilinear interpolation; then a whole-pixel shift, uniform over those that keep all ink in the frame.
    """
    return torch.cat([_deform(piece, generator) for piece in images.split(1000)])


def _deform(images: Tensor, generator: torch.Generator) -> Tensor:
    around = (CANVAS - images.shape[-1]) // 2
    canvas = pad(images, (around,) * 4).float()
    warped = warp(canvas, _random_maps(len(images), generator)).round_().clamp_(0, 255).byte()
    rows = _random_window(warped.amax(dim=(1, 3)) > 0, generator)
    columns = _random_window(warped.amax(dim=(1, 2)) > 0, generator)
    return warped[torch.arange(len(images))[:, None, None], 0, rows[:, :, None], columns[:, None, :]][:, None]


def _random_maps(count: int, generator: torch.Generator) -> Tensor:
    angle, shear, tall, wide = torch.rand(4, count, generator=generator)
    angle, shear = (2 * angle - 1) * ROTATION, (2 * shear - 1) * SHEAR
    tall, wide = (SCALE[0] + (SCALE[1] - SCALE[0]) * uniform for uniform in (tall, wide))
    return affine_maps(angle, shear, wide, tall)


def _random_window(inked: Tensor, generator: torch.Generator) -> Tensor:
    """The canvas lines that a random frame shows, including all ink: bool (count, CANVAS) -> (count, FRAME)."""
    line = torch.arange(CANVAS)
    first = torch.where(inked, line, CANVAS).amin(1)
    last = torch.where(inked, line, -1).amax(1)
    if int((last - first).max()) >= FRAME:
        raise ValueError(f"a deformed digit must fit {FRAME} pixels, got one of {int((last - first).max()) + 1}")
    # The frame must start no later than the ink and end no earlier, without leaving the canvas.
    low = (last - FRAME + 1).clamp(min=0)
    high = first.clamp(max=CANVAS - FRAME)
    start = low + (torch.rand(len(inked), generator=generator) * (high - low + 1)).long().minimum(high - low)
    return start[:, None] + torch.arange(FRAME)
