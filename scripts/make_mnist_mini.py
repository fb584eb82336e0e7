"""How the built-in `mnist-mini` was made: `python scripts/make_mnist_mini.py FOLDER_OF_MNIST`."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import torch
from torch import Tensor

from hitnet.data.catalog import IDX_NAMES, load_mnist

SEED = 0
PER_CLASS = (500, 100)  # training, test


def make_mini(mnist_folder: Path, target: Path) -> None:
    """Choose the images and write the four IDX files; every call writes the same bytes."""
    mnist = load_mnist(mnist_folder)
    generator = torch.Generator().manual_seed(SEED)
    chosen = [
        part.subset(choose(part.labels, each, generator))
        for part, each in zip((mnist.train, mnist.test), PER_CLASS, strict=True)
    ]
    tensors = [tensor for part in chosen for tensor in (part.pixels()[:, 0], part.labels.byte())]
    target.mkdir(parents=True, exist_ok=True)
    for name, tensor in zip(IDX_NAMES, tensors, strict=True):
        (target / name).write_bytes(to_idx(tensor))


def choose(labels: Tensor, each: int, generator: torch.Generator) -> Tensor:
    """Indices of `each` random images of every class, shuffled: (count,) -> (classes * each,)."""
    order = torch.randperm(len(labels), generator=generator)
    indices = torch.cat([order[labels[order] == label][:each] for label in labels.unique()])
    return indices[torch.randperm(len(indices), generator=generator)]


def to_idx(tensor: Tensor) -> bytes:
    """A uint8 tensor as a gzipped IDX file, without a time stamp."""
    header = bytes([0, 0, 8, tensor.ndim]) + b"".join(side.to_bytes(4, "big") for side in tensor.shape)
    return gzip.compress(header + tensor.contiguous().numpy().tobytes(), mtime=0)


if __name__ == "__main__":
    make_mini(Path(sys.argv[1]), Path(__file__).parent.parent / "hitnet" / "data" / "mnist_mini")
