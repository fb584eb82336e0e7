"""The heads of the paper's comparison, one per row. A head owns its capsules, its score, its decision and its loss.

| name    | capsules                           | score                | decision | loss          |
| ------- | ---------------------------------- | -------------------- | -------- | ------------- |
| Softmax | fully connected to K               | the logit            | highest  | cross-entropy |
| N1      | fully connected to K, BN           | the logit            | highest  | cross-entropy |
| N2      | fully connected to K×n, BN, squash | length               | highest  | margin        |
| N2b     | Hit-or-Miss                        | distance to centre   | highest  | margin        |
| HoM     | Hit-or-Miss                        | distance to centre   | lowest   | centripetal   |
| CapsNet | primary capsules, routing          | length               | highest  | margin        |

Every head maps features to capsules: (batch, features) -> (batch, K, n).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hitnet.core.checks import check_labels
from hitnet.core.encoders import PAPER_WIDTH
from hitnet.core.layer import (
    HitOrMiss,
    NormalisedCapsules,
    SquashedCapsules,
    Style,
    initialise_as_keras,
    squash,
    unit_of,
)
from hitnet.core.loss import CentripetalLoss, distance_to_centre, margin_loss
from hitnet.settings import ModelConfig

Verdict = Literal["sure", "unknown", "ambiguous"]


class Head(nn.Module):
    """Base class: `layer` makes the capsules, and the head answers every question about them."""

    decision: Literal["lowest", "highest"] = "highest"
    """Which score wins."""
    score_name = "scores"
    """What exported graphs call the scores."""
    has_hit_zone = False
    """Whether the true class's capsule is trained to hit the centre, so that prototypes lie there."""
    in_hypercube = False
    """Whether components are sigmoids: in [0, 1], around the centre."""
    has_capsules = True
    """Whether each class has a vector, not just a single number."""

    def __init__(self, num_features: int, config: ModelConfig) -> None:
        super().__init__()
        self.num_classes, self.hit_radius = config.num_classes, config.hit_radius
        self.capsule_dim = self.counted_dim = config.capsule_dim if self.has_capsules else 1
        """Components of a capsule, and how many of them count for the score; those of style come last."""
        self.unit = unit_of(config.hit_radius, self.capsule_dim)
        """m/√n, the unit of deviations from the centre."""
        if config.style_dim and not self.has_hit_zone:
            raise ValueError(f"style_dim needs a hit zone, {config.name} has none; leave it out")
        self.layer = self.make_layer(num_features, config)

    def make_layer(self, num_features: int, config: ModelConfig) -> nn.Module:
        """Features to capsules: (batch, num_features) -> (batch, classes, dims)."""
        raise NotImplementedError

    def forward(self, features: Tensor) -> Tensor:
        return self.layer(features)

    def score(self, capsules: Tensor) -> Tensor:
        """(batch, classes, dims) -> (batch, classes)."""
        raise NotImplementedError

    def decide(self, scores: Tensor) -> Tensor:
        """The class of each image: (batch, classes) -> (batch,)."""
        return scores.argmin(dim=1) if self.decision == "lowest" else scores.argmax(dim=1)

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """(batch, classes), (batch,) -> ()."""
        raise NotImplementedError

    def outlier_score(self, scores: Tensor) -> Tensor:
        """How unusual each image is, larger = more unusual: (batch, classes) -> (batch,)."""
        return -scores.amax(dim=1)

    def within(self, scores: Tensor, radii: Sequence[float]) -> Tensor:
        """Which classes lie within their radii: (batch, classes), (classes,) -> (batch, classes)."""
        return scores <= scores.new_tensor(radii)

    def verdicts(self, scores: Tensor, radii: Sequence[float] | None) -> list[Verdict | None]:
        """One per image: sure if only the predicted class lies within its radius, unknown if none does, ambiguous
        otherwise; None without radii: (batch, classes), (classes,) -> batch."""
        if radii is None:
            return [None] * len(scores)
        within = self.within(scores, radii)
        counts = within.sum(dim=1).tolist()
        predicted = within.gather(1, self.decide(scores).unsqueeze(1)).squeeze(1).tolist()
        return [
            "unknown" if count == 0 else "sure" if count == 1 and hit else "ambiguous"
            for count, hit in zip(counts, predicted, strict=True)
        ]

    @property
    def has_style(self) -> bool:
        """Whether the last components have no say in the score and are the same for every class."""
        return self.capsule_dim > self.counted_dim

    def nearest_possible(self, capsules: Tensor) -> Tensor:
        """Moved capsules, clipped to values that the layer can produce: any shape -> same."""
        return capsules.clamp(0, 1) if self.in_hypercube else capsules


class SoftmaxHead(Head):
    """The usual classifier, which HoM can replace. Its "capsules" are single logits."""

    has_capsules = False

    def make_layer(self, num_features: int, config: ModelConfig) -> nn.Module:
        layer = nn.Sequential(nn.Linear(num_features, config.num_classes), nn.Unflatten(1, (-1, 1)))
        initialise_as_keras(layer)
        return layer

    def score(self, capsules: Tensor) -> Tensor:
        return capsules.squeeze(2)

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        check_labels(labels, *scores.shape)
        return F.cross_entropy(scores, labels.long())

    def outlier_score(self, scores: Tensor) -> Tensor:
        # In single precision, a good network's largest probability rounds to exactly 1 for most images.
        finest = torch.float32 if scores.device.type == "mps" else torch.float64
        return super().outlier_score(scores.softmax(dim=1, dtype=finest))


