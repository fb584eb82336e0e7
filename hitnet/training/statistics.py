"""BatchNorm's averages, computed anew over training images.

While training, they are moving averages: after few steps they still contain the first weights, and a network that has
learned its images well can fail on the same images in evaluation.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from hitnet.core.model import Model, evaluating
from hitnet.data.mapped import Images
from hitnet.training.frozen import FrozenModel

MOST = 5_000  # images: more change the averages no longer
BATCH = 256


@torch.no_grad()
def refresh_norm(model: Model, images: Images, order: Tensor | None = None) -> None:
    """Set the averages of encoder and head to those of these images, as they are: (count, …), bytes or floats.

    Of many images, the first in `order` are taken, or a fixed random choice. The decoder has none, and a frozen encoder
    keeps its own.
    """
    learning = [model.head] if isinstance(model, FrozenModel) else [model.encoder, model.head]
    layers = [part for part in _normalising(*learning) if part.track_running_stats]
    if not layers or len(images) < 2:
        return
    momenta = [layer.momentum for layer in layers]
    if order is None:
        # Shuffled: images of one class only, as a folder lists them, would have other statistics.
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    with evaluating(model):
        try:
            for layer in layers:
                layer.reset_running_stats()
                layer.momentum = None  # the plain mean over all batches
                layer.train()
            # In parts of about equal size, since each counts equally, and none of one image.
            order = order[:MOST]
            for chosen in order.to(images.device).chunk(math.ceil(len(order) / BATCH)):
                model.capsules(_as_input(images[chosen], model))
        finally:
            for layer, momentum in zip(layers, momenta, strict=True):
                layer.momentum = momentum


def _normalising(*modules: nn.Module) -> Iterator[nn.modules.batchnorm._BatchNorm]:
    for module in modules:
        for part in module.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                yield part


def _as_input(images: Tensor, model: Model) -> Tensor:
    images = images.to(model.device)
    return images.to(model.dtype).div_(255) if images.dtype == torch.uint8 else images
