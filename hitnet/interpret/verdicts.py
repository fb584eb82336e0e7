"""What the geometry says of an answer: sure if exactly one capsule hits, unknown if none, ambiguous if several."""

from typing import Literal

from torch import Tensor

from hitnet.heads import HitOrMissHead
from hitnet.model import Model

Verdict = Literal["sure", "unknown", "ambiguous"]


def judge(model: Model, scores: Tensor) -> list[Verdict | None]:
    """One verdict for each image: (batch, classes) -> batch; None where a network's scores are not distances to hit."""
    if not isinstance(model.head, HitOrMissHead):
        return [None] * len(scores)
    hits = (scores <= model.config.hit_radius).sum(dim=1).tolist()
    return ["unknown" if count == 0 else "sure" if count == 1 else "ambiguous" for count in hits]