class N1Head(SoftmaxHead):
    """The paper's baseline: softmax after BatchNorm."""

    def make_layer(self, num_features: int, config: ModelConfig) -> nn.Module:
        return _make(NormalisedCapsules, num_features, replace(config, capsule_dim=1, norm="separate"))


class N2Head(Head):
    """CapsNet-like, without routing: the true class's capsule should be long."""

    def make_layer(self, num_features: int, config: ModelConfig) -> nn.Module:
        return _make(SquashedCapsules, num_features, config)

    def score(self, capsules: Tensor) -> Tensor:
        return torch.linalg.vector_norm(capsules, dim=2)

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        return margin_loss(scores, labels)


class N2bHead(Head):
    """N2 on the Hit-or-Miss layer: the true class's capsule should be far from the centre."""

    score_name = "distances"
    in_hypercube = True

    def make_layer(self, num_features: int, config: ModelConfig) -> nn.Module:
        return _make(HitOrMiss, num_features, config)

    def score(self, capsules: Tensor) -> Tensor:
        return distance_to_centre(capsules)

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        return margin_loss(scores, labels)


class HitOrMissHead(Head):
    """HitNet's own: the true class's capsule should hit the centre, the others should miss it."""

    decision = "lowest"
    score_name = "distances"
    has_hit_zone = True
    in_hypercube = True

    def __init__(self, num_features: int, config: ModelConfig) -> None:
        super().__init__(num_features, config)
        self.centripetal = CentripetalLoss(
            config.capsule_dim, config.hit_radius, config.miss_radius, shape=config.loss_shape
        )
        self.style: Style | None = None
        if config.style_dim:
            norm = {"norm_momentum": config.norm_momentum, "norm_eps": config.norm_eps}
            self.style = Style(num_features, config.style_dim, self.unit, **norm)
            self.capsule_dim += config.style_dim

    def make_layer(self, num_features: int, config: ModelConfig) -> nn.Module:
        return _make(HitOrMiss, num_features, config)

    def forward(self, features: Tensor) -> Tensor:
        capsules: Tensor = self.layer(features)
        if self.style is None:
            return capsules
        return torch.cat([capsules, self.style(features).unsqueeze(1).expand(-1, self.num_classes, -1)], dim=2)

    def score(self, capsules: Tensor) -> Tensor:
        return distance_to_centre(capsules[..., : self.counted_dim])

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        return self.centripetal(scores, labels)

    def outlier_score(self, scores: Tensor) -> Tensor:
        return scores.amin(dim=1)


class CapsNetHead(N2Head):
    """From Sabour et al.: squashed primary capsules vote for class capsules, weighted by routing."""

    def make_layer(self, num_features: int, config: ModelConfig) -> nn.Module:
        return Routing(num_features, config)


class Routing(nn.Module):
    """Dynamic routing by agreement: (batch, channels · pixels) -> (batch, classes, dims).

    Every pixel holds channels / 8 primary capsules of 8 components; each has its own matrix for every class.
    """

    primary_dim = 8

    def __init__(self, num_features: int, config: ModelConfig) -> None:
        super().__init__()
        self.channels = PAPER_WIDTH if config.width is None else config.width
        if self.channels % self.primary_dim:
            raise ValueError(
                f"capsnet needs a width divisible by {self.primary_dim}, got {self.channels}; the paper uses 256"
            )
        self.iterations = config.routing_iterations
        self.num_classes, self.capsule_dim = config.num_classes, config.capsule_dim
        self.weight = nn.Parameter(
            torch.empty(num_features // self.primary_dim, self.primary_dim, self.num_classes * self.capsule_dim)
        )
        nn.init.normal_(self.weight, std=0.1)

    def forward(self, features: Tensor) -> Tensor:
        return route(self.votes(features), self.iterations)

    def votes(self, features: Tensor) -> Tensor:
        """What each primary capsule predicts for each class: (batch, features) -> (batch, classes, primaries, dims)."""
        grouped = features.unflatten(1, (self.channels // self.primary_dim, self.primary_dim, -1))
        primaries = squash(grouped.transpose(2, 3).flatten(1, 2))
        votes = torch.bmm(primaries.transpose(0, 1), self.weight)
        return votes.unflatten(2, (self.num_classes, self.capsule_dim)).permute(1, 2, 0, 3).contiguous()


def route(votes: Tensor, iterations: int) -> Tensor:
    """Class capsules on which the votes agree: (batch, classes, primaries, dims) -> (batch, classes, dims)."""
    # How much each vote counts is computed without gradients; they flow only through the last weighted sum.
    fixed = votes.detach()
    agreement = fixed.new_zeros(fixed.shape[:3])
    for _ in range(iterations - 1):
        capsules = squash(weighted_sum(coupling(agreement), fixed))
        agreement = agreement + torch.matmul(fixed, capsules.unsqueeze(3)).squeeze(3)
    return squash(weighted_sum(coupling(agreement), votes))


def coupling(agreement: Tensor) -> Tensor:
    """How each primary capsule divides its vote among the classes, sum 1: (batch, classes, primaries) -> same."""
    return agreement.softmax(dim=1)


def weighted_sum(weights: Tensor, votes: Tensor) -> Tensor:
    return torch.matmul(weights.unsqueeze(2), votes).squeeze(2)


def _make(layer: type[NormalisedCapsules], num_features: int, config: ModelConfig) -> NormalisedCapsules:
    return layer(
        num_features,
        config.num_classes,
        config.capsule_dim,
        config.norm,
        norm_momentum=config.norm_momentum,
        norm_eps=config.norm_eps,
    )
