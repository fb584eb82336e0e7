"""One epoch of batches, cut on the device from a split that is stored there whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from hitnet.data.dataset import ImageSet
from hitnet.data.transforms import to_float
from hitnet.data.variation import Variation


class Batch(NamedTuple):
    """One step's images, float32 in [0, 1] (batch, channels, height, width), and int64 labels (batch,)."""

    images: Tensor
    """What the network sees."""
    labels: Tensor
    whole: Tensor
    """What it should draw: the same images with nothing erased."""


class Batches:
    """The batches of an image set: `for images, labels in batches` to evaluate, `batches.epoch(number)` to train.

    Evaluation takes the images in order and as they are. Every training epoch is shuffled and varied anew with the
    `generator`; with `balance`, it shows every class equally often. `batch_size` is the global one: every rank chooses
    the same order and the same variation and takes its slice of each batch, so 2 ranks of 64 together see what one
    process of 128 sees.

    Training gives every rank at least 2 images (batch statistics of one image mean nothing): a last batch too small for
    that is dropped. Evaluation drops nothing.
    """

    def __init__(
        self,
        data: ImageSet,
        batch_size: int,
        *,
        variation: Variation | None = None,
        generator: torch.Generator | None = None,
        balance: bool = False,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if not 0 <= rank < world_size:
            raise ValueError(f"rank must lie in 0..{world_size - 1}, got {rank}")
        if generator is None and variation is not None:
            raise ValueError("variation is random and needs a generator; leave it out for evaluation")
        least = 1 if generator is None else 2 * world_size
        if min(batch_size, len(data)) < least:
            got = f"batch_size {batch_size} and {len(data)} images"
            why = f" (2 for each of {world_size} processes)" if least > 2 else ""
            raise ValueError(f"batches must hold at least {least} images{why}, got {got}")
        self.data, self.variation, self.generator, self.rank = data, variation or Variation(), generator, rank
        self.balance = balance
        self.spans = _spans(len(data), batch_size, least, rank, world_size)

    def __len__(self) -> int:
        return len(self.spans)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for start, stop in self.spans:
            yield to_float(self.data.images[start:stop]), self.data.labels[start:stop]

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of a training epoch; its number decides which images are mirrored."""
        if self.generator is None:
            raise ValueError("a training epoch is random and needs a generator; give one to Batches")
        data, variation, device = self.data, self.variation, self.data.images.device
        order = self.order(self.generator)
        choices = variation.choose(order, number, self.generator, device)
        order = order.to(device)
        for start, stop in self.spans:
            chosen, part = order[start:stop], choices.of(start, stop)
            labels = data.labels[chosen]
            whole = variation.apply(data.images[chosen], labels, part, self.generator, self.rank)
            yield Batch(variation.hide(whole, part), labels, whole)

    def order(self, generator: torch.Generator) -> Tensor:
        """Which images an epoch shows, in order: (count,) indices, on the generator's device."""
        if self.balance:
            return balanced_order(self.data.labels, generator)
        return torch.randperm(len(self.data), generator=generator, device=generator.device)


def balanced_order(labels: Tensor, generator: torch.Generator) -> Tensor:
    """As many indices as labels, in random order, every class equally often to one: (count,) -> (count,).

    A small class is repeated, every image of it equally often to one; of a large one, a random choice is left.
    """
    classes, device = labels.unique(), generator.device
    # Which classes come once more than others is random, too.
    lucky = torch.randperm(len(classes), generator=generator, device=device)
    chosen = []
    for place, label in zip(lucky.tolist(), classes, strict=True):
        own = (labels == label).nonzero()[:, 0].to(device)
        wanted = len(labels) // len(classes) + (place < len(labels) % len(classes))
        rounds = -(-wanted // len(own))
        shuffled = [torch.randperm(len(own), generator=generator, device=device) for _ in range(rounds)]
        chosen.append(own[torch.cat(shuffled)[:wanted]])
    order = torch.cat(chosen)
    return order[torch.randperm(len(order), generator=generator, device=device)]


def _spans(count: int, batch_size: int, least: int, rank: int, world_size: int) -> list[tuple[int, int]]:
    """Where this rank's slice of each global batch starts and stops."""
    spans = []
    for start in range(0, count, batch_size):
        size = min(batch_size, count - start)
        first, last = start + size * rank // world_size, start + size * (rank + 1) // world_size
        if size >= least and last > first:
            spans.append((first, last))
    return spans
