"""One picture file as the tensor that a model expects."""

import torch
from torch import Tensor

from hitnet.pictures import Source, read_pixels
from hitnet.settings import Fit


def read_image(source: Source, image_shape: tuple[int, int, int], fit: Fit = "stretch") -> tuple[Tensor, str | None]:
    """A picture as a model expects it, and how it was converted: -> uint8 (channels, height, width), note or None."""
    pixels, note = read_pixels(source, image_shape, fit)
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous(), note
