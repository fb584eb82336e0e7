"""Numbers about what capsules know: how their components are distributed, and how much of the images they explain."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hitnet.checks import check_labels
from hitnet.interpret.prototypes import CENTRE, deformations, draw, prototypes, sample, sweep_values, unit
from hitnet.model import Model, evaluating

BATCH = 1000


@dataclass(frozen=True)
class FeatureStatistics:
    """How the components of true-class capsules are distributed, for each class and component: (classes, dims)."""

    mean: Tensor
    deviation: Tensor
    histogram: Tensor
    """(classes, dims, bins): counts between the edges."""
    edges: Tensor
    """(bins + 1,)"""
    gaussian_distance: Tensor
    """Largest difference between the distribution found and the Gaussian N(0.5, m/√n) (Kolmogorov–Smirnov), in 0..1."""
    expected_deviation: float
    """m/√n"""


def feature_statistics(model: Model, images: Tensor, labels: Tensor, bins: int = 40) -> FeatureStatistics:
    """Distribution of the true class's components over images; classes without images get NaN and empty histograms."""
    own = true_capsules(model, images, labels).cpu()
    labels = labels.cpu()
    classes, dims, width = model.head.num_classes, model.head.capsule_dim, unit(model)
    low, high = max(0.0, CENTRE - 4 * width), min(1.0, CENTRE + 4 * width)
    mean, deviation, distance = (torch.full((classes, dims), math.nan) for _ in range(3))
    histogram = torch.zeros(classes, dims, bins)
    for index in labels.unique().tolist():
        values = own[labels == index]
        mean[index], deviation[index] = values.mean(0), values.std(0, correction=0)
        distance[index] = _distance_to_gaussian(values, width)
        for feature in range(dims):
            inside = values[:, feature].clamp(low, high)
            histogram[index, feature] = torch.histc(inside, bins, low, high)
    return FeatureStatistics(mean, deviation, histogram, torch.linspace(low, high, bins + 1), distance, width)


@dataclass(frozen=True)
class Quality:
    """How much of the variation within classes the capsules explain, and whether drawings are taken for their class."""

    r2: float
    """1 − SSE(reconstruction) / SSE(class mean)"""
    prototype_r2: float
    """The same with every capsule at the centre: what the prototypes alone explain, zero at best."""
    component_r2: list[float]
    """The same with one component as it is and the others at the centre."""
    sweep_change: list[float]
    """Mean over the classes of the largest change of any pixel (0..1) while the component is swept."""
    prototypes_recognised: float
    """Share of prototypes that the network itself takes for their class."""
    samples_recognised: float
    """Share of random samples likewise."""

    @property
    def by_importance(self) -> list[int]:
        """Components, the one that explains most first."""
        return sorted(range(len(self.component_r2)), key=lambda feature: -self.component_r2[feature])

    @property
    def dead(self) -> list[int]:
        """Components whose sweep changes no pixel by more than 2 %."""
        return [feature for feature, change in enumerate(self.sweep_change) if change < 0.02]

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "by_importance": self.by_importance, "dead": self.dead}


def quality(model: Model, images: Tensor, labels: Tensor, *, samples_per_class: int = 20, seed: int = 0) -> Quality:
    """Measure a network's drawings on images (float in [0, 1]) and their labels."""
    own = true_capsules(model, images, labels)
    centre = torch.full_like(own, CENTRE)
    variation = _within_classes(images, labels)

    def r2(capsules: Tensor) -> float:
        parts = zip(images.split(BATCH), capsules.split(BATCH), labels.split(BATCH), strict=True)
        error = sum(float((draw(model, part, label) - image).double().square().sum()) for image, part, label in parts)
        return 1 - error / variation

    classes, dims = model.head.num_classes, model.head.capsule_dim
    alone = []
    for feature in range(dims):
        capsules = centre.clone()
        capsules[:, feature] = own[:, feature]
        alone.append(r2(capsules))
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.cat([sample(model, index, samples_per_class, generator=generator) for index in range(classes)])
    meant = torch.arange(classes, device=drawn.device)
    return Quality(
        r2=r2(own),
        prototype_r2=r2(centre),
        component_r2=alone,
        sweep_change=_sweep_changes(model),
        prototypes_recognised=float((model.predict(prototypes(model)) == meant).float().mean()),
        samples_recognised=float((model.predict(drawn) == meant.repeat_interleave(samples_per_class)).float().mean()),
    )


@torch.no_grad()
def true_capsules(model: Model, images: Tensor, labels: Tensor) -> Tensor:
    """The true class's capsule of each image, in evaluation mode: images, (batch,) -> (batch, dims)."""
    check_labels(labels, len(images), model.head.num_classes)
    with evaluating(model):
        parts = [
            model.capsules(part)[torch.arange(len(part), device=part.device), label.long()]
            for part, label in zip(images.split(BATCH), labels.split(BATCH), strict=True)
        ]
    return torch.cat(parts)


def _within_classes(images: Tensor, labels: Tensor) -> float:
    """Summed squared distances of images to the mean of their class."""
    return sum(
        float((of_class - of_class.mean(0)).double().square().sum())
        for of_class in (images[labels == index] for index in labels.unique())
    )


def _sweep_changes(model: Model) -> list[float]:
    ends = sweep_values(model, steps=3)
    changes = torch.zeros(model.head.num_classes, model.head.capsule_dim)
    for index in range(model.head.num_classes):
        for feature in range(model.head.capsule_dim):
            pictures = deformations(model, index, feature, ends)
            changes[index, feature] = (pictures.amax(0) - pictures.amin(0)).max()
    return changes.mean(0).tolist()


def _distance_to_gaussian(values: Tensor, deviation: float) -> Tensor:
    """Kolmogorov–Smirnov distance of each column to N(0.5, deviation): (count, dims) -> (dims,)."""
    count = len(values)
    cumulative = torch.special.ndtr((values.double().sort(0).values - CENTRE) / deviation)
    steps = torch.arange(count, dtype=torch.float64).unsqueeze(1)
    return torch.maximum((steps + 1) / count - cumulative, cumulative - steps / count).amax(0)
