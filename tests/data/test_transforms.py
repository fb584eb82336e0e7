"""The changes that make new training images, each against a loop over pixels or a library."""

import colorsys
import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from scipy.ndimage import affine_transform, map_coordinates

from hitnet.data import ImageSet, Variation, load_dataset, to_float
from hitnet.data.transforms import affine_maps, erase, mirror, move, recolour, warp
from hitnet.defaults import LARGEST_CHANGE

SHAPES = [(1, 9, 9), (3, 8, 11)]


def some_images(shape: tuple[int, int, int], count: int = 5) -> torch.Tensor:
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(3))


def chosen(count: int, columns: int, low: float, high: float) -> torch.Tensor:
    return low + (high - low) * torch.rand(count, columns, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("fill", "mode"), [("zeros", "grid-constant"), ("edge", "nearest")])
def test_a_warp_equals_scipys_affine_transform(shape, fill, mode):
    images, offsets = some_images(shape), chosen(5, 2, -3, 3)
    maps = affine_maps(*chosen(5, 4, -0.2, 0.2).add(torch.tensor([0.0, 0, 1, 1])).unbind(1))
    warped = warp(images, maps, offsets, fill)
    middle = (np.array(shape[1:]) - 1) / 2
    for image, matrix, offset, new in zip(images, maps, offsets, warped, strict=True):
        # scipy maps (row, column) of the new image to that of the old one.
        inverse = torch.linalg.inv(matrix).flip(0, 1).double().numpy()
        start = middle - inverse @ (middle + offset.double().numpy())
        for channel, expected in zip(new, image, strict=True):
            wanted = affine_transform(expected.double().numpy(), inverse, start, order=1, mode=mode)
            np.testing.assert_allclose(channel.numpy(), wanted, atol=1e-5)


def keys(distance: float) -> float:
    """Keys' cubic curve with a = −3/4, by which a pixel counts at this distance."""
    x, a = abs(distance), -0.75
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def sample(image: np.ndarray, row: float, column: float, fill: str) -> float:
    """The value between the pixels of a grey image: a sum over the 4×4 pixels around."""
    height, width = image.shape
    total = 0.0
    for i in range(math.floor(row) - 1, math.floor(row) + 3):
        for j in range(math.floor(column) - 1, math.floor(column) + 3):
            if fill == "edge" or (0 <= i < height and 0 <= j < width):
                pixel = image[min(max(i, 0), height - 1), min(max(j, 0), width - 1)]
                total += keys(row - i) * keys(column - j) * pixel
    return total


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fill", ["zeros", "edge"])
def test_a_bicubic_warp_maps_moves_and_then_bends_as_a_loop_over_pixels_does(shape, fill):
    images, offsets, bends = some_images(shape), chosen(5, 2, -3, 3), chosen(5, 32, -0.8, 0.8).view(5, 2, 4, 4)
    maps = affine_maps(*chosen(5, 4, -0.2, 0.2).add(torch.tensor([0.0, 0, 1, 1])).unbind(1))
    warped = warp(images, maps, offsets, fill, "bicubic", bends)
    _, height, width = shape
    middle = (np.array([height, width]) - 1) / 2
    for number, (image, matrix, offset) in enumerate(
        zip(images.double(), maps.double(), offsets.double(), strict=True)
    ):
        new, inverse = warped[number], torch.linalg.inv(matrix).flip(0, 1).numpy()  # on (row, column)
        right, down = (net_by_hand(net.double().numpy(), height, width) for net in bends[number])
        for row, column in np.ndindex(height, width):
            bent = np.array([row + down[row, column], column + right[row, column]])
            place = middle + inverse @ (bent - middle - offset.numpy())
            wanted = [sample(channel.numpy(), *place, fill) for channel in image]
            np.testing.assert_allclose(new[:, row, column].numpy(), wanted, atol=2e-5)


@pytest.mark.parametrize("fill", ["zeros", "edge"])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_a_warp_that_only_moves_by_whole_pixels_equals_a_shift(fill, interpolation):
    images, offsets = some_images((3, 8, 11)), torch.tensor([[0, 0], [2, 0], [0, -3], [-1, 1], [2, 2]])
    same = torch.eye(2).expand(5, 2, 2)
    warped = warp(images, same, offsets.float(), fill, interpolation)
    torch.testing.assert_close(warped, move(images, offsets, fill), atol=1e-5, rtol=0)


