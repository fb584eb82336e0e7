"""Real training pictures beside the drawn ones: typical of each class, and at both ends of each component."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from hitnet.core.layer import CENTRE
from hitnet.core.model import TEST_BATCH, Model, evaluating
from hitnet.data import ImageSet, at_most, to_float
from hitnet.data.mapped import Images

MOST_IMAGES = 12_000  # training images that are looked at
MOST_PICTURES, MOST_PIXELS = 4_000, 4_000_000  # that are kept; more classes get fewer each, larger pictures shrink
TYPICAL, PER_END = 6, 3  # pictures of a class, and of an end of a component; fewer if there are many classes
MOST_NEAR = 1_000  # pictures near the centre that are compared with each other
OUTER = 0.2  # share of the pictures that counts as the end of a component


@dataclass(frozen=True)
class Exemplars:
    """Pictures, each stored once, and their places: −1 where a class has too few of them."""

    pictures: Tensor
    """uint8 (count, channels, height, width)"""
    typical: Tensor
    """(classes, at most 6): the one that stands for most pictures first."""
    ends: Tensor
    """(classes, dims, 2, at most 3): where the component is low, and where it is high; the clearest first."""


def choose_exemplars(model: Model, data: ImageSet, seed: int = 0) -> Exemplars:
    """Choose among training images that the network classifies correctly; among all of a class if it knows none."""
    classes, dims = model.head.num_classes, model.head.capsule_dim
    data = at_most(data, MOST_IMAGES, classes, torch.Generator().manual_seed(seed))
    of_class, per_end = how_many(classes, dims)
    typical, ends = torch.full((classes, of_class), -1), torch.full((classes, dims, 2, per_end), -1)
    for index in range(classes):
        own = (data.labels == index).nonzero().squeeze(1)
        if not len(own):
            continue
        features, capsules = _look(model, data.images[own])
        right = model.head.decide(model.head.score(capsules)) == index
        if right.any():
            own, features, capsules = own[right], features[right], capsules[right]
        deviations = capsules[:, index] - CENTRE
        found = own[typical_images(features, deviations, of_class)]
        typical[index, : len(found)] = found.cpu()
        for component in range(dims):
            for side, sign in enumerate((-1, 1)):
                found = own[images_at_end(sign * deviations, component, per_end)]
                ends[index, component, side, : len(found)] = found.cpu()
    return _gather(data.images, typical, ends)


def how_many(classes: int, dims: int) -> tuple[int, int]:
    """(typical pictures of a class, pictures of an end), so that all together stay within the limit."""
    share = MOST_PICTURES // classes
    typical = min(TYPICAL, share)
    return typical, min(PER_END, (share - typical) // (2 * dims))


def typical_images(features: Tensor, deviations: Tensor, count: int, near: int | None = None) -> Tensor:
    """Images that together resemble as many others as possible: (images, features), (images, dims) -> (count,).

    Of the `near` nearest to the centre, by default the nearer half, each next one is the image that brings all others
    closest to one that was chosen, in the eyes of the encoder. The nearest ones themselves are often odd: inside the
    hit zone, nothing in training brings an ordinary image nearer than a strange one.
    """
    distances = deviations.square().sum(1)
    half = min(MOST_NEAR, max(count, math.ceil(len(distances) / 2)))
    nearest = distances.argsort(stable=True)[: half if near is None else near]
    seen = F.normalize(features[nearest], dim=1)
    apart = torch.cdist(seen, seen)
    closest = torch.full_like(apart[0], torch.inf)
    chosen: list[int] = []
    for _ in range(min(count, len(nearest))):
        left_over = torch.minimum(closest, apart).sum(1)
        left_over[chosen] = torch.inf  # a copy of a chosen image would be as good
        chosen.append(int(left_over.argmin()))
        closest = torch.minimum(closest, apart[chosen[-1]])
    return nearest[torch.tensor(chosen, dtype=torch.long, device=nearest.device)]


def images_at_end(deviations: Tensor, component: int, count: int) -> Tensor:
    """Images where a component is high and the others are not far out: (images, dims) -> (at most count,).

    Of the fifth where it is highest, those whose deviation is most nearly this component's alone. The very highest
    would be the same few strange images for every component.
    """
    values = deviations[:, component]
    outer = values.argsort(descending=True, stable=True)[: max(count, math.ceil(OUTER * len(values)))]
    outer = outer[values[outer] > 0]
    alone = values[outer] / torch.linalg.vector_norm(deviations[outer], dim=1)
    return outer[alone.argsort(descending=True, stable=True)[:count]]


@torch.no_grad()
def _look(model: Model, images: Tensor) -> tuple[Tensor, Tensor]:
    """What the encoder sees and the capsules: (count, features), (count, classes, dims)."""
    with evaluating(model):
        features = torch.cat([model.features(to_float(part)) for part in images.split(TEST_BATCH)])
        return features.flatten(1), model.head(features)


def _gather(images: Images, typical: Tensor, ends: Tensor) -> Exemplars:
    """The chosen images, each once, with places among them instead of among all images."""
    places = torch.cat([typical.flatten(), ends.flatten()])
    used, renamed = places.unique(return_inverse=True)
    if len(used) and used[0] < 0:
        used, renamed = used[1:], renamed - 1
    pictures = shrink(images[used.to(images.device)].cpu())
    first, second = renamed.split([typical.numel(), ends.numel()])
    return Exemplars(pictures, first.view_as(typical), second.view_as(ends))


def shrink(pictures: Tensor) -> Tensor:
    """The same pictures, made smaller if they have too many pixels in total: uint8 (count, c, h, w)."""
    count, _, height, width = pictures.shape
    scale = math.sqrt(MOST_PIXELS / max(1, count * height * width))
    if scale >= 1:
        return pictures
    size = [max(1, int(scale * side)) for side in (height, width)]
    return F.interpolate(pictures.float(), size, mode="bilinear", antialias=True).round().clamp(0, 255).byte()
