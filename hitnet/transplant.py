"""HoM in any other network: its last fully connected layer and softmax make room for a Hit-or-Miss head."""

from typing import Any

import torch
from torch import Tensor, nn

from hitnet.config import ModelConfig
from hitnet.encoders import Encoder
from hitnet.heads import HitOrMissHead
from hitnet.model import Model, evaluating, make_decoder


def with_hit_or_miss(
    module: nn.Module,
    num_classes: int = 10,
    capsule_dim: int = 16,
    *,
    classifier: str | None = None,
    image_shape: tuple[int, int, int] | None = None,
    **options: Any,
) -> Model:
    """Swap the last Linear of any classifier for HoM; the module itself, changed, is the encoder of the new model.

    `classifier` names that Linear where it cannot be told; a softmax module behind it goes too. With `image_shape`
    the model gets a decoder, and its images must lie in [0, 1]: a normalisation belongs inside the module.
    `options` are the other fields of `ModelConfig`.

        >>> plain = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
        >>> with_hit_or_miss(plain, num_classes=10)(torch.rand(2, 1, 28, 28)).scores.shape
        torch.Size([2, 10])
    """
    config = ModelConfig.from_options(
        name=type(module).__name__, image_shape=image_shape, num_classes=num_classes, capsule_dim=capsule_dim, **options
    )
    name = find_classifier(module) if classifier is None else classifier
    linear = dict(module.named_modules()).get(name)
    if not isinstance(linear, nn.Linear):
        raise ValueError(f"classifier must name a Linear of the module, got {name!r}; it has {_described(module)}")
    head = HitOrMissHead(linear.in_features, config)
    decoder = make_decoder(config, default="paper")
    encoder = Backbone(_without_classifier(module, name), linear.in_features, name)
    model = Model(encoder, head, decoder, config)
    for part in (head, decoder):
        if part is not None:
            part.to(device=linear.weight.device, dtype=linear.weight.dtype)
    if image_shape is not None:
        encoder.check_that_nothing_follows(linear.weight.new_zeros(1, *image_shape))
    return model


def find_classifier(module: nn.Module) -> str:
    """The name of the last Linear, if there can be no doubt: no other one has as many outputs."""
    linears = _linears(module)
    if not linears:
        raise ValueError(
            f"{type(module).__name__} has no Linear that HoM could replace; end it with one, "
            "or use hitnet.HitOrMiss(in_features, num_classes) as its last layer"
        )
    name, last = list(linears.items())[-1]
    if sum(linear.out_features == last.out_features for linear in linears.values()) > 1:
        raise ValueError(
            f"cannot tell which Linear of {type(module).__name__} is the classifier; "
            f"say classifier='name', one of {_described(module)}"
        )
    return name


class Backbone(Encoder):
    """Somebody else's network without its classifier: images -> (batch, num_features)."""

    def __init__(self, module: nn.Module, num_features: int, classifier: str) -> None:
        super().__init__()
        self.module, self.num_features, self.classifier = module, num_features, classifier

    def forward(self, images: Tensor) -> Tensor:
        features = self.module(images)
        if not isinstance(features, Tensor) or features.shape != (images.shape[0], self.num_features):
            got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
            raise ValueError(
                f"without {self.classifier!r} the module must return features of shape "
                f"({images.shape[0]}, {self.num_features}), got {got}; name the right Linear with classifier='name'"
            )
        return features

    @torch.no_grad()
    def check_that_nothing_follows(self, image: Tensor) -> None:
        """HoM sees what the classifier saw, so the module must not work on the classifier's output any more."""
        seen: list[Tensor] = []
        place = self.module.get_submodule(self.classifier)
        hook = place.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
        try:
            with evaluating(self):
                features = self(image)
        finally:
            hook.remove()
        if not seen or not torch.equal(seen[-1], features):
            raise ValueError(
                f"the module goes on computing after {self.classifier!r} (a softmax, perhaps); "
                "remove that, or name the right Linear with classifier='name'"
            )


def _without_classifier(module: nn.Module, name: str) -> nn.Module:
    """The module with Identity in the classifier's place, and in that of any softmax behind it."""
    if name == "":
        return nn.Identity()
    names = [other for other, _ in module.named_modules()]
    for other in names[names.index(name) :]:
        if other == name or isinstance(module.get_submodule(other), (nn.Softmax, nn.LogSoftmax)):
            parent, _, child = other.rpartition(".")
            setattr(module.get_submodule(parent), child, nn.Identity())
    return module


def _linears(module: nn.Module) -> dict[str, nn.Linear]:
    return {name: part for name, part in module.named_modules() if isinstance(part, nn.Linear)}


def _described(module: nn.Module) -> str:
    return ", ".join(f"{name} ({part.in_features}→{part.out_features})" for name, part in _linears(module).items())
