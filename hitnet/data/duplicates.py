"""Pictures that occur more than once: with the same pixels, or nearly so.

Near copies are found by a perceptual hash: the picture in grey, 32×32, its cosine transform, and for each of the 64
lowest frequencies whether it is above their median. Not all pairs are compared. All hashes are sorted several times,
each time with other bits first, and each is compared with those that follow it: a copy whose hash differs in few bits
is next to the original in at least one of the orders. What the hashes suggest is confirmed on the pictures themselves.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import interpolate, normalize

from hitnet.data.folds import first_copies

SIDE, LOWEST = 32, 8
ORDERS = 8  # of the hashes; every time other bits come first
NEIGHBOURS = 16  # that follow a hash and are compared with it
MOST_BITS = 12  # in which the hashes of near copies differ
LEAST_ALIKE = 0.98  # correlation of near copies; from 0.97 on, different digits and clothes count as copies
PIECE = 4096  # images or pairs that are looked at together

Pairs = npt.NDArray[np.int64]


def exact_sets(images: Tensor) -> list[list[int]]:
    """Sets of images with the same pixels, each in ascending order: (count, ...) -> indices."""
    return _sets(len(images), np.stack([np.arange(len(images)), first_copies(images).numpy()], axis=1))


def near_sets(images: Tensor) -> list[list[int]]:
    """Sets of images that are nearly the same, exact copies included: uint8 (count, channels, h, w) -> indices."""
    first = first_copies(images)
    own = (first == torch.arange(len(first))).nonzero()[:, 0]
    near = own.numpy()[near_pairs(images[own])]
    copies = np.stack([np.arange(len(images)), first.numpy()], axis=1)
    return _sets(len(images), np.concatenate([near, copies]))


def near_pairs(images: Tensor) -> Pairs:
    """Pairs of images that are nearly the same: uint8 (count, channels, height, width) -> (pairs, 2)."""
    small = torch.cat([_small(piece) for piece in images.split(PIECE)])
    hashes, pictures = _hashes(small), _standardised(small)
    found = [pairs for candidates in _candidates(hashes) for pairs in _confirmed(candidates, pictures)]
    return np.unique(np.concatenate([np.empty((0, 2), np.int64), *found]), axis=0)


def _small(images: Tensor) -> Tensor:
    """In grey, 32×32: -> (count, 32, 32)."""
    grey = images.float().mean(dim=1, keepdim=True)
    return interpolate(grey, (SIDE, SIDE), mode="bilinear", antialias=True)[:, 0]


def _hashes(small: Tensor) -> npt.NDArray[np.bool_]:
    """-> (count, 64) bits."""
    place = torch.arange(SIDE, dtype=torch.float32)
    # The DCT-II; without frequency 0, which is the brightness.
    waves = torch.cos(torch.pi / SIDE * (place + 0.5) * torch.arange(1, LOWEST + 1).unsqueeze(1))
    strength = (waves @ small @ waves.T).flatten(1)
    return (strength > strength.median(dim=1, keepdim=True).values).numpy()


def _standardised(small: Tensor) -> Tensor:
    """Thumbnails whose scalar product is their correlation: (count, 32, 32) -> (count, 256)."""
    pooled = torch.nn.functional.avg_pool2d(small.unsqueeze(1), 2).flatten(1)
    return normalize(pooled - pooled.mean(dim=1, keepdim=True), eps=1e-3)


def _candidates(bits: npt.NDArray[np.bool_]) -> Iterator[Pairs]:
    """Pairs of neighbours in each order whose hashes differ in few bits: -> (pairs, 2), the smaller index first."""
    for turn in range(ORDERS):
        turned = np.roll(bits, -turn * bits.shape[1] // ORDERS, axis=1)
        packed = np.packbits(turned, axis=1)
        keys = packed.view(">u8")[:, 0]
        order = np.argsort(keys, kind="stable")
        for distance in range(1, min(NEIGHBOURS, len(order) - 1) + 1):
            left, right = order[:-distance], order[distance:]
            differing = np.unpackbits(packed[left] ^ packed[right], axis=1).sum(axis=1)
            near = differing <= MOST_BITS
            yield np.sort(np.stack([left[near], right[near]], axis=1), axis=1)


def _confirmed(pairs: Pairs, pictures: Tensor) -> Iterator[Pairs]:
    for start in range(0, len(pairs), PIECE):
        piece = torch.from_numpy(pairs[start : start + PIECE])
        alike = (pictures[piece[:, 0]] * pictures[piece[:, 1]]).sum(dim=1) >= LEAST_ALIKE
        yield piece[alike].numpy()


def _sets(count: int, pairs: Pairs) -> list[list[int]]:
    """The connected sets of two or more, each in ascending order, by their first member."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    links = coo_matrix((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    _, member_of = connected_components(links, directed=False)
    order = np.argsort(member_of, kind="stable")
    sets = np.split(order, np.flatnonzero(np.diff(member_of[order])) + 1)
    return sorted(members.tolist() for members in sets if len(members) > 1)
