"""How certain an answer is: sure, ambiguous or unknown, by split conformal prediction.

On images held out from training, each class gets the radius within which its capsule lands for nearly all images of
that class. For a new image of the same kind, the classes within their radii contain the true one with the same
probability, whatever the network (Vovk, Gammerman and Shafer 2005; per class: Vovk 2012, "Mondrian").
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hitnet.core.checks import check_labels
from hitnet.core.heads import Verdict
from hitnet.core.model import Model

COVERAGE = 0.99


def in_percent(share: float) -> str:
    """Rounded down, so that no promise grows: 99 %, 97.56 %, 99.99 %."""
    return f"{math.floor(10_000 * share + 1e-9) / 100:g} %"


def calibrate(model: Model, images: Tensor, labels: Tensor, coverage: float = COVERAGE) -> None:
    """Set the radii of a model on images that it was not trained on: (batch, channels, height, width), (batch,).

    `coverage` of the true classes are to lie within their radii; fewer than coverage / (1 − coverage) images, 99 for
    0.99, cannot show that, and the model's configuration says how much they do show.
    """
    calibrate_on(model, model.scores(images), labels, coverage)


def calibrate_on(model: Model, scores: Tensor, labels: Tensor, coverage: float = COVERAGE) -> None:
    """The same from scores that are already there: (count, classes), (count,)."""
    if not model.head.has_hit_zone:
        raise ValueError(f"only networks with Hit-or-Miss have radii, {model.config.name} has none; use hitnet-fast")
    radii, shown = conformal_radii(scores.cpu(), labels.cpu(), coverage)
    model.config = replace(model.config, radii=radii, coverage=shown, calibrated_on=len(labels))


def conformal_radii(distances: Tensor, labels: Tensor, coverage: float) -> tuple[tuple[float, ...], float]:
    """(radius of each class, the coverage they guarantee): (count, classes), (count,).

    A class with enough images has a radius of its own, the others share one; the coverage holds for each such group.
    """
    check_labels(labels, *distances.shape)
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must lie between 0 and 1, got {coverage}; 0.99 misses one true class in a hundred")
    labels = labels.long()  # as an index, uint8 would be a mask
    own = distances.gather(1, labels.unsqueeze(1)).squeeze(1)
    counts = labels.bincount(minlength=distances.shape[1])
    missed = (1 - coverage) * (1 + 1e-9)  # without the rounding error of the difference
    # With fewer, the radius would be that of the one or two farthest images, and change much with another choice.
    alone = counts >= 3 / missed
    rest = ~alone[labels]
    if 0 < int(rest.sum()) < coverage / missed:
        alone, rest = torch.zeros_like(alone), torch.ones_like(rest)  # too few for a radius that the others share
    # Each group is calibrated on its own images alone: only then does the guarantee hold for each, and so for all.
    shared, shown = _radius(own[rest] if rest.any() else own, coverage)
    radii = [_radius(own[labels == index], coverage)[0] if alone[index] else shared for index in range(len(alone))]
    return tuple(radii), shown


def _radius(distances: Tensor, coverage: float) -> tuple[float, float]:
    """The smallest of the distances that a new one exceeds with probability at most 1 − coverage: (count,)."""
    count = len(distances)
    rank = math.ceil((count + 1) * coverage - 1e-9)  # without the rounding error of the product
    if rank > count:
        rank, coverage = count, count / (count + 1)
    return float(distances.sort().values[rank - 1]), coverage


def verdicts(model: Model, images: Tensor) -> list[Verdict | None]:
    """One verdict per image: (batch, channels, height, width) -> batch.

    Sure if only the predicted class lies within its radius, unknown if none does, ambiguous otherwise; None if the
    model is not calibrated or has no hit zone.
    """
    return model.verdicts(model.scores(images))


def outlier_score(model: Model, images: Tensor) -> Tensor:
    """How unusual each image is, larger = more unusual: (batch, channels, height, width) -> (batch,).

    For Hit-or-Miss, the distance of the nearest capsule to the centre. For other heads, the negative of the best score:
    −max softmax, or −the length of the longest capsule.
    """
    return model.head.outlier_score(model.scores(images))


@dataclass(frozen=True)
class VerdictCounts:
    """The verdicts on labelled images."""

    images: int
    covered: int
    """Images whose true class lies within its radius."""
    sure: int
    sure_mistakes: int
    ambiguous: int
    unknown: int
    mean_candidates: float
    """How many classes lie within their radii, on average."""


def count_verdicts(model: Model, scores: Tensor, labels: Tensor) -> VerdictCounts:
    """The verdicts of a calibrated model: (count, classes), (count,)."""
    assert model.config.radii is not None, "the model is not calibrated"
    scores, labels = scores.cpu(), labels.cpu().long()
    given = model.verdicts(scores)
    within = model.head.within(scores, model.config.radii)
    sure = torch.tensor([verdict == "sure" for verdict in given])
    return VerdictCounts(
        images=len(labels),
        covered=int(within[torch.arange(len(labels)), labels].sum()),
        sure=int(sure.sum()),
        sure_mistakes=int((model.head.decide(scores) != labels)[sure].sum()),
        ambiguous=given.count("ambiguous"),
        unknown=given.count("unknown"),
        mean_candidates=float(within.sum(dim=1).double().mean()),
    )
