"""Encoders: their sizes, their layers, and the smallest image each can take."""

import re

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hitnet.core.encoders import DenseNet40, Encoder, FastEncoder, LeNet5, PaperEncoder, ResNet18

SMALL = {PaperEncoder: 8, FastEncoder: 4, LeNet5: 3, ResNet18: 4, DenseNet40: 2}
encoders = pytest.mark.parametrize("make", SMALL, ids=lambda make: make.__name__)


@encoders
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 17, 20), (2, 40, 24), (5, 33, 61), (1, 17, 150)])
def test_an_encoder_gives_as_many_features_as_it_tells(make, shape):
    encoder = make(shape, width=SMALL[make])
    features = encoder(torch.rand(2, *shape))
    assert isinstance(encoder, Encoder)
    assert features.shape == (2, encoder.num_features)
    assert torch.isfinite(features).all()


@encoders
def test_the_smallest_image_works_and_one_pixel_less_is_refused_with_that_size(make):
    small = make.smallest
    assert torch.isfinite(make((1, small, small), width=SMALL[make])(torch.rand(2, 1, small, small))).all()
    if small == 1:
        return
    for height, width in [(small - 1, small), (small, small - 1)]:
        with pytest.raises(ValueError, match=f"got {height}×{width}; resize them") as caught:
            make((1, height, width), width=SMALL[make])
        named = re.search(r"at least (\d+)×(\d+)", str(caught.value))
        assert named.groups() == (str(small), str(small))


def test_the_papers_encoder_is_two_9x9_convolutions_with_relu():
    encoder, images = PaperEncoder((1, 28, 28)), torch.rand(2, 1, 28, 28)
    first, second = encoder.conv1, encoder.conv2
    assert (first.weight.shape, second.weight.shape) == ((256, 1, 9, 9), (256, 256, 9, 9))
    between = F.relu(F.conv2d(images, first.weight, first.bias))
    after = F.relu(F.conv2d(between, second.weight, second.bias, stride=2))
    assert (between.shape, after.shape) == ((2, 256, 20, 20), (2, 256, 6, 6))
    torch.testing.assert_close(encoder(images), after.flatten(1))
    assert encoder.num_features == 256 * 6 * 6
    assert encoder(images).amin() == 0
    assert PaperEncoder((1, 28, 28), width=8, final_relu=False)(images).amin() < 0


def test_convolutions_start_glorot_uniform_with_zero_biases():
    encoder = PaperEncoder((3, 28, 28), width=32)
    for conv, inputs in [(encoder.conv1, 3), (encoder.conv2, 32)]:
        bound = (6 / (81 * (inputs + 32))) ** 0.5
        assert 0.99 * bound < conv.weight.abs().max() <= bound
        assert not conv.bias.any()


def test_lenet_pads_mnist_to_32():
    encoder, images = LeNet5((1, 28, 28)), torch.rand(2, 1, 28, 28)
    unpadded = LeNet5((1, 32, 32))
    unpadded.load_state_dict(encoder.state_dict())
    torch.testing.assert_close(encoder(images), unpadded(F.pad(images, (2, 2, 2, 2))))


def sizes(encoder: nn.Module, kind: type[nn.Module], image: Tensor) -> list[tuple[int, ...]]:
    """The shapes that all layers of a kind put out, in the order of their calls."""
    seen: list[tuple[int, ...]] = []
    for layer in encoder.modules():
        if isinstance(layer, kind):
            layer.register_forward_hook(lambda _layer, _inputs, output: seen.append(tuple(output.shape[1:])))
    encoder(image)
    return seen


def test_lenet5_has_the_layers_it_is_named_after():
    image = torch.rand(2, 1, 28, 28)
    assert sizes(LeNet5((1, 28, 28)), nn.Conv2d, image) == [(6, 28, 28), (16, 10, 10), (120, 1, 1)]
    assert sizes(LeNet5((1, 28, 28)), nn.Linear, image) == [(84,)]


def test_resnet18_has_18_layers_in_four_halving_stages():
    shapes = sizes(ResNet18((3, 32, 32), width=4), nn.Conv2d, torch.rand(2, 3, 32, 32))
    shortcuts = 3
    assert len(shapes) - shortcuts + 1 == 18
    assert sorted(set(shapes), reverse=True, key=lambda s: s[1]) == [(4, 32, 32), (8, 16, 16), (16, 8, 8), (32, 4, 4)]


def test_densenet40_has_40_layers_in_three_blocks_that_grow_by_12():
    shapes = sizes(DenseNet40((3, 32, 32)), nn.Conv2d, torch.rand(2, 3, 32, 32))
    assert len(shapes) + 1 == 40
    grown = [16 + 12 * 12, 16 + 24 * 12]
    block = [12]
    expected = [16, *block * 12, grown[0], *block * 12, grown[1], *block * 12]
    assert [shape[0] for shape in shapes] == expected
    assert [shape[1] for shape in shapes] == [32] * 14 + [16] * 13 + [8] * 12
    assert DenseNet40((3, 32, 32)).num_features == 16 + 36 * 12
