"""Edge energy and blur against loops over single pixels."""

import pytest
import torch

from hitnet.interpret.sharpness import blurred, edge_energy


@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (1, 1, 1, 6), (3, 2, 1, 1)])
def test_edge_energy_equals_a_naive_loop(shape):
    images = torch.rand(shape, dtype=torch.float64)
    _, channels, height, width = shape
    for image, found in zip(images, edge_energy(images), strict=True):
        total = 0.0
        for c in range(channels):
            for y in range(height):
                for x in range(width):
                    if y + 1 < height:
                        total += float(image[c, y + 1, x] - image[c, y, x]) ** 2
                    if x + 1 < width:
                        total += float(image[c, y, x + 1] - image[c, y, x]) ** 2
        assert float(found) == pytest.approx(total / (channels * height * width))


@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (1, 1, 1, 6), (3, 2, 1, 1)])
def test_blur_equals_a_naive_loop(shape):
    images = torch.rand(shape, dtype=torch.float64)
    expected = torch.zeros_like(images)
    _, _, height, width = shape
    for y in range(height):
        for x in range(width):
            for dy in (-1, 0, 1):
                for dx in (-1, 0, 1):
                    weight = (2 - abs(dy)) * (2 - abs(dx)) / 16
                    row, column = min(max(y + dy, 0), height - 1), min(max(x + dx, 0), width - 1)
                    expected[:, :, y, x] += weight * images[:, :, row, column]
    torch.testing.assert_close(blurred(images), expected)


def test_a_mesh_is_gone_after_the_blur_and_a_plain_picture_stays():
    rows, columns = torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij")
    mesh = ((rows + columns) % 2).float().view(1, 1, 8, 8)
    assert edge_energy(mesh) > 1.7
    assert edge_energy(blurred(mesh)) < 0.05
    torch.testing.assert_close(blurred(torch.full((1, 3, 4, 4), 0.3)), torch.full((1, 3, 4, 4), 0.3))
