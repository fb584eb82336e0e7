"""Capsules to images: the capsule of one class, and nothing of the others, draws a picture."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hitnet.core.layer import CENTRE, initialise_as_keras, mask_capsules, unit_of
from hitnet.settings import ImageShape

HIDDEN = (512, 1024)


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
    their own expected deviation the same differences are plain to see. While training, one image in four has each of
    its deviations dropped with a probability drawn for that image: the centre itself (the prototype) and capsules with
    a single component moved (the sweeps) are then close to inputs that the decoder was trained on.
    """

    def __init__(self, image_shape: ImageShape, num_classes: int, capsule_dim: int, hit_radius: float) -> None:
        super().__init__()
        self.unit = unit_of(hit_radius, capsule_dim)
        self.layers = painter(num_classes * (1 + capsule_dim), image_shape)
        # Told which deviations were dropped, the decoder need not hedge: a deviation of zero means just that, a sharp
        # picture of the centre, and not the mean over all that the deviation might have been.
        self.dropped = nn.Linear(capsule_dim, HIDDEN[0], bias=False)
        nn.init.zeros_(self.dropped.weight)

    def forward(self, capsules: Tensor, class_indices: Tensor) -> Tensor:
        deviations = mask_capsules((capsules - CENTRE) / self.unit, class_indices)
        indicator = F.one_hot(class_indices.long(), capsules.shape[1]).to(capsules)
        if not self.training:
            return self.layers(torch.cat([indicator, deviations.flatten(1)], dim=1))
        batch, _, dims = capsules.shape
        probability = (4 * torch.rand(batch, 1, device=capsules.device) - 3).clamp(min=0)
        dropped = torch.rand(batch, dims, device=capsules.device) < probability
        kept = deviations * ~dropped.unsqueeze(1)
        hidden = self.layers[0](torch.cat([indicator, kept.flatten(1)], dim=1)) + self.dropped(dropped.to(capsules))
        return self.layers[1:](hidden)


def painter(inputs: int, image_shape: ImageShape) -> nn.Sequential:
    """Fully connected 512, 1024, image size: (batch, inputs) -> images."""
    layers = nn.Sequential(
        *(nn.Linear(inputs, HIDDEN[0]), nn.ReLU()),
        *(nn.Linear(*HIDDEN), nn.ReLU()),
        *(nn.Linear(HIDDEN[1], math.prod(image_shape)), nn.Sigmoid()),
        nn.Unflatten(1, image_shape),
    )
    initialise_as_keras(layers)
    return layers
