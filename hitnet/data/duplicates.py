"""Pictures that occur more than once: with the same pixels, or nearly so.

Near copies are found by a perceptual hash: the picture in grey, 32×32, its cosine transform, and for each of the 64
lowest frequencies whether it is above their median. Not all pairs are compared. All hashes are sorted several times,
each time with other bits first, and each is compared with those that follow it: a copy is next to the original in at
least one of the orders. Two pictures are compared in all their channels: a red disc is no copy of a green one. They are
near copies if they are far more alike than either is with others, since two digits 1 are always alike; or if they are
more alike than any two digits, since a picture with many copies is as much alike with others.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate, normalize

from hitnet.data.folds import first_copies
from hitnet.data.mapped import MappedImages

SIDE, LOWEST = 32, 8
ORDERS = 8  # of the hashes; every time other bits come first
NEIGHBOURS = 16  # that follow a hash and are compared with it
NOTABLE = 0.8  # correlation from which two pictures are remembered
LEAST_ALIKE = 0.95  # correlation of near copies
SURELY_ALIKE = 0.998  # the same, whatever others are like; two of MNIST's first 20,000 digits reach 0.995
OTHERS = 3  # a picture's third-best match is not expected to be a copy,
FRACTION = 0.25  # and a copy differs at most by this fraction of what that one differs by
PIECE = 4096  # images or pairs that are looked at together

Pairs = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float32]


def exact_sets(images: Tensor | MappedImages) -> list[list[int]]:
    """Sets of images with the same pixels, each in ascending order: (count, ...) -> indices."""
    return _sets(len(images), np.stack([np.arange(len(images)), first_copies(images).numpy()], axis=1))


def near_sets(images: Tensor | MappedImages) -> list[list[int]]:
    """Sets of images that are nearly the same, exact copies included: uint8 (count, channels, h, w) -> indices."""
    first = first_copies(images)
    own = (first == torch.arange(len(first))).nonzero()[:, 0]
    seen = [(_hashes(small), _standardised(small)) for small in map(_small, images.split(PIECE))]
    bits, pictures = np.concatenate([bits for bits, _ in seen]), torch.cat([vectors for _, vectors in seen])
    near = own.numpy()[_near_pairs(bits[own.numpy()], pictures[own])]
    copies = np.stack([np.arange(len(images)), first.numpy()], axis=1)
    return _sets(len(images), np.concatenate([near, copies]))


def _near_pairs(bits: npt.NDArray[np.bool_], pictures: Tensor) -> Pairs:
    """Pairs of pictures that are nearly the same: (count, 64), (count, values) -> (pairs, 2)."""
    pairs, alike = _compared(bits, pictures)
    usual = _usual(pairs, alike, len(pictures))
    differs, allowed = 1 - alike, FRACTION * (1 - usual[pairs].max(axis=1))
    return pairs[(alike >= SURELY_ALIKE) | ((alike >= LEAST_ALIKE) & (differs <= allowed))]


def _small(images: Tensor) -> Tensor:
    """32×32: -> (count, channels, 32, 32)."""
    return interpolate(images.cpu().float(), (SIDE, SIDE), mode="bilinear", antialias=True)


def _hashes(small: Tensor) -> npt.NDArray[np.bool_]:
    """Of the pictures in grey: -> (count, 64) bits."""
    place = torch.arange(SIDE, dtype=torch.float32)
    # The DCT-II; without frequency 0, which is the brightness.
    waves = torch.cos(torch.pi / SIDE * (place + 0.5) * torch.arange(1, LOWEST + 1).unsqueeze(1))
    strength = (waves @ small.mean(dim=1) @ waves.T).flatten(1)
    return (strength > strength.median(dim=1, keepdim=True).values).numpy()


def _standardised(small: Tensor) -> Tensor:
    """Vectors whose scalar product is the correlation of the pictures: (count, channels, 32, 32) -> (count, values).

    Each channel has its own mean: a picture with a tint is still alike.
    """
    pooled = avg_pool2d(small, 2)
    return normalize((pooled - pooled.mean(dim=(2, 3), keepdim=True)).flatten(1), eps=1e-3)


def _compared(bits: npt.NDArray[np.bool_], pictures: Tensor) -> tuple[Pairs, Numbers]:
    """Pairs of pictures that are notably alike, the smaller index first, and their correlation."""
    pairs, alike = [np.empty((0, 2), np.int64)], [np.empty(0, np.float32)]
    # Always the same memory: large pieces allocated between small results that stay would leave gigabytes of gaps.
    room = pictures.new_empty(2, PIECE, pictures.shape[1])
    for candidates in _neighbours(bits):
        for piece in torch.from_numpy(candidates).split(PIECE):
            for side, chosen in zip(room, piece.T, strict=True):
                torch.index_select(pictures, 0, chosen, out=side[: len(piece)])
            correlation = room[0, : len(piece)].mul_(room[1, : len(piece)]).sum(dim=1)
            notable = correlation >= NOTABLE
            pairs.append(piece[notable].numpy())
            alike.append(correlation[notable].numpy())
    found, first = np.unique(np.concatenate(pairs), axis=0, return_index=True)
    return found, np.concatenate(alike)[first]


def _neighbours(bits: npt.NDArray[np.bool_]) -> Iterator[Pairs]:
    """Pairs that are near each other in one of the orders: (count, 64) -> (pairs, 2), the smaller index first."""
    for turn in range(ORDERS):
        turned = np.roll(bits, -turn * bits.shape[1] // ORDERS, axis=1)
        order = np.argsort(np.packbits(turned, axis=1).view(">u8")[:, 0], kind="stable")
        for distance in range(1, min(NEIGHBOURS, len(order) - 1) + 1):
            yield np.sort(np.stack([order[:-distance], order[distance:]], axis=1), axis=1)


def _usual(pairs: Pairs, alike: Numbers, count: int) -> Numbers:
    """How alike each picture is with its third-best match: -> (count,)."""
    picture, correlation = pairs.T.ravel(), np.tile(alike, 2)
    order = np.lexsort((-correlation, picture))
    picture, correlation = picture[order], correlation[order]
    rank = np.arange(len(picture)) - np.searchsorted(picture, picture)
    usual = np.full(count, NOTABLE, np.float32)
    usual[picture[rank == OTHERS - 1]] = correlation[rank == OTHERS - 1]
    return usual


def _sets(count: int, pairs: Pairs) -> list[list[int]]:
    """The connected sets of two or more, each in ascending order, by their first member."""
    links = coo_matrix((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    _, member_of = connected_components(links, directed=False)
    order = np.argsort(member_of, kind="stable")
    sets = np.split(order, np.flatnonzero(np.diff(member_of[order])) + 1)
    return sorted(members.tolist() for members in sets if len(members) > 1)
