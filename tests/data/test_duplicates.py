"""Copies of pictures: exact ones, re-encoded ones, shifted and cropped ones; and pictures that only look alike."""

import io
import time

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter

from hitnet.data.catalog import load_dataset
from hitnet.data.duplicates import exact_sets, near_sets


@pytest.fixture(scope="module")
def photos() -> torch.Tensor:
    """60 colourful pictures of 64×64 with large and small shapes."""
    random = np.random.default_rng(0)
    pictures = []
    for _ in range(60):
        coarse = Image.fromarray(random.integers(0, 256, (8, 8, 3), dtype=np.uint8)).resize(
            (64, 64), Image.Resampling.BICUBIC
        )
        pictures.append(np.asarray(coarse.filter(ImageFilter.GaussianBlur(1))))
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).contiguous()


def jpeg(picture: Image.Image) -> Image.Image:
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=60)
    return Image.open(content)


CHANGES = {
    "re-encoded": jpeg,
    "shifted by a pixel": lambda picture: Image.fromarray(np.roll(np.asarray(picture), 1, axis=1)),
    "cropped": lambda picture: picture.crop((1, 1, 63, 63)).resize((64, 64)),
    "darker": lambda picture: picture.point(lambda value: int(0.8 * value)),
    "half its size": lambda picture: picture.resize((32, 32)).resize((64, 64)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_copies_are_found_and_nothing_else(change: str, photos: torch.Tensor):
    originals = photos[:20].permute(0, 2, 3, 1).numpy()
    copies = [np.asarray(CHANGES[change](Image.fromarray(picture))) for picture in originals]
    everything = torch.cat([photos, torch.from_numpy(np.stack(copies)).permute(0, 3, 1, 2)])
    assert near_sets(everything) == [[index, 60 + index] for index in range(20)]
    assert exact_sets(everything) == []


def test_exact_copies_form_one_set(photos: torch.Tensor):
    everything = torch.cat([photos, photos[[3, 7, 3]]])
    assert exact_sets(everything) == near_sets(everything) == [[3, 60, 62], [7, 61]]


def test_digits_that_look_alike_are_not_called_copies():
    images = load_dataset("mnist-mini").train.images[:2000]
    assert sum(map(len, near_sets(images))) <= 10


def test_blank_pictures_and_few_pictures_are_no_problem():
    assert near_sets(torch.zeros(1, 1, 5, 5, dtype=torch.uint8)) == []
    grey = torch.arange(4, dtype=torch.uint8).view(4, 1, 1, 1).expand(4, 1, 5, 5).contiguous()
    assert near_sets(grey) == []


def test_the_time_grows_with_the_number_of_pictures_not_with_its_square():
    """All alike, the worst case for any index: 40 times as many may take at most 200 times as long."""
    generator = torch.Generator().manual_seed(0)

    def seconds(count: int) -> float:
        images = torch.randint(100, 110, (count, 1, 8, 8), generator=generator, dtype=torch.uint8)
        began = time.process_time()
        near_sets(images)
        return time.process_time() - began

    assert seconds(8000) < 200 * max(seconds(200), 0.01)


def test_twelve_near_copies_of_one_picture_are_found_and_nothing_else(photos: torch.Tensor):
    noise = torch.randint(-6, 7, (12, *photos.shape[1:]), generator=torch.Generator().manual_seed(0))
    copies = (photos[5] + noise).clamp(0, 255).byte()
    assert near_sets(torch.cat([photos, copies])) == [[5, *range(60, 72)]]


def test_the_same_shape_in_another_colour_is_no_copy(photos: torch.Tensor):
    y, x = torch.meshgrid(torch.arange(64), torch.arange(64), indexing="ij")
    disc = ((y - 30) ** 2 + (x - 34) ** 2 < 400).byte() * 250
    coloured = torch.zeros(3, 3, 64, 64, dtype=torch.uint8)
    for channel in range(3):
        coloured[channel, channel] = disc
    darker = (0.9 * coloured[:1]).byte()
    assert near_sets(torch.cat([photos, coloured, darker])) == [[60, 63]]
