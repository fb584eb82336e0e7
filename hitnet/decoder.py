"""Capsules to images: the capsule of one class, and nothing of the others, draws a picture."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hitnet.layer import initialise_as_keras, mask_capsules

ImageShape = tuple[int, int, int]


class PaperDecoder(nn.Module):
    """The paper's: the capsules, all but one set to zero, as they are: (batch, classes, dims), (batch,) -> images."""

    def __init__(self, image_shape: ImageShape, num_classes: int, capsule_dim: int, hit_radius: float) -> None:
        super().__init__()
        self.layers = painter(num_classes * capsule_dim, image_shape)

    def forward(self, capsules: Tensor, class_indices: Tensor) -> Tensor:
        return self.layers(mask_capsules(capsules, class_indices).flatten(1))


class StandardisedDecoder(nn.Module):
    """The class, and its capsule's deviations in units of m/√n: (batch, classes, dims), (batch,) -> images.

    The paper's decoder sees inputs that vary by ±0.025 around 0.5 and learns from them only after days; in units of
    their own expected deviation the same differences are plain to see. While training, each deviation is dropped with
    a probability drawn for each image: the centre itself (the prototype) and capsules with a single component moved
    (the sweeps) are then inputs that the decoder was trained on.
    """

    def __init__(self, image_shape: ImageShape, num_classes: int, capsule_dim: int, hit_radius: float) -> None:
        super().__init__()
        self.unit = hit_radius / capsule_dim**0.5
        self.layers = painter(num_classes * (1 + capsule_dim), image_shape)

    def forward(self, capsules: Tensor, class_indices: Tensor) -> Tensor:
        deviations = mask_capsules((capsules - 0.5) / self.unit, class_indices)
        if self.training:
            batch, _, dims = capsules.shape
            kept = torch.rand(batch, 1, dims, device=capsules.device) >= torch.rand(batch, 1, 1, device=capsules.device)
            deviations = deviations * kept
        indicator = F.one_hot(class_indices.long(), capsules.shape[1]).to(capsules)
        return self.layers(torch.cat([indicator, deviations.flatten(1)], dim=1))


def painter(inputs: int, image_shape: ImageShape) -> nn.Sequential:
    """Fully connected 512, 1024, image size: (batch, inputs) -> images."""
    layers = nn.Sequential(
        *(nn.Linear(inputs, 512), nn.ReLU()),
        *(nn.Linear(512, 1024), nn.ReLU()),
        *(nn.Linear(1024, math.prod(image_shape)), nn.Sigmoid()),
        nn.Unflatten(1, image_shape),
    )
    initialise_as_keras(layers)
    return layers
