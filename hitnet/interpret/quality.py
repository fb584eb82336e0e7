"""How good the drawings are, as far as the network itself can tell.

How much of the images the capsules explain, whether drawings are recognised, whether components are read as they were
drawn, and whether prototypes are crisp. An independent network says more: `scripts/judge.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hitnet.core.layer import CENTRE
from hitnet.core.model import TEST_BATCH, Model
from hitnet.data import Batches, ImageSet, at_most, stratified_subset
from hitnet.interpret.components import ComponentStatistics, ComponentSummary, component_statistics, true_capsules
from hitnet.interpret.prototypes import all_deformations, prototypes, sample
from hitnet.interpret.sharpness import blurred, edge_energy


@dataclass(frozen=True)
class Quality:
    """What `quality` measures. Runs made before a number was measured have None in its place.

    Three kinds of drawings are read by the network itself: prototypes; sweeps, which are prototypes with one component
    moved by one or two units; and random samples. *Recognised*: the nearest class is the right one. *Hit*: the right
    class is hit, and no other; None without a hit zone. *Blurred*: recognised after a slight blur. All are shares.
    """

    r2: float
    """1 − SSE(reconstruction) / SSE(class mean)"""
    prototype_r2: float
    """The same with every capsule at the centre: what the prototypes alone explain, zero at best."""
    component_gain: list[float]
    """How much each component adds to that while the others stay at the centre."""
    sweep_change: list[float]
    """The largest change of any pixel (0..1) of any class while the component is swept."""
    prototypes_recognised: float
    samples_recognised: float
    images: int
    """Number of images on which R² was measured."""
    component_images: int
    """Number of those on which the single components were measured."""
    sweeps_recognised: float | None = None
    prototypes_hit: float | None = None
    sweeps_hit: float | None = None
    samples_hit: float | None = None
    """About 0.55 with 16 components if all are read exactly as drawn: the others were drawn beyond the radius."""
    prototypes_blurred: float | None = None
    sweeps_blurred: float | None = None
    samples_blurred: float | None = None
    read_back: list[float] | None = None
    """How much of a change of each component, one unit up and down from the prototype, is read again: 1 is perfect."""
    cross_talk: list[float] | None = None
    """The change read in the other components (root mean square), in parts of the change drawn: 0 is perfect."""
    edge_energy: float | None = None
    """Of a prototype, in parts of a real image's of its class: 1 is as crisp as real."""
    edge_energy_blurred: float | None = None
    """The same if both are blurred: a fine mesh no longer counts as crisp."""

    @property
    def something_varies(self) -> bool:
        """Whether some class has two different images; if none has, R² says nothing."""
        return not self.r2 == self.prototype_r2 == 0

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
        return cls(**{field.name: content[field.name] for field in fields(cls) if field.name in content})

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
    images = model.shrink(images)  # from here on they are only compared with drawings
    variation = variation_within(images, labels)
    generator = torch.Generator().manual_seed(seed)
    drawn = prototypes(model)
    of_prototypes = _read(model, lambda index: drawn[index : index + 1])
    of_sweeps = _read(model, lambda index: moved(model, index))
    of_samples = _read(model, lambda index: sample(model, index, samples_per_class, generator=generator))
    slopes, cross_talk = _read_back(model) if model.head.has_hit_zone else (None, None)
    return Quality(
        r2=_explained(_error(model, images, labels, own), variation),
        prototype_r2=_explained(_error(model, images, labels, torch.full_like(own, CENTRE)), variation),
        component_gain=_component_gains(model, images, labels, own, component_images, generator),
        sweep_change=_sweep_changes(model),
        prototypes_recognised=of_prototypes.recognised,
        samples_recognised=of_samples.recognised,
        images=len(images),
        component_images=component_images,
        sweeps_recognised=of_sweeps.recognised,
        prototypes_hit=of_prototypes.hit,
        sweeps_hit=of_sweeps.hit,
        samples_hit=of_samples.hit,
        prototypes_blurred=of_prototypes.blurred,
        sweeps_blurred=of_sweeps.blurred,
        samples_blurred=of_samples.blurred,
        read_back=slopes,
        cross_talk=cross_talk,
        edge_energy=_edges(drawn, images, labels),
        edge_energy_blurred=_edges(drawn, images, labels, blur=True),
    )


class Measured(NamedTuple):
    """All numbers about capsules and their drawings; those about components only for Hit-or-Miss networks."""

    quality: Quality
    summary: ComponentSummary | None
    statistics: ComponentStatistics | None


