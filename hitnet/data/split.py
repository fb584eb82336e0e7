"""Random subsets of images that keep the class proportions, by seed."""

from __future__ import annotations

import torch
from torch import Tensor

from hitnet.data.dataset import Dataset, ImageSet

MOST_VALUES = 150_000_000  # pixels in all their channels that are looked at together: 600 MB as floats


def unevenness(labels: Tensor) -> float:
    """How many times as many images the largest class has as the smallest."""
    counts = labels.unique(return_counts=True)[1]
    return float(counts.max() / counts.min())


def stratified_split(labels: Tensor, fraction: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Indices kept and indices held out: (count,) labels -> (kept,), (held,), both in ascending order.

    `fraction` of the images is held out, in proportion to the class sizes; every class has at least one image on each
    side. The sizes are exact up to rounding, unless that last rule requires more.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"test_fraction must lie between 0 and 1, got {fraction}; 0.2 holds out a fifth")
    classes, counts = labels.cpu().unique(return_counts=True)
    if (lonely := classes[counts < 2]).numel():
        raise ValueError(f"a split needs at least 2 images of each class; labels {lonely.tolist()} have only one")
    return _hold_out(labels.cpu(), fraction, generator)


def split_off_test(labels: Tensor, fraction: float | None, seed: int, notes: list[str]) -> tuple[Tensor, Tensor]:
    """Indices of training and test images if there is no test split; without a `fraction` all images are in both."""
    if fraction is None:
        notes.append(f"there is no test split: all {len(labels)} images are used")
        return torch.arange(len(labels)), torch.arange(len(labels))
    kept, held = stratified_split(labels, fraction, torch.Generator().manual_seed(seed))
    notes.append(f"split into {len(kept)} training and {len(held)} test images, seed {seed}")
    return kept, held


def stratified_subset(labels: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Indices of `count` images, in class proportions, at least one per class: (all,) labels -> (count,), ascending."""
    labels = labels.cpu()
    counts = labels.unique(return_counts=True)[1]
    if not len(counts) <= count <= len(labels):
        raise ValueError(
            f"train_images must lie between the {len(counts)} classes and the {len(labels)} images, got {count}"
        )
    return _choose(labels, _allot(counts, count, at_most=counts), generator)[1]


def at_most(data: ImageSet, count: int, classes: int, generator: torch.Generator) -> ImageSet:
    """At most `count` of the images, in class proportions, at least one per class; fewer if they are large.

    They are held in memory together, as floats.
    """
    most = max(min(count, MOST_VALUES // data.images.shape[1:].numel()), classes)
    if len(data) <= most:
        return data
    return data.subset(stratified_subset(data.labels, most, generator))


def split_training(
    data: Dataset, *, count: int | None, validation: float, seed: int
) -> tuple[ImageSet, ImageSet | None]:
    """(training images, validation images), chosen by seed, in class proportions; from `count` images if given.

    Validation images that the data set itself sets aside are taken as they are. A class that has only one image keeps
    it for training; no other class is missing among the validation images.
    """
    images, generator = data.train, torch.Generator().manual_seed(seed)
    if count is not None:
        images = images.subset(stratified_subset(images.labels, count, generator))
    if not validation or data.validation is not None:
        return images, data.validation
    kept, held_out = _hold_out(images.labels.cpu(), validation, generator)
    if not len(held_out):
        raise ValueError(
            f"none of {len(images)} images can be held out, since no class has 2; add images, or hold out none "
            "with --validation 0"
        )
    return images.subset(kept), images.subset(held_out)


def _hold_out(labels: Tensor, fraction: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Indices kept and held out, without the last image of any class."""
    counts = labels.unique(return_counts=True)[1]
    return _choose(labels, _allot(counts, round(fraction * len(labels)), at_most=counts - 1), generator)


def _allot(counts: Tensor, total: int, at_most: Tensor) -> Tensor:
    """`total` divided among the classes by largest remainder, each between 1 and `at_most`: (classes,) -> same."""
    ideal = counts * (total / int(counts.sum()))
    share = ideal.long().clamp(min=1).minimum(at_most)
    total = min(max(total, int((at_most > 0).sum())), int(at_most.sum()))
    while int(share.sum()) < total:
        wanting = (ideal - share).masked_fill(share >= at_most, -torch.inf)
        share[wanting.argmax()] += 1
    while int(share.sum()) > total:
        spare = (share - ideal).masked_fill(share <= 1, -torch.inf)
        share[spare.argmax()] -= 1
    return share


def _choose(labels: Tensor, share: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """`share` random images of each class: -> (other indices, chosen indices), ascending."""
    _, group, counts = labels.unique(return_inverse=True, return_counts=True)
    shuffled = torch.randperm(len(labels), generator=generator, device=generator.device).cpu()
    # Shuffled, then stably sorted by class: the first of each class are a random choice.
    order = shuffled[group[shuffled].argsort(stable=True)]
    place = torch.arange(len(labels)) - (counts.cumsum(0) - counts)[group[order]]
    chosen = place < share[group[order]]
    return order[~chosen].sort().values, order[chosen].sort().values
