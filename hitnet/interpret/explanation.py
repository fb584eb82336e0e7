"""Why an image gets its class: which capsule hits, and which deformations lead from the prototype to the image."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hitnet.core.heads import Verdict
from hitnet.core.layer import CENTRE
from hitnet.core.model import Model
from hitnet.interpret.what_if import WhatIf, what_if


@dataclass(frozen=True)
class Deformation:
    """What one component of the capsule adds to the prototype."""

    component: int
    units: float
    """How far the component lies from the centre, in units of m/√n."""
    change: float
    """Mean absolute pixel change that it alone makes to the prototype (0..1)."""
    picture: Tensor
    """The prototype with this component alone moved: (channels, height, width)."""


@dataclass(frozen=True)
class Explanation:
    """What a network sees in one image; pictures are (channels, height, width)."""

    image: Tensor
    capsules: Tensor
    """(classes, dims): the rest is computed from these."""
    class_names: tuple[str, ...]
    class_index: int
    rival_index: int
    """The next best class."""
    scores: list[float]
    """One for each class; for Hit-or-Miss the distance to the centre."""
    ranking: list[int]
    """Class indices, best first."""
    verdict: Verdict | None
    """None if the network is not calibrated or has no hit zone."""
    radii: tuple[float, ...] | None
    """How far from the centre each class usually lands at most; None if the network is not calibrated."""
    hit_radius: float
    miss_radius: float
    counted_dim: int
    """How many components count for the score; those after them are style."""
    prototype: Tensor
    reconstruction: Tensor
    residual: Tensor
    """image − reconstruction, at the size of drawings: what the capsule does not capture."""
    deformations: list[Deformation]
    """One per component, the one that changes the picture most first."""
    rival_prototype: Tensor
    what_if: WhatIf | None
    """What would make it the next best class, or the one that was asked for; None for a network without a hit zone."""

    @property
    def class_name(self) -> str:
        return self.class_names[self.class_index]

    @property
    def rival_name(self) -> str:
        return self.class_names[self.rival_index]

    @property
    def has_hit_zone(self) -> bool:
        return self.what_if is not None

    @property
    def words(self) -> str:
        """The answer and how certain it is, in a sentence."""
        return _in_words(self)

    def zone_of(self, class_index: int) -> float:
        """Within this distance a class counts as hit: its radius, or that of training if there is no calibration."""
        return self.hit_radius if self.radii is None else self.radii[class_index]

    @property
    def what_if_words(self) -> str:
        """How the network reads the drawing of `what_if`, in a sentence; empty for a network without a hit zone."""
        return "" if self.what_if is None else _reading_in_words(self, self.what_if)

    def to_json(self) -> dict[str, Any]:
        """Everything but the pictures."""
        found: dict[str, Any] = {
            "class": self.class_name,
            "verdict": self.verdict,
            "words": self.words,
            "scores": dict(zip(self.class_names, self.scores, strict=True)),
            "radii": self.radii,
            "hit_radius": self.hit_radius,
            "miss_radius": self.miss_radius,
            "rival": self.rival_name,
            "residual": float(self.residual.abs().mean()),
            "deformations": [
                {"component": each.component, "units": each.units, "change": each.change} for each in self.deformations
            ],
        }
        if self.what_if is not None:
            found["what_if"] = {
                "class": self.class_names[self.what_if.class_index],
                "capsule": self.what_if.capsule.tolist(),
                "change": float(self.what_if.change.abs().mean()),
                "words": self.what_if_words,
                "read_as": self.class_names[self.what_if.read_as],
                "scores": dict(zip(self.class_names, self.what_if.scores, strict=True)),
            }
        return found


@torch.no_grad()
def explain(model: Model, image: Tensor, rival: int | None = None) -> Explanation:
    """Explain one image, (channels, height, width) or a batch of one, with values in [0, 1].

    What would make it another class is answered for the class `rival`, or for the next best if `rival` is not given or
    is the predicted class.
    """
    batch = image if image.dim() == 4 else image.unsqueeze(0)
    if len(batch) != 1:
        raise ValueError(f"explain takes one image, got {len(batch)}; call it for each")
    capsules = model.all_capsules(batch)
    scores = model.head.score(capsules)
    index = int(model.head.decide(scores))
    order = scores[0].argsort(descending=model.head.decision == "highest", stable=True)
    # The decided class comes first, even among ties.
    order = torch.cat([order[order == index], order[order != index]])
    if rival is not None:
        _check_rival(model, rival)
    other = int(order[1]) if rival is None or rival == index else rival
    own = capsules[0, index]
    dims = len(own)
    # In one batch: the prototype, the reconstruction, then the prototype with each component alone moved.
    moved = torch.full((dims + 2, dims), CENTRE).to(own)
    moved[1] = own
    moved[2:].diagonal().copy_(own)
    pictures = model.draw(moved, torch.full((dims + 2,), index))
    prototype, reconstruction, alone = pictures[0], pictures[1], pictures[2:]
    units = (own - CENTRE) / model.head.unit
    changes = (alone - prototype).abs().mean(dim=(1, 2, 3))
    return Explanation(
        image=batch[0],
        capsules=capsules[0],
        class_names=model.config.class_names,
        class_index=index,
        rival_index=int(order[1]),
        scores=scores[0].tolist(),
        ranking=order.tolist(),
        verdict=model.verdicts(scores)[0],
        radii=model.config.radii,
        hit_radius=model.config.hit_radius,
        miss_radius=model.config.miss_radius,
        counted_dim=model.head.counted_dim,
        prototype=prototype,
        reconstruction=reconstruction,
        residual=model.shrink(batch)[0] - reconstruction,
        deformations=[
            Deformation(component, float(units[component]), float(changes[component]), alone[component])
            for component in changes.argsort(descending=True).tolist()
        ],
        rival_prototype=model.draw(moved[:1], order[1:2])[0],
        what_if=what_if(model, batch[0], index, own, other) if model.head.has_hit_zone else None,
    )


def _check_rival(model: Model, rival: int) -> None:
    if not model.head.has_hit_zone:
        raise ValueError(f"rival needs a Hit-or-Miss network, {model.config.name} has no hit zone; leave it out")
    if not 0 <= rival < model.head.num_classes:
        raise ValueError(f"rival must lie in 0..{model.head.num_classes - 1}, got {rival}; give the index of a class")


def _in_words(explanation: Explanation) -> str:
    score, rival = explanation.scores[explanation.class_index], explanation.scores[explanation.rival_index]
    name, other = explanation.class_name, explanation.rival_name
    if not explanation.has_hit_zone:
        return f"{name} (score {score:.2f}); next is {other} ({rival:.2f})."
    if explanation.verdict is None:
        return f"{name}, not calibrated ({score:.3f} from its centre); next is {other} at {rival:.3f}."
    usual = f"{score:.3f} from its centre; usual for {name}: up to {explanation.zone_of(explanation.class_index):.2f}"
    answer = f"{name}, {explanation.verdict} ({usual})"
    if explanation.verdict == "sure":
        return f"{answer}; next is {other} at {rival:.3f}."
    if explanation.verdict == "unknown":
        return f"{answer}: no class is within its usual distance; next is {other} at {rival:.3f}."
    also = [index for index in explanation.ranking[1:] if explanation.scores[index] <= explanation.zone_of(index)]
    named = f"{explanation.class_names[also[0]]} ({explanation.scores[also[0]]:.3f})"
    more = f" and {len(also) - 1} more are" if len(also) > 1 else " is"
    if score > explanation.zone_of(explanation.class_index):
        return f"{answer}: not within its usual distance, but {named}{more}."
    return f"{answer}: {named}{more} within the usual distance too."


def _reading_in_words(explanation: Explanation, found: WhatIf) -> str:
    name, read_as = explanation.class_names[found.class_index], explanation.class_names[found.read_as]
    distance = found.scores[found.read_as]
    if found.read_as != found.class_index:
        return f"The network does not read the nearest drawing as {name} but as {read_as} (distance {distance:.3f})."
    if explanation.radii is None:
        return f"The network reads the nearest drawing as {name} (distance {distance:.3f})."
    usual = "usual" if distance <= explanation.zone_of(found.class_index) else "unusually far"
    return f"The network reads the nearest drawing as {name} (distance {distance:.3f}, {usual})."
