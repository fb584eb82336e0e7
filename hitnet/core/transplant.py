"""HoM in any other network: a Hit-or-Miss head replaces its last fully connected layer and softmax."""

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from hitnet.core.encoders import Encoder
from hitnet.core.heads import HitOrMissHead
from hitnet.core.model import Model, evaluating, make_decoder
from hitnet.settings import ModelConfig


def with_hit_or_miss(
    module: nn.Module,
    num_classes: int = 10,
    capsule_dim: int = 16,
    *,
    classifier: str | None = None,
    image_shape: tuple[int, int, int] | None = None,
    **options: Any,
) -> Model:
    """Replace the last Linear of any classifier with HoM; the module, modified in place, is the new model's encoder.

    `classifier` names that Linear if it is ambiguous; a softmax module applied to its output is removed too. With
    `image_shape` the model gets a decoder, and its images must lie in [0, 1]: any normalisation belongs inside the
    module. Without it, the first images show whether anything follows the classifier, and a softmax is removed only if
    it comes right after the classifier in a Sequential. `options` are the other fields of `ModelConfig`.

        >>> plain = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
        >>> with_hit_or_miss(plain, num_classes=10)(torch.rand(2, 1, 28, 28)).scores.shape
        torch.Size([2, 10])
    """
    if image_shape is None and options.get("decoder") is None:
        options["decoder"] = "none"
    config = ModelConfig.from_options(
        name=type(module).__name__, image_shape=image_shape, num_classes=num_classes, capsule_dim=capsule_dim, **options
    )
    name = find_classifier(module) if classifier is None else classifier
    linear = dict(module.named_modules()).get(name)
    if not isinstance(linear, nn.Linear):
        raise ValueError(f"classifier must name a Linear of the module, got {name!r}; it has {_described(module)}")
    head = HitOrMissHead(linear.in_features, config)
    decoder = make_decoder(config, head)
    for part in (head, decoder):
        if part is not None:
            part.to(device=linear.weight.device, dtype=linear.weight.dtype)
    if module is linear:
        return Model(Backbone(nn.Identity(), linear.in_features, name), head, decoder, config)

    image = None if config.image_shape is None else _ramp(config.image_shape).to(linear.weight)
    encoder, taken_out = Backbone(module, linear.in_features, name), dict[str, nn.Module]()
    try:
        for place in [name, *_softmax_after(module, name, image)]:
            taken_out[place] = module.get_submodule(place)
            _put(module, place, nn.Identity())
        if image is not None:
            encoder.check_that_nothing_follows(image)
    except Exception as error:
        for place, layer in taken_out.items():
            _put(module, place, layer)
        if not isinstance(error, RuntimeError):
            raise
        raise ValueError(
            f"without {name!r} the module cannot process images of shape {config.image_shape}: {error}"
            "; check image_shape, or name the right Linear with classifier='name'"
        ) from error
    return Model(encoder, head, decoder, config)


def find_classifier(module: nn.Module) -> str:
    """The name of the last Linear; an error if another one has as many outputs."""
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
            f"pass classifier='name', one of {_described(module)}"
        )
    return name


class Backbone(Encoder):
    """A user's own network without its classifier: images -> (batch, num_features)."""

    def __init__(self, module: nn.Module, num_features: int, classifier: str) -> None:
        super().__init__()
        self.module, self.num_features, self.classifier = module, num_features, classifier
        self.nothing_follows = False

    def forward(self, images: Tensor) -> Tensor:
        # The check costs a forward pass, so it is done once; a graph being compiled has no values to check.
        if not torch.compiler.is_compiling() and not self.nothing_follows:
            self.check_that_nothing_follows(images)
        return self._features(images)

    @torch.no_grad()
    def check_that_nothing_follows(self, images: Tensor) -> None:
        """HoM takes the classifier's input, so the module must not compute anything after the classifier."""
        seen: list[Tensor] = []
        place = self.module.get_submodule(self.classifier)
        hook = place.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
        try:
            with evaluating(self):
                features = self._features(images)
        finally:
            hook.remove()
        # Usually the very same tensor, otherwise an equal one, perhaps of another type.
        if not seen or not (seen[-1] is features or torch.equal(seen[-1].to(features), features)):
            raise ValueError(
                f"the module computes something after {self.classifier!r} (perhaps a softmax); "
                "remove it, or name the right Linear with classifier='name'"
            )
        self.nothing_follows = True

    def _features(self, images: Tensor) -> Tensor:
        features = self.module(images)
        if not isinstance(features, Tensor) or features.shape != (images.shape[0], self.num_features):
            got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
            raise ValueError(
                f"without {self.classifier!r} the module must return features of shape "
                f"({images.shape[0]}, {self.num_features}), got {got}; name the right Linear with classifier='name'"
            )
        return features


@torch.no_grad()
def _softmax_after(module: nn.Module, classifier: str, image: Tensor | None) -> list[str]:
    """The names of the softmax modules whose only input is the classifier's output.

    The order of definition proves nothing: a softmax defined after the classifier may belong to an attention layer.
    """
    softmaxes = {name: part for name, part in module.named_modules() if isinstance(part, (nn.Softmax, nn.LogSoftmax))}
    if image is None:
        parent, dot, _ = classifier.rpartition(".")
        row = module.get_submodule(parent)
        names = [parent + dot + name for name, _ in row.named_children()] if isinstance(row, nn.Sequential) else []
        return [name for before, name in pairwise(names) if before == classifier and name in softmaxes]
    outputs: list[Tensor] = []
    given: dict[str, list[Tensor]] = {name: [] for name in softmaxes}
    hooks = [module.get_submodule(classifier).register_forward_hook(lambda *call: outputs.append(call[2]))]
    for name, part in softmaxes.items():
        hooks.append(part.register_forward_pre_hook(lambda _part, inputs, name=name: given[name].extend(inputs)))
    try:
        with evaluating(module):
            module(image)
    finally:
        for hook in hooks:
            hook.remove()
    ids = {id(output) for output in outputs}
    return [name for name, tensors in given.items() if tensors and {id(tensor) for tensor in tensors} <= ids]


def _put(module: nn.Module, place: str, part: nn.Module) -> None:
    parent, _, child = place.rpartition(".")
    setattr(module.get_submodule(parent), child, part)


def _ramp(image_shape: tuple[int, int, int]) -> Tensor:
    """One image that fades from black to white, so that no layer sees only zeros: (1, channels, height, width)."""
    return torch.linspace(0, 1, math.prod(image_shape)).view(1, *image_shape)


def _linears(module: nn.Module) -> dict[str, nn.Linear]:
    return {name: part for name, part in module.named_modules() if isinstance(part, nn.Linear)}


def _described(module: nn.Module) -> str:
    return ", ".join(f"{name} ({part.in_features}→{part.out_features})" for name, part in _linears(module).items())
