"""How well the given label of an image fits, judged by a network that does not know it by heart.

A network with Hit-or-Miss says how far each class lies from its centre. The quality of a label compares the given class
with the others. What kind of image it is, is a question of hits: a class is hit if the image lies within the radius in
which nearly all images lie that both people and the network take for that class.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from hitnet.core.checks import check_labels
from hitnet.interpret.verdicts import COVERAGE, conformal_radii

Kind = Literal["wrong label", "ambiguous", "odd", "fine"]
KINDS: tuple[Kind, ...] = get_args(Kind)
KIND_WORDS: dict[str, str] = {
    "wrong label": "the given class is unlikely or far; only another class is hit",
    "ambiguous": "several classes are hit, or one other while the given one is possible",
    "odd": "no class is hit",
    "fine": "only the given class is hit",
}
# A label is called wrong only if its quality is below half of what chance would give it, or below this, or if its class
# is missed by so many radii: networks miss the class of many hard images narrowly, and those labels are right. Where
# many labels are wrong, qualities are never low, since the temperature is fitted to these labels; distances still tell.
SURELY_LOW, FAR = 0.01, 2


def label_quality(distances: Any, labels: Any, temperature: float | None = None) -> Any:
    """How well each given label fits, in 0..1, low = bad: (count, classes), (count,) -> (count,).

    distances: of networks that were not trained on the image they judge, such as out-of-fold ones; −decision_function
        of a HitNetClassifier. Of two classes also (count,): how much farther the second is than the first.
    temperature: how sharply distances become probabilities; the one that suits these labels best if not given.

    The quality is the probability of the given class, exp(−distance / temperature) over the sum of all classes.
    Tensors give a tensor, all else an array.
    """
    if not isinstance(labels, Tensor) and (kind := np.asarray(labels).dtype).kind not in "biuf":
        remedy = "number them, as np.unique(labels, return_inverse=True) does"
        raise TypeError(f"labels must be class indices from 0, got {kind}; {remedy}")
    if temperature is not None and not 0 < temperature < np.inf:
        raise ValueError(f"temperature must be above 0 and finite, got {temperature}; leave it out to have it fitted")
    given, wanted = _tensor(distances).double(), _tensor(labels)
    if given.ndim == 1:
        given = torch.stack([(-given).clamp(min=0), given.clamp(min=0)], dim=1)
    _check(given, wanted)
    temperature = best_temperature(given, wanted.long()) if temperature is None else temperature
    quality = (-given / temperature).softmax(dim=1).gather(1, wanted.long().unsqueeze(1)).squeeze(1)
    return quality if isinstance(distances, Tensor) else quality.numpy()


def _tensor(values: Any) -> Tensor:
    """Tensors as they are; lists, arrays and what pandas has as tensors."""
    return values if isinstance(values, Tensor) else torch.tensor(np.asarray(values))


def best_temperature(distances: Tensor, labels: Tensor) -> float:
    """The temperature at which softmax(−distance / temperature) fits the labels best: (N, classes), (N,) -> number."""
    count, classes = distances.shape
    # Platt's targets, slightly below 1: a few correct predictions must not make all probabilities 0 or 1.
    doubt = 1 / (count + 2)
    wanted = torch.full_like(distances, doubt / (classes - 1)).scatter_(1, labels.unsqueeze(1), 1 - doubt)

    def cost(log_temperature: float) -> float:
        return -float((wanted * torch.log_softmax(-distances / np.exp(log_temperature), dim=1)).sum(dim=1).mean())

    return float(np.exp(minimize_scalar(cost, bounds=(-7, 3), method="bounded").x))


@dataclass(frozen=True)
class Judgement:
    """What networks say of the labels; every tensor has one entry per image."""

    suggested: Tensor
    """The class that is hit, if exactly one is; otherwise the nearest."""
    quality: Tensor
    """How well the given label fits, in 0..1."""
    kinds: list[Kind]
    own: Tensor
    """Distance to the centre of the given class, in units of its radius."""
    nearest: Tensor
    """The same for the suggested class."""


def judge(distances: Tensor, labels: Tensor, networks: Tensor, coverage: float = COVERAGE) -> Judgement:
    """Judge every image by its network: (count, classes), (count,), (count,) numbers of networks.

    Each network has its own radii and temperature, so that its answers can be compared with those of the others.
    """
    _check(distances, labels)
    quality = torch.empty(len(labels), dtype=torch.float64)
    reach = torch.empty_like(distances)
    for network in networks.unique():
        of = networks == network
        quality[of] = label_quality(distances[of], labels[of])
        reach[of] = distances[of] / radii_of_agreement(distances[of], labels[of], coverage)
    # Where classes have different radii, the only one that is hit need not be the nearest.
    alone = (reach <= 1).sum(dim=1) == 1
    suggested = torch.where(alone, reach.argmin(dim=1), distances.argmin(dim=1))
    chosen = torch.stack([labels, suggested], dim=1)
    own, nearest = reach.gather(1, chosen).unbind(1)
    return Judgement(suggested, quality, kinds_of(reach, labels, quality), own, nearest)


def radii_of_agreement(distances: Tensor, labels: Tensor, coverage: float) -> Tensor:
    """The radius of each class, from images whose given class is also the nearest: -> (classes,).

    Other images may be labelled wrongly; with them, one wrong label in a hundred would make a radius that takes in
    everything.
    """
    agreed = distances.argmin(dim=1) == labels
    if not agreed.any():
        agreed = torch.ones_like(agreed)
    radii, _ = conformal_radii(distances[agreed], labels[agreed], coverage)
    return distances.new_tensor(radii).clamp(min=torch.finfo(distances.dtype).eps)


def kinds_of(reach: Tensor, labels: Tensor, quality: Tensor) -> list[Kind]:
    """What is hit decides: distances in units of the radii (count, classes), (count,), (count,).

    The given class alone: fine. One other alone: a wrong label if its quality is low or its class is far, else
    ambiguous. Several: ambiguous. None: odd.
    """
    own = reach.gather(1, labels.unsqueeze(1)).squeeze(1)
    wrong = ((quality < max(0.5 / reach.shape[1], SURELY_LOW)) | (own > FAR)).tolist()
    counts, given = (reach <= 1).sum(dim=1).tolist(), (own <= 1).tolist()
    kinds: list[Kind] = []
    for count, is_given, is_wrong in zip(counts, given, wrong, strict=True):
        if count == 0:
            kinds.append("odd")
        elif count == 1 and is_given:
            kinds.append("fine")
        else:
            kinds.append("wrong label" if count == 1 and is_wrong else "ambiguous")
    return kinds


def _check(distances: Tensor, labels: Tensor) -> None:
    if distances.ndim != 2 or distances.shape[1] < 2:
        got = tuple(distances.shape)
        raise ValueError(f"distances must have shape (count, classes), at least 2 classes, got {got}")
    check_labels(labels, *distances.shape)
    if not (distances.isfinite().all() and bool((distances >= 0).all())):
        raise ValueError("distances must be finite and at least 0, got others; decision_function gives −distances")
