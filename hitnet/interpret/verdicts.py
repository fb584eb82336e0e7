"""What the geometry says of an answer: sure if exactly one capsule hits, unknown if none, ambiguous if several; and how
unusual an image is."""

from typing import Literal

import torch
from torch import Tensor

from hitnet.checks import check_tensor
from hitnet.heads import HitOrMissHead, N1Head, SoftmaxHead
from hitnet.model import Model, evaluating

Verdict = Literal["sure", "unknown", "ambiguous"]


def verdicts(model: Model, images: Tensor) -> list[Verdict | None]:
    """One verdict for each image, None for a network without hit zone: (batch, channels, height, width) -> batch."""
    return judge(model, scores_of(model, images))


def outlier_score(model: Model, images: Tensor) -> Tensor:
    """How unusual each image is, larger = more unusual: (batch, channels, height, width) -> (batch,).

    For Hit-or-Miss the distance of the nearest capsule to the centre. For others what their scores give: −max softmax,
    or −the greatest length of a capsule.
    """
    return unusual(model, scores_of(model, images))


def judge(model: Model, scores: Tensor) -> list[Verdict | None]:
    """One verdict for each image: (batch, classes) -> batch; None where a network's scores are not distances to hit."""
    if not isinstance(model.head, HitOrMissHead):
        return [None] * len(scores)
    hits = (scores <= model.config.hit_radius).sum(dim=1).tolist()
    return ["unknown" if count == 0 else "sure" if count == 1 else "ambiguous" for count in hits]


def unusual(model: Model, scores: Tensor) -> Tensor:
    """`outlier_score` of images whose scores are known: (batch, classes) -> (batch,)."""
    if model.head.decision == "lowest":
        return scores.amin(dim=1)
    if isinstance(model.head, (SoftmaxHead, N1Head)):
        # In single precision most images of a good network would share the same 1.
        scores = scores.double().softmax(dim=1)
    return -scores.amax(dim=1)


@torch.no_grad()
def scores_of(model: Model, images: Tensor, batch_size: int = 512) -> Tensor:
    """The head's score of each class, in evaluation mode: (batch, channels, height, width) -> (batch, classes)."""
    check_tensor("images", images)
    with evaluating(model):
        return torch.cat([model.head.score(model.capsules(part)) for part in images.split(batch_size)])
