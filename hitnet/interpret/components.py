"""How the components of true-class capsules are distributed, compared with what is expected."""

import math
from dataclasses import dataclass

import torch
from scipy import stats
from torch import Tensor

from hitnet.core.checks import check_labels
from hitnet.core.layer import CENTRE
from hitnet.core.model import Model


def true_capsules(model: Model, images: Tensor, labels: Tensor) -> Tensor:
    """The true class's capsule of each image, in evaluation mode: images, (batch,) -> (batch, dims)."""
    check_labels(labels, len(images), model.head.num_classes)
    return model.all_capsules(images)[torch.arange(len(images), device=images.device), labels.long()]


@dataclass(frozen=True)
class ComponentStatistics:
    """How the components of true-class capsules are distributed, for each class and component: (classes, dims)."""

    mean: Tensor
    deviation: Tensor
    histogram: Tensor
    """(classes, dims, bins): counts between the edges."""
    edges: Tensor
    """(bins + 1,)"""
    gaussian_distance: Tensor
    """Largest difference between the measured distribution and N(0.5, m/√n) (Kolmogorov–Smirnov), in 0..1."""
    expected_deviation: float
    """m/√n"""

    def pooled(self) -> tuple[Tensor, Tensor]:
        """Mean and deviation of each component over the images of all classes: (dims,), (dims,)."""
        weights = self.histogram.sum(2).double()
        weights = weights / weights.sum(0)
        # Classes without images have weight 0 and NaN as mean.
        mean, deviation = (values.double().nan_to_num() for values in (self.mean, self.deviation))
        centre = (weights * mean).sum(0)
        return centre, ((weights * (deviation**2 + mean**2)).sum(0) - centre**2).clamp(min=0).sqrt()


def component_statistics(
    model: Model, images: Tensor, labels: Tensor, bins: int = 40, *, capsules: Tensor | None = None
) -> ComponentStatistics:
    """Distribution of the true class's components over images; classes without images get NaN and empty histograms.

    `capsules` are the true class's, if they are already computed.
    """
    own = (true_capsules(model, images, labels) if capsules is None else capsules).cpu()
    labels = labels.cpu()
    classes, dims, width = model.head.num_classes, model.head.capsule_dim, model.head.unit
    low, high = max(0.0, CENTRE - 4 * width), min(1.0, CENTRE + 4 * width)
    mean, deviation, distance = (torch.full((classes, dims), math.nan) for _ in range(3))
    histogram = torch.zeros(classes, dims, bins)
    for index in labels.unique().tolist():
        values = own[labels == index]
        mean[index], deviation[index] = values.mean(0), values.std(0, correction=0)
        largest = stats.ks_1samp(values.double().numpy(), stats.norm(CENTRE, width).cdf, method="asymp", axis=0)
        distance[index] = torch.from_numpy(largest.statistic)
        for component in range(dims):
            inside = values[:, component].clamp(low, high)
            histogram[index, component] = torch.histc(inside, bins, low, high)
    return ComponentStatistics(mean, deviation, histogram, torch.linspace(low, high, bins + 1), distance, width)


@dataclass(frozen=True)
class ComponentSummary:
    """All components of all true-class capsules together, without style, and what is expected of them."""

    mean: float
    deviation: float
    expected_deviation: float
    """m/√n; the mean is expected at 0.5."""
