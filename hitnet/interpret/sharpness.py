"""How crisp pictures are, and what is left of them after a slight blur."""

from torch import Tensor
from torch.nn import functional as F


def edge_energy(images: Tensor) -> Tensor:
    """Squared differences between neighbouring pixels, down and across, per pixel: (batch, c, h, w) -> (batch,)."""
    down, across = (images.diff(dim=dim).square().flatten(1).sum(1) for dim in (2, 3))
    return (down + across) / images[0].numel()


def blurred(images: Tensor) -> Tensor:
    """Each pixel mixed with its eight neighbours, weights (1, 2, 1) both ways, edges repeated: same shape.

    A pattern that only one network sees, such as a fine mesh, is gone afterwards; what people see stays.
    """
    weights = images.new_tensor([1, 2, 1]) / 4
    channels = images.shape[1]
    kernel = (weights[:, None] * weights).expand(channels, 1, 3, 3)
    return F.conv2d(F.pad(images, (1, 1, 1, 1), mode="replicate"), kernel, groups=channels)
