"""How good the drawings are: how much of the images the capsules explain, and whether drawings are recognised."""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hitnet.core.layer import CENTRE
from hitnet.core.model import TEST_BATCH, Model
from hitnet.data import ImageSet, stratified_subset, to_float
from hitnet.interpret.components import ComponentStatistics, ComponentSummary, component_statistics, true_capsules
from hitnet.interpret.prototypes import all_deformations, prototypes, sample


@dataclass(frozen=True)
class Quality:
    """How much of the variation within classes the capsules explain, and whether drawings are classified correctly."""

    r2: float
    """1 − SSE(reconstruction) / SSE(class mean)"""
    prototype_r2: float
    """The same with every capsule at the centre: what the prototypes alone explain, zero at best."""
    component_gain: list[float]
    """How much each component adds to that while the others stay at the centre."""
    sweep_change: list[float]
    """The largest change of any pixel (0..1) of any class while the component is swept."""
    prototypes_recognised: float
    """Share of prototypes that the network itself assigns to their class."""
    samples_recognised: float
    """Share of random samples that it assigns to their class."""
    images: int
    """Number of images on which R² was measured."""
    component_images: int
    """Number of those on which the single components were measured."""

    @property
    def component_r2(self) -> list[float]:
        """R² with one component as it is and the others at the centre: the prototypes' on all images, plus its gain."""
        return [self.prototype_r2 + gain for gain in self.component_gain]

    @property
    def by_importance(self) -> list[int]:
        """Components, the one with the largest gain first."""
        return sorted(range(len(self.component_gain)), key=lambda component: -self.component_gain[component])

    @property
    def dead(self) -> list[int]:
        """Components whose sweep changes no pixel by more than 2 %."""
        return [component for component, change in enumerate(self.sweep_change) if change < 0.02]

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Quality":
        return cls(**{field.name: content[field.name] for field in fields(cls)})

    def to_json(self) -> dict[str, Any]:
        derived = {name: getattr(self, name) for name in ("component_r2", "by_importance", "dead")}
        return {**vars(self), **derived}


def quality(
    model: Model,
    images: Tensor,
    labels: Tensor,
    *,
    capsules: Tensor | None = None,
    component_images: int = 2000,
    samples_per_class: int = 20,
    seed: int = 0,
) -> Quality:
    """Measure a network's drawings on images (float in [0, 1]) and their labels.

    `capsules` are the true class's, if they are already computed. Single components are measured on `component_images`
    of the images, as each of them needs its own drawing of every image, or on one image per class if that is more.
    """
    component_images = min(max(component_images, model.head.num_classes), len(images))
    own = true_capsules(model, images, labels) if capsules is None else capsules
    variation = _within_classes(images, labels)
    generator = torch.Generator().manual_seed(seed)
    drawn = prototypes(model)
    meant = torch.arange(model.head.num_classes, device=drawn.device)
    return Quality(
        r2=_explained(_error(model, images, labels, own), variation),
        prototype_r2=_explained(_error(model, images, labels, torch.full_like(own, CENTRE)), variation),
        component_gain=_component_gains(model, images, labels, own, component_images, generator),
        sweep_change=_sweep_changes(model),
        prototypes_recognised=float((model.predict(drawn) == meant).float().mean()),
        samples_recognised=_samples_recognised(model, samples_per_class, generator),
        images=len(images),
        component_images=component_images,
    )


class Measured(NamedTuple):
    """All numbers about capsules and their drawings; those about components only for Hit-or-Miss networks."""

    quality: Quality
    summary: ComponentSummary | None
    statistics: ComponentStatistics | None


def measure(model: Model, data: ImageSet, limit: int = 10_000) -> Measured:
    """Measure on at most `limit` of the images, or on one per class if that is more."""
    limit = max(limit, model.head.num_classes)
    if len(data) > limit:
        data = data.subset(stratified_subset(data.labels, limit, torch.Generator().manual_seed(0)))
    images = to_float(data.images)
    own = true_capsules(model, images, data.labels)
    drawings = quality(model, images, data.labels, capsules=own)
    if not model.head.has_hit_zone:
        return Measured(drawings, None, None)
    summary = ComponentSummary(float(own.mean()), float(own.std(correction=0)), model.head.unit)
    return Measured(drawings, summary, component_statistics(model, images, data.labels, capsules=own))


def _within_classes(images: Tensor, labels: Tensor) -> float:
    """Summed squared distances of images to the mean of their class."""
    return sum(
        float((of_class - of_class.mean(0)).double().square().sum())
        for of_class in (images[labels == index] for index in labels.unique())
    )


def _error(model: Model, images: Tensor, labels: Tensor, capsules: Tensor) -> float:
    """Summed squared differences between images and the drawings of their capsules."""
    parts = zip(*(values.split(TEST_BATCH) for values in (images, labels, capsules)), strict=True)
    return sum(float((model.draw(own, label) - image).double().square().sum()) for image, label, own in parts)


def _explained(error: float, variation: float) -> float:
    """R²: 1 − SSE / SSE(class mean)."""
    # If nothing varies, R² is 1 for perfect drawings and 0 for any others, as in scikit-learn.
    return 1 - error / variation if variation else float(error == 0)


def _component_gains(
    model: Model, images: Tensor, labels: Tensor, own: Tensor, limit: int, generator: torch.Generator
) -> list[float]:
    """How much R² rises when one component takes its own value instead of the centre's: -> dims."""
    if len(images) > limit:
        chosen = stratified_subset(labels, limit, generator).to(labels.device)
        images, labels, own = images[chosen], labels[chosen], own[chosen]
    variation = _within_classes(images, labels)
    centre = torch.full_like(own, CENTRE)
    without = _explained(_error(model, images, labels, centre), variation)
    gains = []
    for component in range(own.shape[1]):
        capsules = centre.clone()
        capsules[:, component] = own[:, component]
        gains.append(_explained(_error(model, images, labels, capsules), variation) - without)
    return gains


def _samples_recognised(model: Model, per_class: int, generator: torch.Generator) -> float:
    """Share of new images that the network assigns to the class they were made for."""
    right = [
        (model.predict(sample(model, index, per_class, generator=generator)) == index).float().mean()
        for index in range(model.head.num_classes)
    ]
    return float(torch.stack(right).mean())


def _sweep_changes(model: Model) -> list[float]:
    """The largest change of any pixel of any class over the sweep of each component: -> dims."""
    changes = [
        (pictures.amax(1) - pictures.amin(1)).flatten(1).amax(1)
        for pictures in (all_deformations(model, index) for index in range(model.head.num_classes))
    ]
    return torch.stack(changes).amax(0).tolist()
