"""Pictures that the decoder draws from capsules alone: prototypes, their deformations, new images of a class."""

import torch
from torch import Tensor

from hitnet.core.layer import CENTRE
from hitnet.core.model import Model


def sweep_values(model: Model, steps: int = 11) -> Tensor:
    """The values of a component in a sweep, from two units below the centre to two above: (steps,)."""
    reach = 2 * model.head.unit
    return torch.linspace(CENTRE - reach, CENTRE + reach, steps)


def prototypes(model: Model) -> Tensor:
    """What each class looks like at its centre, drawn without any image: (classes, channels, height, width).

    Only a Hit-or-Miss head is trained to bring its classes to the centre; for others these pictures mean little.
    """
    classes = model.head.num_classes
    return model.draw(torch.full((classes, model.head.capsule_dim), CENTRE), torch.arange(classes))


def deformations(model: Model, class_index: int, component: int, values: Tensor | None = None) -> Tensor:
    """The prototype of a class while one component sweeps over `values`: -> (values, channels, height, width)."""
    _check_index("class_index", class_index, model.head.num_classes)
    _check_index("component", component, model.head.capsule_dim)
    values = sweep_values(model) if values is None else torch.as_tensor(values)
    capsules = torch.full((len(values), model.head.capsule_dim), CENTRE)
    capsules[:, component] = values.to(capsules)
    return model.draw(capsules, torch.full((len(values),), class_index))


def all_deformations(model: Model, class_index: int, values: Tensor | None = None) -> Tensor:
    """The same for every component, in one go: -> (dims, values, channels, height, width)."""
    _check_index("class_index", class_index, model.head.num_classes)
    values = sweep_values(model) if values is None else torch.as_tensor(values)
    dims = model.head.capsule_dim
    capsules = torch.full((dims, len(values), dims), CENTRE)
    capsules[torch.arange(dims), :, torch.arange(dims)] = values.to(capsules)
    pictures = model.draw(capsules.flatten(0, 1), torch.full((dims * len(values),), class_index))
    return pictures.unflatten(0, (dims, len(values)))


def sample(
    model: Model,
    class_index: int,
    count: int,
    spread: float | None = None,
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    """New images of a class from random capsules near the centre: -> (count, channels, height, width).

    `spread` is the standard deviation of each component; m/√n, the expected one, if not given (0.025 in the paper).
    """
    _check_index("class_index", class_index, model.head.num_classes)
    noise = torch.randn(count, model.head.capsule_dim, generator=generator)
    capsules = (CENTRE + noise * (model.head.unit if spread is None else spread)).clamp(0, 1)
    return model.draw(capsules, torch.full((count,), class_index))


def _check_index(name: str, index: int, count: int) -> None:
    if not 0 <= index < count:
        raise ValueError(f"{name} must lie in 0..{count - 1}, got {index}")