def test_a_bend_that_is_the_same_everywhere_equals_a_shift():
    images, offsets = some_images((3, 8, 11)), torch.tensor([[0, 0], [2, 0], [0, -3], [-1, 1], [2, 2]])
    same = torch.eye(2).expand(5, 2, 2)
    # What moves down and right comes from farther up and left.
    bends = -offsets.flip(1)[:, :, None, None].expand(-1, -1, 4, 4).float()
    torch.testing.assert_close(warp(images, same, bends=bends), move(images, offsets), atol=1e-5, rtol=0)


def test_bent_images_equal_scipys_bicubic_net_and_interpolation():
    image, bends = some_images((1, 9, 12), 1), chosen(1, 2 * 16, -1.5, 1.5).view(1, 2, 4, 4)
    rows, columns = np.meshgrid(np.arange(9.0), np.arange(12.0), indexing="ij")
    right, down = (net_by_hand(net.numpy(), 9, 12) for net in bends[0])
    expected = map_coordinates(image[0, 0].numpy(), [rows + down, columns + right], order=1, mode="nearest")
    bent = warp(image, torch.eye(2)[None], fill="edge", bends=bends)
    torch.testing.assert_close(bent[0, 0], torch.from_numpy(expected), atol=1e-5, rtol=0)


def net_by_hand(net: np.ndarray, height: int, width: int) -> np.ndarray:
    """Cubic convolution between the points of a net that spans the image from corner to corner."""

    def along(side: int, points: int) -> np.ndarray:
        weights = np.zeros((side, points))
        for pixel in range(side):
            place = pixel * (points - 1) / (side - 1)
            for point in range(math.floor(place) - 1, math.floor(place) + 3):
                weights[pixel, min(max(point, 0), points - 1)] += keys(place - point)
        return weights

    return along(height, len(net)) @ net @ along(width, len(net)).T


def test_bent_images_never_fold():
    generator, variation = torch.Generator().manual_seed(0), Variation(bend=LARGEST_CHANGE["bend"])
    ramp = (torch.arange(256, dtype=torch.uint8)).expand(200, 1, 256, 256)
    choices = variation.choose(torch.arange(200), 0, generator, torch.device("cpu"))
    bent = Variation(bend=variation.bend, fill="edge").apply(ramp, torch.zeros(200), choices, generator)
    assert float(bent.diff(dim=3).min()) > -1e-5, "what was on the left stays on the left"
    assert float((bent - to_float(ramp)).abs().max()) > 0.08, "and yet it moves"


def test_varied_images_stay_as_sharp_as_they_were_to_a_fifth_and_within_their_range():
    digits = load_dataset("mnist-mini").test
    generator, variation = (
        torch.Generator().manual_seed(0),
        Variation(shift=2, rotate=10, scale=0.1, shear=10, bend=0.05),
    )
    choices = variation.choose(torch.arange(len(digits)), 0, generator, torch.device("cpu"))
    varied, plain = variation.apply(digits.images, digits.labels, choices, generator), to_float(digits.images)
    sharpness = [images.diff(dim=3).square().mean() for images in (varied, plain)]
    assert 0.8 < float(sharpness[0] / sharpness[1]) < 1.1
    assert (float(varied.min()), float(varied.max())) == (0, 1)


