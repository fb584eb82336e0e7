"""What a page needs to draw on its own: the model in words and numbers, and its decoder's weights as plain bytes."""

from typing import Any

import torch
from torch import nn

from hitnet.core.decoder import PaperDecoder, StandardisedDecoder
from hitnet.core.layer import CENTRE
from hitnet.core.model import Model


def check_drawable(model: Model) -> None:
    """Refuse networks that have no prototypes to look at."""
    if not model.head.has_hit_zone:
        raise ValueError(
            f"{model.config.name} has no Hit-or-Miss layer, so it has no prototypes; "
            "choose a run of hitnet, hitnet-fast or a network with -hom"
        )
    if not isinstance(model.decoder, (PaperDecoder, StandardisedDecoder)):
        raise ValueError(f"this {model.config.name} has no decoder, so it cannot draw; train it with a decoder")


def describe_model(model: Model) -> dict[str, Any]:
    """Everything the page knows about a model, as JSON."""
    standardised = isinstance(model.decoder, StandardisedDecoder)
    return {
        "name": model.config.name,
        "classes": list(model.config.class_names),
        "shape": list(model.config.image_shape or ()),
        "dims": model.head.capsule_dim,
        "unit": model.head.unit,
        "hit_radius": model.config.hit_radius,
        "miss_radius": model.config.miss_radius,
        # What enters the decoder: 1 at the class's own place if `indicator`, and (component − offset) / scale.
        "decoder": {
            "kind": "standardised" if standardised else "paper",
            "indicator": standardised,
            "offset": CENTRE if standardised else 0.0,
            "scale": model.head.unit if standardised else 1.0,
            "layers": [[layer.in_features, layer.out_features] for layer in _linear_layers(model)],
        },
    }


def pack_decoder(model: Model) -> bytes:
    """Little-endian float32: for each layer the weights, one input after the other, then the biases."""
    parts = []
    for layer in _linear_layers(model):
        # By inputs: the page skips all that are zero, and most are.
        parts += [layer.weight.detach().t(), layer.bias.detach()]
    return b"".join(part.cpu().to(torch.float32).contiguous().numpy().astype("<f4").tobytes() for part in parts)


def _linear_layers(model: Model) -> list[nn.Linear]:
    check_drawable(model)
    assert isinstance(model.decoder, (PaperDecoder, StandardisedDecoder))
    return [part for part in model.decoder.layers if isinstance(part, nn.Linear)]
