"""One size to another: images to the size of drawings, and drawings to the size of images."""

from collections.abc import Sequence

from torch import Tensor
from torch.nn import functional as F


def resized(pictures: Tensor, size: Sequence[int]) -> Tensor:
    """Pictures of (height, width) `size`; those that have it already stay as they are: (batch, c, h, w) -> same.

    A pixel of a smaller picture is a weighted mean of all that it covers; a larger one is interpolated.
    """
    if pictures.shape[2:] == tuple(size):
        return pictures
    return F.interpolate(pictures, tuple(size), mode="bilinear", antialias=True)
