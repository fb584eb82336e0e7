"""Whole-pixel shifts and mirror images of a batch, on its device, without a loop over images."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad


def shift(images: Tensor, limit: int, *, generator: torch.Generator) -> Tensor:
    """Each image moved by up to `limit` whole pixels per axis, zeros moving in: (count, c, h, w) -> same."""
    return move(images, draw_offsets(len(images), limit, generator).to(images.device), limit)


def flip(images: Tensor, *, generator: torch.Generator) -> Tensor:
    """Each image mirrored left to right with probability one half: (count, c, h, w) -> same."""
    return mirror(images, draw_coins(len(images), generator).to(images.device))


def draw_offsets(count: int, limit: int, generator: torch.Generator) -> Tensor:
    """Moves (down, right), uniform in {-limit..limit}: (count, 2)."""
    if limit < 0:
        raise ValueError(f"the limit of shifts must be 0 pixels or more, got {limit}")
    return torch.randint(-limit, limit + 1, (count, 2), generator=generator, device=generator.device)


def draw_coins(count: int, generator: torch.Generator) -> Tensor:
    """Fair coins: (count,) of bool."""
    return torch.rand(count, generator=generator, device=generator.device) < 0.5


def move(images: Tensor, offsets: Tensor, limit: int) -> Tensor:
    """Images moved by their (down, right), at most `limit`: (count, c, h, w), (count, 2) -> (count, c, h, w)."""
    count, channels, height, width = images.shape
    down, right = (limit - offsets).unbind(1)
    rows = down[:, None] + torch.arange(height, device=images.device)
    columns = right[:, None] + torch.arange(width, device=images.device)
    # One gather from the padded batch, still in bytes: a pixel's place in its own padded, flattened image.
    place = (rows[:, :, None] * (width + 2 * limit) + columns[:, None, :]).view(count, 1, height * width)
    padded = pad(images, (limit, limit, limit, limit)).flatten(2)
    return padded.gather(2, place.expand(-1, channels, -1)).view_as(images)


def mirror(images: Tensor, coins: Tensor) -> Tensor:
    """Images whose coin is True mirrored left to right: (count, c, h, w), (count,) -> (count, c, h, w)."""
    return torch.where(coins[:, None, None, None], images.flip(-1), images)
