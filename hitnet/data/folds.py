"""All images of a data set in one pool, and its parts for cross-validation: each is held out once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from hitnet.data.dataset import Dataset, ImageSet
from hitnet.data.mapped import MappedImages
from hitnet.data.split import at_most
from hitnet.settings import parse_fold

Split = Literal["train", "validation", "test"]
PIECE = 4096  # images that are looked at together
SHOWN = 2000  # images whose error shows how training proceeds, where none can be held out
FEWEST = 5  # images of a class: with fewer, a network would learn it from one or two


@dataclass(frozen=True, eq=False)
class Pool:
    """All images of a data set: training, then validation, then test images."""

    images: ImageSet
    """With names in `files`: the picture files, or as in train/17, the split and the number of an image in it."""
    splits: tuple[Split, ...]
    """The split that each image belongs to in its source; train if that has none."""

    @property
    def names(self) -> tuple[str, ...]:
        assert self.images.files is not None
        return self.images.files


def image_names(data: ImageSet, split: Split) -> tuple[str, ...]:
    """A name for each image of a split: its file, or as in train/17, the split and its number in it, from 0."""
    return data.files if data.files is not None else tuple(f"{split}/{index}" for index in range(len(data)))


def pool(data: Dataset) -> Pool:
    """All images of all splits, in the order of the splits."""
    splits: dict[Split, ImageSet | None] = {"train": data.train, "validation": data.validation, "test": data.test}
    present = {split: part for split, part in splits.items() if part is not None}
    together = ImageSet(
        _joined([part.images for part in present.values()]),
        torch.cat([part.labels for part in present.values()]),
        tuple(name for split, part in present.items() for name in image_names(part, split)),
    )
    own = {split: "train" if data.test_is_held_out else split for split in present}
    return Pool(together, tuple(own[split] for split, part in present.items() for _ in range(len(part))))


def _joined(parts: Sequence[Tensor | MappedImages]) -> Tensor | MappedImages:
    """One after the other; images that are in one file stay there."""
    mapped = [part for part in parts if isinstance(part, MappedImages)]
    if mapped:
        first = mapped[0]
        assert len(mapped) == len(parts), "a data set is either in memory or in a file"
        return MappedImages(first.file, torch.cat([part.places for part in mapped]), first.channels, str(first.device))
    return torch.cat([part for part in parts if isinstance(part, Tensor)])


def fold_of(data: Dataset, fold: str, seed: int) -> Dataset:
    """All images but one part of them to train on, that part to test on; 1/1 trains on all and tests on some."""
    number, count = parse_fold(fold)
    images = pool(data).images
    if count == 1:
        some = at_most(images, SHOWN, data.num_classes, torch.Generator().manual_seed(seed))
        note = f"no image is kept for testing; the test error is that of {len(some):,} of all {len(images):,}"
        return replace(data, train=images, validation=None, test=some, notes=(*data.notes, note))
    note = f"fold {fold}: the splits of {data.name} are put together and divided anew, seed {seed}"
    held_out = assign_folds(images, data.class_names, count, seed) == number - 1
    train, test = (images.subset(chosen.nonzero()[:, 0]) for chosen in (~held_out, held_out))
    return replace(data, train=train, validation=None, test=test, notes=(*data.notes, note))


def assign_folds(images: ImageSet, class_names: tuple[str, ...], count: int, seed: int) -> Tensor:
    """The part of each image, from 0, in class proportions: -> (images,).

    Exact copies of a picture go to the same part: a network that has seen one has seen them all. Near copies may not.
    """
    labels, first = images.labels.cpu(), first_copies(images.images)
    own = (first == torch.arange(len(first))).nonzero()[:, 0]
    shuffled = own[torch.randperm(len(own), generator=torch.Generator().manual_seed(seed))]
    ordered = shuffled[labels[shuffled].argsort(stable=True)]
    parts = torch.empty_like(first)
    parts[ordered] = torch.arange(len(ordered)) % count
    parts = parts[first]
    for index, name in enumerate(class_names):
        size, spread = int((labels == index).sum()), len(parts[labels == index].unique())
        if size < max(FEWEST, count):
            expected = f"class {name!r} has {size} images, expected at least {max(FEWEST, count)}"
            fewer = f"add some, leave it out, or use at most {size} folds"
            raise ValueError(f"{expected}; {fewer if size >= FEWEST else 'add some, or leave it out'}")
        if spread < 2:
            raise ValueError(f"the {size} images of class {name!r} are copies of each other; add others")
    return parts


def first_copies(images: Tensor | MappedImages) -> Tensor:
    """For each image the first one with the same pixels, often itself: (count, ...) -> (count,) indices."""
    seen: dict[bytes, int] = {}
    pixels = (image.tobytes() for piece in images.split(PIECE) for image in piece.cpu().numpy())
    digests = (hashlib.blake2b(each, digest_size=16).digest() for each in pixels)
    return torch.tensor([seen.setdefault(digest, index) for index, digest in enumerate(digests)])
