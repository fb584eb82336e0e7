"""Why an image is of a class: which capsule it hits, and which deformations lead from the prototype to it."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hitnet.interpret.prototypes import CENTRE, draw, unit
from hitnet.interpret.verdicts import Verdict, judge
from hitnet.model import Model, evaluating


@dataclass(frozen=True)
class Deformation:
    """What one component of the capsule adds to the prototype."""

    feature: int
    units: float
    """How far the component lies from the centre, in units of m/√n."""
    change: float
    """Mean absolute change of a pixel that it alone makes to the prototype (0..1)."""
    picture: Tensor
    """The prototype with this component alone moved: (channels, height, width)."""


@dataclass(frozen=True)
class Explanation:
    """What a network sees in one image; pictures are (channels, height, width)."""

    image: Tensor
    class_names: tuple[str, ...]
    class_index: int
    rival_index: int
    """The next best class."""
    scores: list[float]
    """One for each class; for Hit-or-Miss the distance to the centre."""
    ranking: list[int]
    """The classes, the best first."""
    verdict: Verdict | None
    """None for a network without hit zone."""
    hit_radius: float
    miss_radius: float
    prototype: Tensor
    reconstruction: Tensor
    residual: Tensor
    """image − reconstruction: what the capsule does not tell."""
    deformations: list[Deformation]
    """One for each component, the one that changes the picture most first."""
    rival_prototype: Tensor

    @property
    def class_name(self) -> str:
        return self.class_names[self.class_index]

    @property
    def rival_name(self) -> str:
        return self.class_names[self.rival_index]

    @property
    def words(self) -> str:
        """The verdict in a sentence."""
        return _in_words(self)

    def to_json(self) -> dict[str, Any]:
        """Everything but the pictures."""
        return {
            "class": self.class_name,
            "verdict": self.verdict,
            "words": self.words,
            "scores": dict(zip(self.class_names, self.scores, strict=True)),
            "hit_radius": self.hit_radius,
            "miss_radius": self.miss_radius,
            "rival": self.rival_name,
            "residual": float(self.residual.abs().mean()),
            "deformations": [
                {"feature": found.feature, "units": found.units, "change": found.change} for found in self.deformations
            ],
        }


@torch.no_grad()
def explain(model: Model, image: Tensor) -> Explanation:
    """Explain one image, (channels, height, width) or a batch of one, with values in [0, 1]."""
    batch = image if image.dim() == 4 else image.unsqueeze(0)
    if len(batch) != 1:
        raise ValueError(f"explain takes one image, got {len(batch)}; call it for each")
    with evaluating(model):
        capsules = model.capsules(batch)
        scores = model.head.score(capsules)
    index = int(model.head.decide(scores))
    order = scores[0].argsort(descending=model.head.decision == "highest", stable=True)
    # The class decided on leads, also among equals.
    order = torch.cat([order[order == index], order[order != index]])
    rival = int(order[1])
    own = capsules[0, index]
    dims = len(own)
    # In one batch: the prototype, the reconstruction, then the prototype with each component alone moved.
    moved = torch.full((dims + 2, dims), CENTRE).to(own)
    moved[1] = own
    moved[2:].diagonal().copy_(own)
    pictures = draw(model, moved, torch.full((dims + 2,), index))
    prototype, reconstruction, alone = pictures[0], pictures[1], pictures[2:]
    units = (own - CENTRE) / unit(model)
    changes = (alone - prototype).abs().mean(dim=(1, 2, 3))
    return Explanation(
        image=batch[0],
        class_names=model.config.class_names,
        class_index=index,
        rival_index=rival,
        scores=scores[0].tolist(),
        ranking=order.tolist(),
        verdict=judge(model, scores)[0],
        hit_radius=model.config.hit_radius,
        miss_radius=model.config.miss_radius,
        prototype=prototype,
        reconstruction=reconstruction,
        residual=batch[0] - reconstruction,
        deformations=[
            Deformation(feature, float(units[feature]), float(changes[feature]), alone[feature])
            for feature in changes.argsort(descending=True).tolist()
        ],
        rival_prototype=draw(model, moved[:1], torch.tensor([rival]))[0],
    )


def _in_words(found: Explanation) -> str:
    score, rival = found.scores[found.class_index], found.scores[found.rival_index]
    name, other = found.class_name, found.rival_name
    if found.verdict is None:
        return f"It is taken for {name} (score {score:.2f}); the next best is {other} ({rival:.2f})."
    if found.verdict == "sure":
        return f"Sure: {name} is the only class that is hit (distance {score:.3f}); {other} comes next at {rival:.3f}."
    if found.verdict == "ambiguous":
        return f"Ambiguous: {name} is hit (distance {score:.3f}), but {other} is hit too ({rival:.3f})."
    return f"Unknown: no class is hit; the closest is {name} (distance {score:.3f}), then {other} ({rival:.3f})."
