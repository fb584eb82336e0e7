"""The paper's comparison, one class a row. A head owns its capsules, its score, its decision and its loss.

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

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hitnet.checks import check_labels
from hitnet.config import ModelConfig
from hitnet.encoders import PAPER_WIDTH
from hitnet.layer import HitOrMiss, NormalisedCapsules, SquashedCapsules, initialise_as_keras, squash
from hitnet.loss import CentripetalLoss, distance_to_centre, margin_loss


class Head(nn.Module):
    """What all heads share: a `layer` makes the capsules, `decision` says which score wins."""

    decision: Literal["lowest", "highest"] = "highest"

    def __init__(self, layer: nn.Module, num_classes: int, capsule_dim: int) -> None:
        super().__init__()
        self.layer, self.num_classes, self.capsule_dim = layer, num_classes, capsule_dim

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


class SoftmaxHead(Head):
    """The usual classifier, into which HoM is to be put. Its "capsules" are single logits."""

    def __init__(self, num_features: int, config: ModelConfig) -> None:
        layer = nn.Sequential(nn.Linear(num_features, config.num_classes), nn.Unflatten(1, (-1, 1)))
        initialise_as_keras(layer)
        super().__init__(layer, config.num_classes, capsule_dim=1)

    def score(self, capsules: Tensor) -> Tensor:
        return capsules.squeeze(2)

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        check_labels(labels, *scores.shape)
        return F.cross_entropy(scores, labels.long())


class N1Head(Head):
    """The paper's baseline: softmax after BatchNorm."""

    def __init__(self, num_features: int, config: ModelConfig) -> None:
        one_logit = replace(config, capsule_dim=1, norm="separate")
        super().__init__(_make(NormalisedCapsules, num_features, one_logit), config.num_classes, capsule_dim=1)

    score = SoftmaxHead.score
    loss = SoftmaxHead.loss


class N2Head(Head):
    """CapsNet-like, without routing: the true class's capsule is to be long."""

    def __init__(self, num_features: int, config: ModelConfig) -> None:
        super().__init__(_make(SquashedCapsules, num_features, config), config.num_classes, config.capsule_dim)

    def score(self, capsules: Tensor) -> Tensor:
        return torch.linalg.vector_norm(capsules, dim=2)

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        return margin_loss(scores, labels)


class N2bHead(Head):
    """N2 on the Hit-or-Miss layer: the true class's capsule is to be far from the centre."""

    def __init__(self, num_features: int, config: ModelConfig) -> None:
        super().__init__(_make(HitOrMiss, num_features, config), config.num_classes, config.capsule_dim)

    def score(self, capsules: Tensor) -> Tensor:
        return distance_to_centre(capsules)

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        return margin_loss(scores, labels)


class HitOrMissHead(Head):
    """HitNet's own: the true class's capsule is to hit the centre, the others are to miss it."""

    decision = "lowest"

    def __init__(self, num_features: int, config: ModelConfig) -> None:
        super().__init__(_make(HitOrMiss, num_features, config), config.num_classes, config.capsule_dim)
        self.centripetal = CentripetalLoss(
            config.capsule_dim, config.hit_radius, config.miss_radius, shape=config.loss_shape
        )

    def score(self, capsules: Tensor) -> Tensor:
        return distance_to_centre(capsules)

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        return self.centripetal(scores, labels)


class CapsNetHead(Head):
    """Sabour's: squashed primary capsules vote for class capsules, weighted by routing."""

    def __init__(self, num_features: int, config: ModelConfig) -> None:
        super().__init__(Routing(num_features, config), config.num_classes, config.capsule_dim)

    score = N2Head.score
    loss = N2Head.loss


class Routing(nn.Module):
    """Dynamic routing by agreement: (batch, channels · pixels) -> (batch, classes, dims).

    Every pixel holds channels / 8 primary capsules of 8 components; each has a matrix of its own for every class.
    """

    primary_dim = 8

    def __init__(self, num_features: int, config: ModelConfig) -> None:
        super().__init__()
        self.channels = PAPER_WIDTH if config.width is None else config.width
        if self.channels % self.primary_dim:
            raise ValueError(
                f"capsnet needs a width that {self.primary_dim} divides, got {self.channels}; the paper has 256"
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
    # Which vote counts how much is found without gradients; they flow through the weighted sum of the last round.
    fixed = votes.detach()
    agreement = fixed.new_zeros(fixed.shape[:3])
    for _ in range(iterations - 1):
        capsules = squash(weighted_sum(coupling(agreement), fixed))
        agreement = agreement + torch.matmul(fixed, capsules.unsqueeze(3)).squeeze(3)
    return squash(weighted_sum(coupling(agreement), votes))


def coupling(agreement: Tensor) -> Tensor:
    """How each primary capsule divides itself among the classes, in all 1: (batch, classes, primaries) -> the same."""
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
