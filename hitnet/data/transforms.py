"""The changes that make new training images: each takes a batch and what was chosen for each image of it.

All of them are tensor operations on the device of the batch, without a loop over images. `hitnet.data.variation` makes
the choices at random and puts the changes together.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, interpolate

from hitnet.settings import Fill

# How bright each channel looks (ITU-R BT.601), for pictures with red, green and blue.
LUMINANCE = (0.299, 0.587, 0.114)


def to_float(images: Tensor) -> Tensor:
    """Bytes 0..255 as float32 in [0, 1], exactly x/255: any shape -> same."""
    return images.float().div_(255)


def to_bytes(images: Tensor) -> Tensor:
    """The nearest bytes 0..255 of images in [0, 1]: any shape -> same."""
    return (255 * images).round().byte()


def move(images: Tensor, offsets: Tensor, fill: Fill = "zeros") -> Tensor:
    """Images moved by their (down, right): (count, c, h, w), (count, 2) of whole pixels -> (count, c, h, w)."""
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


def mirror(images: Tensor, mirrored: Tensor) -> Tensor:
    """The images marked True mirrored left to right: (count, c, h, w), (count,) -> (count, c, h, w)."""
    return torch.where(mirrored[:, None, None, None], images.flip(-1), images)


def warp(
    images: Tensor,
    maps: Tensor,
    offsets: Tensor | None = None,
    fill: Fill = "zeros",
    interpolation: Literal["bilinear", "bicubic"] = "bilinear",
    bends: Tensor | None = None,
) -> Tensor:
    """Images after their affine map about the middle, moved by (down, right), and bent.

    Bicubic interpolation keeps pictures sharper than bilinear, and goes a little beyond their values at edges.
    Bends say for the points of a net over the result how much farther (right, down) their colour comes from.
    (count, c, h, w) of floats, (count, 2, 2), (count, 2) and (count, 2, net, net) in pixels -> (count, c, h, w).
    """
    height, width = images.shape[-2:]
    # grid_sample needs to know where each new pixel comes from, in units of half the image.
    half = torch.tensor([width / 2, height / 2], device=images.device)
    inverse = torch.linalg.inv(maps) * (half / half[:, None])
    moves = torch.zeros_like(maps[:, 0]) if offsets is None else offsets.flip(1) / half
    origin = torch.cat([inverse, -inverse @ moves[:, :, None]], dim=2)
    grid = affine_grid(origin, list(images.shape), align_corners=False)
    if bends is not None:
        # Points between those of the net move smoothly with their neighbours.
        smooth = interpolate(bends, (height, width), mode="bicubic", align_corners=True)
        # Before the map, which then cannot fold what the net does not.
        bent = (smooth.permute(0, 2, 3, 1) / half).flatten(1, 2) @ inverse.mT
        grid = grid + bent.view_as(grid)
    padding = "border" if fill == "edge" else "zeros"
    return grid_sample(images, grid, mode=interpolation, padding_mode=padding, align_corners=False)


def affine_maps(angle: Tensor, shear: Tensor, wide: Tensor, tall: Tensor) -> Tensor:
    """Rotation by an angle after horizontal shear after scaling: four (count,) -> (count, 2, 2), on (x, y)."""
    zero, one = torch.zeros_like(angle), torch.ones_like(angle)
    cos, sin = angle.cos(), angle.sin()
    rotate, slant, scale = (
        torch.stack(entries, dim=1).view(-1, 2, 2)
        for entries in ((cos, -sin, sin, cos), (one, shear, zero, one), (wide, zero, zero, tall))
    )
    return rotate @ slant @ scale


def erase(images: Tensor, middles: Tensor, fraction: float) -> Tensor:
    """A square in each image replaced by the image's mean colour (cutout); it may reach over the edge.

    Its side is a fraction of the image's shorter one; middles are fractions of height and width:
    (count, c, h, w), (count, 2) in [0, 1] -> (count, c, h, w).
    """
    sides = images.shape[-2:]
    reach = fraction * min(sides) / 2
    rows, columns = (
        (torch.arange(side, device=images.device) + 0.5 - middle[:, None] * side).abs() < reach
        for side, middle in zip(sides, middles.unbind(1), strict=True)
    )
    hole = (rows[:, :, None] & columns[:, None, :]).unsqueeze(1)
    return torch.where(hole, images.mean((2, 3), keepdim=True), images)


def recolour(images: Tensor, strengths: Tensor) -> Tensor:
    """Saturation, contrast and brightness of each image times its strengths: (count, c, h, w), (count, 3) -> same.

    Pictures without red, green and blue have no saturation.
    """
    saturation, contrast, brightness = strengths[:, :, None, None, None].unbind(1)
    if images.shape[1] == len(LUMINANCE):
        weights = torch.tensor(LUMINANCE, device=images.device)[:, None, None]
        images = torch.lerp((images * weights).sum(1, keepdim=True), images, saturation)
    images = torch.lerp(images.mean((1, 2, 3), keepdim=True), images, contrast)
    return (images * brightness).clamp_(0, 1)
