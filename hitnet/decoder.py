"""Capsules to images: the capsule of one class, all others set to zero, draws a picture."""

import math

from torch import Tensor, nn

from hitnet.layer import initialise_as_keras, mask_capsules


class PaperDecoder(nn.Module):
    """The paper's decoder: fully connected 512, 1024, image size: (batch, classes, dims), (batch,) -> images."""

    def __init__(self, image_shape: tuple[int, int, int], num_classes: int, capsule_dim: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Linear(num_classes * capsule_dim, 512), nn.ReLU()),
            *(nn.Linear(512, 1024), nn.ReLU()),
            *(nn.Linear(1024, math.prod(image_shape)), nn.Sigmoid()),
            nn.Unflatten(1, image_shape),
        )
        initialise_as_keras(self)

    def forward(self, capsules: Tensor, class_indices: Tensor) -> Tensor:
        return self.layers(mask_capsules(capsules, class_indices).flatten(1))