def measure(model: Model, data: ImageSet, limit: int = 10_000) -> Measured:
    """Measure on at most `limit` of the images, or on one per class if that is more."""
    data = at_most(data, limit, model.head.num_classes, torch.Generator().manual_seed(0))
    own, images = _look(model, data)
    drawings = quality(model, images, data.labels, capsules=own)
    if not model.head.has_hit_zone:
        return Measured(drawings, None, None)
    counted = own[:, : model.head.counted_dim]
    summary = ComponentSummary(float(counted.mean()), float(counted.std(correction=0)), model.head.unit)
    return Measured(drawings, summary, component_statistics(model, images, data.labels, capsules=own))


def _look(model: Model, data: ImageSet) -> tuple[Tensor, Tensor]:
    """The true class's capsules and the images at the size of drawings: (count, dims), (count, c, h, w).

    In parts: as numbers, all photographs at their full size would not fit into memory.
    """
    capsules, images = [], []
    for pictures, labels in Batches(data, TEST_BATCH):
        capsules.append(true_capsules(model, pictures, labels))
        images.append(model.shrink(pictures))
    return torch.cat(capsules), torch.cat(images)


def variation_within(images: Tensor, labels: Tensor) -> float:
    """Summed squared distances of images to the mean of their class; exactly 0 if all of a class are equal."""
    total = 0.0
    for index in labels.unique():
        of_class = images[labels == index].cpu().double()  # not every device has double precision
        total += float((of_class - of_class.mean(0)).square().sum())
    return total


def _error(model: Model, images: Tensor, labels: Tensor, capsules: Tensor) -> float:
    """Summed squared differences between images and the drawings of their capsules."""
    parts = zip(*(values.split(TEST_BATCH) for values in (images, labels, capsules)), strict=True)
    return sum(float((model.draw(own, label) - image).cpu().double().square().sum()) for image, label, own in parts)


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
    variation = variation_within(images, labels)
    centre = torch.full_like(own, CENTRE)
    without = _explained(_error(model, images, labels, centre), variation)
    gains = []
    for component in range(own.shape[1]):
        capsules = centre.clone()
        capsules[:, component] = own[:, component]
        gains.append(_explained(_error(model, images, labels, capsules), variation) - without)
    return gains


def moved(model: Model, class_index: int, units: tuple[int, ...] = (-2, -1, 1, 2)) -> Tensor:
    """The prototype with one component moved, each in turn: -> (dims · units, channels, height, width)."""
    values = CENTRE + model.head.unit * torch.tensor(units)
    return all_deformations(model, class_index, values).flatten(0, 1)


class _Reading(NamedTuple):
    """Shares of drawings that the network reads as what they should be."""

    recognised: float
    hit: float | None
    blurred: float


def _read(model: Model, draw: Callable[[int], Tensor]) -> _Reading:
    """Let the network read what `draw` makes of each class."""
    shares = []
    for index in range(model.head.num_classes):
        pictures = draw(index)
        scores = model.scores(model.enlarge(pictures))
        hits = scores <= model.head.hit_radius
        alone = hits[:, index] & (hits.sum(1) == 1)
        after_blur = model.scores(model.enlarge(blurred(pictures)))
        right = (model.head.decide(each) == index for each in (scores, after_blur))
        shares.append([float(each.float().mean()) for each in (*right, alone)])
    recognised, still, hit = (fmean(each) for each in zip(*shares, strict=True))
    return _Reading(recognised, hit if model.head.has_hit_zone else None, still)


def _read_back(model: Model) -> tuple[list[float], list[float]]:
    """The slope of each component and its cross-talk, means over classes: -> dims, dims."""
    classes, dims = model.head.num_classes, model.head.capsule_dim
    changes = []
    for index in range(classes):
        read = model.all_capsules(model.enlarge(moved(model, index, (-1, 1))))[:, index]
        down, up = read.unflatten(0, (dims, 2)).unbind(1)
        changes.append((up - down) / (2 * model.head.unit))
    change = torch.stack(changes)  # (classes, component moved, component read)
    slopes = change.diagonal(dim1=1, dim2=2)
    others = (change.square().sum(2) - slopes.square()).clamp(min=0) / max(dims - 1, 1)
    return slopes.mean(0).tolist(), others.sqrt().mean(0).tolist()


def _edges(drawn: Tensor, images: Tensor, labels: Tensor, *, blur: bool = False) -> float | None:
    """Edge energy of each class's drawing in parts of its images', mean over classes; None if no image has edges."""
    ratios = []
    for index in labels.unique().tolist():
        both = (drawn[index : index + 1], images[labels == index])
        own, real = (float(edge_energy(blurred(each) if blur else each).mean()) for each in both)
        if real:
            ratios.append(own / real)
    return fmean(ratios) if ratios else None


def _sweep_changes(model: Model) -> list[float]:
    """The largest change of any pixel of any class over the sweep of each component: -> dims."""
    changes = [
        (pictures.amax(1) - pictures.amin(1)).flatten(1).amax(1)
        for pictures in (all_deformations(model, index) for index in range(model.head.num_classes))
    ]
    return torch.stack(changes).amax(0).tolist()
