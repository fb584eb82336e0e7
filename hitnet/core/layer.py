"""The Hit-or-Miss layer, the squash of capsule networks, and the masking of capsules."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

Norm = Literal["shared", "separate"]

CENTRE = 0.5
"""The target of every component of the true class's capsule."""


def unit_of(hit_radius: float, capsule_dim: int) -> float:
    """m/√n: how far each component of a capsule on the edge of the hit zone is from 0.5, if all are equally far."""
    return hit_radius / capsule_dim**0.5


class NormalisedCapsules(nn.Module):
    """Fully connected layer to one vector per class, then BatchNorm: (batch, in_features) -> (batch, classes, dims).

    `norm="shared"` normalises each of the `dims` components with statistics and affine parameters that all classes
    share (what Keras does on a classes × dims matrix); `norm="separate"` gives every class its own.
    The defaults of `norm_momentum` and `norm_eps` are Keras', which the paper used; torch's are 0.1 and 1e-5.
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        capsule_dim: int = 16,
        norm: Norm = "shared",
        *,
        norm_momentum: float = 0.01,
        norm_eps: float = 1e-3,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if num_classes < 2:
            raise ValueError(f"num_classes must be at least 2, got {num_classes}; one class leaves nothing to choose")
        if capsule_dim < 1:
            raise ValueError(f"capsule_dim must be at least 1, got {capsule_dim}; the paper uses 16")
        if norm not in ("shared", "separate"):
            raise ValueError(f"norm must be 'shared' or 'separate', got {norm!r}")
        self.in_features, self.num_classes, self.capsule_dim, self.norm = in_features, num_classes, capsule_dim, norm
        shared = norm == "shared"
        # With separate statistics, the normalisation would cancel a bias.
        self.linear = nn.Linear(in_features, num_classes * capsule_dim, bias=shared, device=device, dtype=dtype)
        self.batch_norm = nn.BatchNorm1d(
            capsule_dim if shared else num_classes * capsule_dim,
            eps=norm_eps,
            momentum=norm_momentum,
            device=device,
            dtype=dtype,
        )
        initialise_as_keras(self)

    def forward(self, features: Tensor) -> Tensor:
        if self.training and self.norm == "separate":
            _check_several(features, "norm='shared'")
        vectors = self.linear(features).unflatten(1, (self.num_classes, self.capsule_dim))
        if self.norm == "shared":
            return self.batch_norm(vectors.flatten(0, 1)).view_as(vectors)
        return self.batch_norm(vectors.flatten(1)).view_as(vectors)

    def extra_repr(self) -> str:
        return f"{self.in_features}, num_classes={self.num_classes}, capsule_dim={self.capsule_dim}, norm={self.norm!r}"


class HitOrMiss(NormalisedCapsules):
    """One capsule per class, each in a unit hypercube: (batch, in_features) -> (batch, classes, dims).

    The capsule of the true class is trained to hit the centre of its hypercube, the others to miss it.

        >>> HitOrMiss(in_features=84, num_classes=10)(torch.rand(2, 84)).shape
        torch.Size([2, 10, 16])
    """

    def forward(self, features: Tensor) -> Tensor:
        # Normalised before the sigmoid: capsules start in its steep middle, not on its flat ends.
        return torch.sigmoid(super().forward(features))


class Style(nn.Module):
    """What else an image shows, whatever its class: (batch, in_features) -> (batch, dims), in a unit hypercube.

    Normalised without a scale of its own: over the training images, each component lies around the centre with a
    standard deviation of one `unit`, as those of a capsule are expected to. So it can be moved and drawn like them.
    """

    def __init__(
        self, in_features: int, dims: int, unit: float, *, norm_momentum: float = 0.01, norm_eps: float = 1e-3
    ) -> None:
        super().__init__()
        self.unit = unit
        self.linear = nn.Linear(in_features, dims, bias=False)
        self.batch_norm = nn.BatchNorm1d(dims, eps=norm_eps, momentum=norm_momentum, affine=False)
        initialise_as_keras(self)

    def forward(self, features: Tensor) -> Tensor:
        if self.training:
            _check_several(features, "style_dim=0")
        # In its middle, the sigmoid has a slope of a quarter.
        return torch.sigmoid(4 * self.unit * self.batch_norm(self.linear(features)))


class SquashedCapsules(NormalisedCapsules):
    """One capsule per class, in the unit ball: (batch, in_features) -> (batch, classes, dims)."""

    def forward(self, features: Tensor) -> Tensor:
        return squash(super().forward(features))


def squash(vectors: Tensor) -> Tensor:
    """|v|²/(1+|v|²) · v/|v|, which keeps the direction and maps the length into [0, 1): (..., dims) -> (..., dims)."""
    squared = vectors.square().sum(-1, keepdim=True)
    # One factor |v|/(1+|v|²): there is no division by a length, so the zero vector is safe in the forward pass;
    # in the backward pass vector_norm gives it a zero gradient.
    return vectors * (torch.linalg.vector_norm(vectors, dim=-1, keepdim=True) / (1 + squared))


def mask_capsules(capsules: Tensor, class_indices: Tensor) -> Tensor:
    """Set all capsules but one of each image to zero: (batch, classes, dims), (batch,) -> (batch, classes, dims)."""
    classes = torch.arange(capsules.shape[1], device=capsules.device)
    kept = classes == class_indices.unsqueeze(1)
    return torch.where(kept.unsqueeze(2), capsules, 0)


def _check_several(features: Tensor, remedy: str) -> None:
    if features.shape[0] == 1:
        raise ValueError(
            "training needs at least 2 images per batch, got 1: BatchNorm cannot estimate a deviation from one value; "
            f"use larger batches or {remedy}, drop the last batch, or call eval()"
        )


def initialise_as_keras(module: nn.Module) -> None:
    """Glorot-uniform weights and zero biases for every linear layer and convolution inside, as in the paper's code."""
    for layer in module.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
