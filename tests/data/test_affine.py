"""Digits on 40×40."""

import numpy as np
import pytest
import torch
from support.official_files import digits, write_mnist

from hitnet.data import load_dataset
from hitnet.data.affine import deform, place_at_random


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def solid(count: int) -> torch.Tensor:
    """White squares of 20×20 in the middle of 28×28: the most ink an MNIST digit can have."""
    images = torch.zeros(count, 1, 28, 28, dtype=torch.uint8)
    images[:, :, 4:24, 4:24] = 255
    return images


def test_placed_digits_are_unchanged_and_reach_every_place():
    images = torch.from_numpy(digits(4000)[0])[:, None]
    placed = place_at_random(images, generator=seeded())
    assert placed.shape == (4000, 1, 40, 40)
    corners = set()
    for image, frame in zip(images, placed, strict=True):
        top, left = (int((frame[0].amax(axis) > 0).nonzero().min()) - 4 for axis in (1, 0))
        corners.add((top, left))
        assert torch.equal(frame[0, top : top + 28, left : left + 28], image[0])
    assert corners == {(top, left) for top in range(13) for left in range(13)}


def test_deformed_digits_stay_whole_within_the_frame():
    images = solid(3000)
    deformed = deform(images, generator=seeded())
    assert deformed.shape == (3000, 1, 40, 40)
    assert deformed.dtype == torch.uint8
    # Nothing is cut off: the ink of a map that scales each axis by 0.8..1.2 lies between 0.64 and 1.44 of the original.
    ratio = deformed.double().sum((1, 2, 3)) / images.double().sum((1, 2, 3))
    assert 0.62 < float(ratio.min()) < 0.7
    assert 1.35 < float(ratio.max()) < 1.46


def test_deformed_digits_reach_all_four_edges():
    inked = deform(solid(2000), generator=seeded()).amax((0, 1)) > 0
    assert inked.any(0).all()
    assert inked.any(1).all()


def test_a_digit_too_large_for_the_frame_is_refused():
    with pytest.raises(ValueError, match="must fit 40 pixels"):
        deform(torch.full((500, 1, 28, 28), 255, dtype=torch.uint8), generator=seeded())


def test_affnist_like_is_reproducible_and_says_it_is_generated(tmp_path):
    write_mnist(tmp_path)
    one, two = (load_dataset("affnist-like", data_dir=tmp_path) for _ in range(2))
    assert one.fingerprint == two.fingerprint
    assert one.name == "affnist-like"
    assert "not the official affNIST" in one.notes[0]
    assert np.array_equal(one.test.labels, np.arange(20) % 10)
