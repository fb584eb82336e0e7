"""The image that a class has at its centre, drawn without any training image."""

import torch
from torch import Tensor

from hitnet.model import Model, evaluating


@torch.no_grad()
def prototypes(model: Model) -> Tensor:
    """The decoder's picture of each class's centre: (classes, channels, height, width)."""
    head = model.head
    parameter = next(model.parameters())
    centre = torch.full((head.num_classes, head.num_classes, head.capsule_dim), 0.5).to(parameter)
    with evaluating(model):
        return model.decode(centre, torch.arange(head.num_classes, device=parameter.device))
