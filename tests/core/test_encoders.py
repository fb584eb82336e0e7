"""Encoders: their sizes, their layers, and the smallest image each can take."""

import re

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hitnet.core.encoders import (
    LEAST_VARIANCE,
    DeepEncoder,
    DenseNet40,
    Encoder,
    FastEncoder,
    LeNet5,
    PaperEncoder,
    ResNet18,
)

SMALL = {PaperEncoder: 8, FastEncoder: 4, DeepEncoder: 4, LeNet5: 3, ResNet18: 4, DenseNet40: 2}
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


def correlated(count: int, channels: int, side: int) -> Tensor:
    """Bytes in which neighbours are alike, as in pictures."""
    noise = torch.rand(count, channels, side + 4, side + 4, generator=torch.Generator().manual_seed(6))
    smooth = F.avg_pool2d(noise, 5, stride=1)
    return (255 * (smooth + 0.2 * noise[:, :1, 2:-2, 2:-2]).clamp(0, 1)).byte()


@pytest.mark.parametrize("channels", [1, 3])
def test_the_deep_encoders_filters_give_uncorrelated_answers_of_about_variance_one(channels):
    images = correlated(300, channels, 12)
    encoder = DeepEncoder((channels, 12, 12), width=4)
    encoder.prepare(images)
    filters = 4 * channels
    answers = F.conv2d(images.double() / 255, encoder.whitening.double(), -encoder.mean_answers.double())
    torch.testing.assert_close(answers[:, :filters], -answers[:, filters:])
    flat = answers[:, :filters].transpose(0, 1).flatten(1)
    assert float(flat.mean(1).abs().max()) < 0.05
    covariance = torch.cov(flat)
    assert float((covariance - covariance.diag().diag()).abs().max()) < 0.05
    # Directions in which patches hardly vary stay smaller.
    variances = torch.linalg.eigvalsh(torch.cov(F.unfold(images.double() / 255, 2).transpose(0, 1).flatten(1)))
    torch.testing.assert_close(covariance.diag(), variances / (variances + LEAST_VARIANCE), atol=0.05, rtol=0)


def test_the_deep_encoder_filters_patches_then_bends_them_by_gelu_before_its_layers():
    encoder = DeepEncoder((1, 8, 8), width=4)
    encoder.prepare(correlated(50, 1, 8))
    encoder.eval()
    images = correlated(3, 1, 8).float() / 255
    answers = encoder.whitening.flatten(1) @ F.unfold(images, 2) - encoder.mean_answers[:, None]
    bent = answers / 2 * (1 + torch.erf(answers / 2**0.5))
    torch.testing.assert_close(encoder(images), encoder.layers(bent.unflatten(2, (7, 7))))


def test_the_deep_encoders_filters_do_not_depend_on_how_many_images_are_held_in_memory(monkeypatch):
    images, whole, parts = correlated(50, 3, 8), DeepEncoder((3, 8, 8), width=4), DeepEncoder((3, 8, 8), width=4)
    whole.prepare(images)
    monkeypatch.setattr("hitnet.core.encoders.PIECE", 7 * 3 * 8 * 8)
    parts.prepare(images)
    torch.testing.assert_close(parts.whitening.abs(), whole.whitening.abs(), rtol=1e-4, atol=1e-4)


def test_the_deep_encoder_prepares_only_once_takes_bytes_or_floats_and_keeps_its_filters_in_its_weights():
    images = correlated(50, 1, 8)
    one, other = DeepEncoder((1, 8, 8), width=4), DeepEncoder((1, 8, 8), width=4)
    one.prepare(images)
    other.prepare(images.float() / 255)
    torch.testing.assert_close(one.whitening, other.whitening)
    before = one.whitening.clone()
    one.prepare(255 - images[:10])
    assert torch.equal(one.whitening, before)
    again = DeepEncoder((1, 8, 8), width=4)
    again.load_state_dict(one.state_dict())
    assert torch.equal(again.whitening, before)
    assert not any("whitening" in name for name, _ in one.named_parameters())


def test_images_that_do_not_fit_leave_the_deep_encoder_unprepared():
    encoder = DeepEncoder((1, 8, 8), width=4)
    before = encoder.whitening.clone()
    with pytest.raises(ValueError, match=r"images must have shape \(batch, 1, 8, 8\), got \(10, 3, 8, 8\)"):
        encoder.prepare(torch.rand(10, 3, 8, 8))
    with pytest.raises(ValueError, match="images must hold at least one image"):
        encoder.prepare(torch.rand(0, 1, 8, 8))
    with pytest.raises(ValueError, match=r"images must lie in \[0, 1\], .* divide by 255"):
        encoder.prepare(255 * torch.rand(10, 1, 8, 8))
    encoder.prepare(correlated(50, 1, 8))
    assert not torch.equal(encoder.whitening, before)


def test_the_deep_encoders_convolutions_begin_by_passing_on_what_comes_in():
    for conv in DeepEncoder((1, 12, 12), width=8).layers:
        if isinstance(conv, nn.Conv2d):
            images = torch.rand(2, conv.in_channels, 5, 5)
            torch.testing.assert_close(conv(images)[:, : conv.in_channels], images)


def test_flat_images_leave_the_deep_encoder_finite():
    encoder = DeepEncoder((1, 8, 8), width=4)
    encoder.prepare(torch.full((4, 1, 8, 8), 255, dtype=torch.uint8))
    assert torch.isfinite(encoder(torch.rand(3, 1, 8, 8))).all()


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 28, 28), [(4, 27, 27), (4, 13, 13), (16, 13, 13), (16, 6, 6), (16, 6, 6), (16, 3, 3)]),
        ((3, 32, 32), [(4, 31, 31), (4, 15, 15), (16, 15, 15), (16, 7, 7), (16, 7, 7), (16, 3, 3)]),
    ],
)
def test_the_deep_encoder_has_three_groups_of_two_convolutions(shape, expected):
    assert sizes(DeepEncoder(shape, width=4), nn.Conv2d, torch.rand(2, *shape)) == expected
    assert DeepEncoder(shape).num_features == 256 * 9


def test_pooling_before_the_relu_changes_neither_features_nor_gradients():
    torch.manual_seed(0)
    encoder, images = FastEncoder((1, 12, 12), width=4).double(), torch.rand(3, 1, 12, 12, dtype=torch.float64)
    weights = list(encoder.parameters())
    features = encoder(images)
    layers, plain = list(encoder.layers), images
    for place, layer in enumerate(layers):
        if isinstance(layer, nn.MaxPool2d):
            plain = layer(F.relu(plain))
        elif not (isinstance(layer, nn.ReLU) and isinstance(layers[place - 1], nn.MaxPool2d)):
            plain = layer(plain)
    assert torch.equal(features, plain)
    slopes = torch.rand_like(features)
    for found, expected in zip(
        *(torch.autograd.grad(each, weights, slopes) for each in (features, plain)), strict=True
    ):
        assert torch.equal(found, expected)
