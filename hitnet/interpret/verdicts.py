"""What the geometry says of an answer: sure if exactly one capsule hits, unknown if none, ambiguous if several; and how
unusual an image is."""

from typing import Literal

from torch import Tensor

from hitnet.heads import HitOrMissHead, N1Head, SoftmaxHead
from hitnet.model import Model

Verdict = Literal["sure", "unknown", "ambiguous"]


def verdicts(model: Model, images: Tensor) -> list[Verdict | None]:
    """One verdict for each image, None for a network without hit zone: (batch, channels, height, width) -> batch."""
    return judge(model, model.scores(images))


def outlier_score(model: Model, images: Tensor) -> Tensor:
    """How unusual each image is, larger = more unusual: (batch, channels, height, width) -> (batch,).

    For Hit-or-Miss the distance of the nearest capsule to the centre. For others what their scores give: −max softmax,
    or −the greatest length of a capsule.
    """
    return unusual(model, model.scores(images))


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