def test_maps_turn_slant_and_scale_as_they_are_told():
    angle, zero, one = torch.tensor([math.pi / 2]), torch.zeros(1), torch.ones(1)
    point = torch.tensor([1.0, 0.0])
    torch.testing.assert_close(affine_maps(angle, zero, one, one)[0] @ point, torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(affine_maps(zero, one, one, one)[0] @ point.flip(0), torch.tensor([1.0, 1.0]))
    torch.testing.assert_close(affine_maps(zero, zero, 2 * one, 3 * one)[0], torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
    # All at once: scaled to (2x, 3y), slanted to (2x + 3y, 3y), and turned to (−3y, 2x + 3y).
    both = affine_maps(angle, one, 2 * one, 3 * one)[0]
    torch.testing.assert_close(both, torch.tensor([[0.0, -3.0], [2.0, 3.0]]))


def test_bends_are_fractions_of_the_shorter_side():
    images = torch.randint(0, 256, (5, 1, 8, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    generator, variation = torch.Generator().manual_seed(0), Variation(bend=0.1)
    choices = variation.choose(torch.arange(5), 0, generator, torch.device("cpu"))
    assert choices.bends is not None
    assert choices.maps is not None
    varied = variation.apply(images, torch.zeros(5), choices, generator)
    bent = warp(to_float(images), choices.maps, None, "zeros", "bicubic", 8 * choices.bends).clamp(0, 1)
    torch.testing.assert_close(varied, bent)


@pytest.mark.parametrize("shape", SHAPES)
def test_erasing_equals_a_loop_over_pixels(shape):
    images, middles = some_images(shape), chosen(5, 2, 0, 1)
    erased = erase(images, middles, 0.5)
    _, height, width = shape
    for image, (down, right), new in zip(images, middles.tolist(), erased, strict=True):
        expected = image.clone()
        for row in range(height):
            for column in range(width):
                if max(abs(row + 0.5 - down * height), abs(column + 0.5 - right * width)) < 0.25 * min(height, width):
                    expected[:, row, column] = image.mean((1, 2))
        torch.testing.assert_close(new, expected)


def test_mirroring_touches_only_the_marked_images():
    images = some_images((1, 2, 3), 2)
    new = mirror(images, torch.tensor([False, True]))
    assert torch.equal(new[0], images[0])
    assert new[1, 0].tolist() == [row[::-1] for row in images[1, 0].tolist()]


@pytest.mark.parametrize(
    ("place", "change"), [(0, ImageEnhance.Color), (1, ImageEnhance.Contrast), (2, ImageEnhance.Brightness)]
)
def test_each_strength_does_what_pillow_does(place, change):
    image = some_images((3, 8, 11), 1)
    picture = Image.fromarray((255 * image[0]).permute(1, 2, 0).byte().numpy())
    strengths = torch.ones(1, 3)
    strengths[0, place] = 0.7
    expected = torch.from_numpy(np.array(change(picture).enhance(0.7))).permute(2, 0, 1) / 255
    # Pillow's contrast pulls towards the mean brightness, ours towards the mean of all channels.
    tolerance = 0.02 if place != 1 else 0.04
    torch.testing.assert_close(recolour(image, strengths)[0], expected, atol=tolerance, rtol=0)


def test_no_saturation_leaves_grey_and_grey_pictures_ignore_it():
    grey = recolour(some_images((3, 4, 4)), torch.tensor([[0.0, 1.0, 1.0]] * 5))
    assert all(colorsys.rgb_to_hsv(*pixel)[1] < 1e-5 for pixel in grey.permute(0, 2, 3, 1).reshape(-1, 3).tolist())
    images = some_images((1, 4, 4))
    torch.testing.assert_close(recolour(images, torch.tensor([[0.0, 1.0, 1.0]] * 5)), images)


def test_every_change_stays_within_its_limit_and_reaches_it():
    generator, order = torch.Generator().manual_seed(0), torch.arange(20_000)
    chosen = Variation(shift=3, rotate=20, bend=0.05, colour=0.3, erase=0.2).choose(
        order, 0, generator, torch.device("cpu")
    )
    assert chosen.offsets is not None
    assert chosen.maps is not None
    assert chosen.strengths is not None
    angles = torch.atan2(chosen.maps[:, 1, 0], chosen.maps[:, 0, 0]).rad2deg()
    assert set(chosen.offsets.flatten().tolist()) == set(range(-3, 4))
    assert (float(angles.min()), float(angles.max())) == pytest.approx((-20, 20), abs=0.02)
    assert (float(chosen.strengths.min()), float(chosen.strengths.max())) == pytest.approx((0.7, 1.3), abs=0.001)
    assert chosen.bends is not None
    assert (float(chosen.bends.min()), float(chosen.bends.max())) == pytest.approx((-0.05, 0.05), abs=0.001)
    assert chosen.mirrored is None
    assert chosen.holes is not None
    assert (float(chosen.holes.min()), float(chosen.holes.max())) == pytest.approx((0, 1), abs=0.001)


def test_maps_scale_and_slant_within_their_limits_and_reach_them():
    def maps(variation: Variation) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        chosen = variation.choose(torch.arange(20_000), 0, generator, torch.device("cpu")).maps
        assert chosen is not None
        return chosen

    scaled, slanted = maps(Variation(scale=0.1)), maps(Variation(shear=10))
    for place in (0, 1):
        assert float(scaled[:, place, place].min()) == pytest.approx(0.9, abs=0.001)
        assert float(scaled[:, place, place].max()) == pytest.approx(1.1, abs=0.001)
    degrees = slanted[:, 0, 1].atan().rad2deg()
    assert (float(degrees.min()), float(degrees.max())) == pytest.approx((-10, 10), abs=0.02)
    assert not slanted[:, 1, 0].any()


def test_a_shift_alone_leaves_bytes_exact():
    data = ImageSet(torch.randint(0, 256, (4, 1, 6, 6), dtype=torch.uint8), torch.arange(4))
    generator, variation = torch.Generator().manual_seed(0), Variation(shift=2)
    choices = variation.choose(torch.arange(4), 0, generator, torch.device("cpu"))
    assert choices.offsets is not None
    varied = variation.apply(data.images, data.labels, choices, generator)
    assert torch.equal(varied, move(data.images, choices.offsets).float() / 255)
