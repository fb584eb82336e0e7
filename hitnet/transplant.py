"""HoM in any other network: its last fully connected layer and softmax make room for a Hit-or-Miss head."""

import math
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

    `classifier` names that Linear where it cannot be told; a softmax module right behind it goes too. With
    `image_shape` the model gets a decoder, and its images must lie in [0, 1]: a normalisation belongs inside the
    module. `options` are the other fields of `ModelConfig`.

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
    decoder = make_decoder(config, head, default="none" if image_shape is None else "paper")
    for part in (head, decoder):
        if part is not None:
            part.to(device=linear.weight.device, dtype=linear.weight.dtype)
    if module is linear:
        return Model(Backbone(nn.Identity(), linear.in_features, name), head, decoder, config)

    taken_out = {place: module.get_submodule(place) for place in _classifier_and_softmax(module, name)}
    for place in taken_out:
        _put(module, place, nn.Identity())
    encoder = Backbone(module, linear.in_features, name)
    if config.image_shape is not None:
        try:
            encoder.check_that_nothing_follows(_ramp(config.image_shape).to(linear.weight))
        except Exception:
            for place, part in taken_out.items():
                _put(module, place, part)
            raise
    return Model(encoder, head, decoder, config)


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
        except RuntimeError as error:
            raise ValueError(
                f"without {self.classifier!r} the module cannot take images of shape {tuple(image.shape[1:])}: {error}"
                "; check image_shape, or name the right Linear with classifier='name'"
            ) from error
        finally:
            hook.remove()
        if not seen or not torch.equal(seen[-1], features):
            raise ValueError(
                f"the module goes on computing after {self.classifier!r} (a softmax, perhaps); "
                "remove that, or name the right Linear with classifier='name'"
            )


def _classifier_and_softmax(module: nn.Module, classifier: str) -> list[str]:
    """The names of the classifier and of the softmax right behind it, if there is one."""
    names = [name for name, _ in module.named_modules()]
    behind = names[names.index(classifier) + 1 :][:1]
    # Only right behind: a softmax further on may belong to an attention that was defined after the classifier.
    softmax = [name for name in behind if isinstance(module.get_submodule(name), (nn.Softmax, nn.LogSoftmax))]
    return [classifier, *softmax]


def _put(module: nn.Module, place: str, part: nn.Module) -> None:
    parent, _, child = place.rpartition(".")
    setattr(module.get_submodule(parent), child, part)


def _ramp(image_shape: tuple[int, int, int]) -> Tensor:
    """One image from black to white, which no layer takes for empty: (1, channels, height, width)."""
    return torch.linspace(0, 1, math.prod(image_shape)).view(1, *image_shape)


def _linears(module: nn.Module) -> dict[str, nn.Linear]:
    return {name: part for name, part in module.named_modules() if isinstance(part, nn.Linear)}


def _described(module: nn.Module) -> str:
    return ", ".join(f"{name} ({part.in_features}→{part.out_features})" for name, part in _linears(module).items())
