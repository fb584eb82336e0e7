"""Where capsules land, and what that costs: the paper's centripetal loss and the margin loss of capsule networks."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hitnet.core.checks import check_labels
from hitnet.core.layer import CENTRE

Reduction = Literal["mean", "sum", "none"]
Shape = Literal["stepwise", "smooth"]


def distance_to_centre(capsules: Tensor, centre: float = CENTRE) -> Tensor:
    """How far each capsule lands from the target: (batch, classes, dims) -> (batch, classes)."""
    # vector_norm has gradient zero, not NaN, at distance 0: constant components land exactly on the centre.
    return torch.linalg.vector_norm(capsules - centre, dim=-1)


def staircase(x: Tensor, step_length: float = 0.1, step_height: float = 0.2, margin: float = 0.1) -> Tensor:
    """L_{l,h,m}: zero up to the margin, then linear pieces whose slope rises by `step_height` every `step_length`."""
    if step_length <= 0:
        raise ValueError(f"step_length must be positive, got {step_length}; the paper uses 0.1")
    beyond = F.relu(x - margin)
    step = torch.floor(beyond / step_length).detach()
    return (step + 1) * step_height * (beyond - 0.5 * step * step_length)


def smooth_slope(x: Tensor, step_length: float = 0.1, step_height: float = 0.2, margin: float = 0.1) -> Tensor:
    """The limit of the staircase for ever smaller steps at the same rise: zero up to the margin, then a parabola."""
    if step_length <= 0:
        raise ValueError(f"step_length must be positive, got {step_length}; the paper uses 0.1")
    return 0.5 * step_height / step_length * F.relu(x - margin).square()


_SHAPES = {"stepwise": staircase, "smooth": smooth_slope}


def centripetal_loss(
    distances: Tensor,
    labels: Tensor,
    capsule_dim: int = 16,
    hit_radius: float = 0.1,
    miss_radius: float = 0.9,
    step_length: float = 0.1,
    step_height: float = 0.2,
    miss_step_length: float | None = None,
    miss_step_height: float | None = None,
    miss_weight: float = 0.5,
    reduction: Reduction = "mean",
    shape: Shape = "stepwise",
) -> Tensor:
    """Pull the true class's capsule into the hit zone, push the others away: (batch, classes), (batch,) -> ().

    The loss of an image is the sum over its classes; `reduction="none"` gives it for each image, (batch,).
    The miss steps are as long and as high as the hit steps unless given. With capsules of three components or fewer
    the hypercube's corners lie inside the miss radius, so the others are pushed towards the corners.
    The paper's `shape` is stepwise; smooth is the same without steps.
    """
    if shape not in _SHAPES:
        raise ValueError(f"shape must be 'stepwise' or 'smooth', got {shape!r}; the paper's is 'stepwise'")
    slope = _SHAPES[shape]
    hit = slope(distances, step_length, step_height, hit_radius)
    # The miss loss is the hit loss, with distances measured from the farthest corner of the hypercube.
    farthest = capsule_dim**0.5 / 2
    miss = slope(
        farthest - distances,
        step_length if miss_step_length is None else miss_step_length,
        step_height if miss_step_height is None else miss_step_height,
        farthest - miss_radius,
    )
    return _reduce(torch.where(_is_true_class(distances, labels), hit, miss_weight * miss), reduction)


class CentripetalLoss(nn.Module):
    """`centripetal_loss` as a module that stores its options."""

    def __init__(
        self,
        capsule_dim: int = 16,
        hit_radius: float = 0.1,
        miss_radius: float = 0.9,
        step_length: float = 0.1,
        step_height: float = 0.2,
        miss_step_length: float | None = None,
        miss_step_height: float | None = None,
        miss_weight: float = 0.5,
        reduction: Reduction = "mean",
        shape: Shape = "stepwise",
    ) -> None:
        super().__init__()
        self.capsule_dim = capsule_dim
        self.hit_radius, self.miss_radius = hit_radius, miss_radius
        self.step_length, self.step_height = step_length, step_height
        self.miss_step_length, self.miss_step_height = miss_step_length, miss_step_height
        self.miss_weight, self.reduction, self.shape = miss_weight, reduction, shape

    def forward(self, distances: Tensor, labels: Tensor) -> Tensor:
        return centripetal_loss(
            distances,
            labels,
            capsule_dim=self.capsule_dim,
            hit_radius=self.hit_radius,
            miss_radius=self.miss_radius,
            step_length=self.step_length,
            step_height=self.step_height,
            miss_step_length=self.miss_step_length,
            miss_step_height=self.miss_step_height,
            miss_weight=self.miss_weight,
            reduction=self.reduction,
            shape=self.shape,
        )


def margin_loss(
    lengths: Tensor,
    labels: Tensor,
    present: float = 0.9,
    absent: float = 0.1,
    absent_weight: float = 0.5,
    reduction: Reduction = "mean",
) -> Tensor:
    """The true capsule should be longer than `present`, others shorter than `absent`: (batch, classes), (batch,) -> ().

    Sabour et al. use it for CapsNet; `reduction` as in `centripetal_loss`.
    """
    grow = F.relu(present - lengths).square()
    shrink = absent_weight * F.relu(lengths - absent).square()
    return _reduce(torch.where(_is_true_class(lengths, labels), grow, shrink), reduction)


def _is_true_class(scores: Tensor, labels: Tensor) -> Tensor:
    """The one-hot label t as booleans: (batch, classes), (batch,) -> (batch, classes)."""
    if scores.dim() != 2 or scores.shape[0] == 0:
        raise ValueError(
            f"the loss takes one value for each image and class, (batch, classes), got {tuple(scores.shape)}"
            "; pass capsules through distance_to_centre first, and skip empty batches"
        )
    check_labels(labels, *scores.shape)
    return F.one_hot(labels.long(), scores.shape[1]).bool()


def _reduce(per_class: Tensor, reduction: Reduction) -> Tensor:
    """Sum over the classes, then average, sum or keep the images: (batch, classes) -> () or (batch,)."""
    per_image = per_class.sum(dim=1)
    if reduction == "mean":
        return per_image.mean()
    if reduction == "sum":
        return per_image.sum()
    if reduction == "none":
        return per_image
    raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
