"""One capsule draws, and which one: all decoders."""

import pytest
import torch
from torch.nn import functional as F

from hitnet import create_model
from hitnet.core.decoder import Doubling, PictureDecoder

PLAIN = {"n1", "lenet5", "resnet18", "densenet40-12"}


def test_labels_choose_the_capsule_that_draws_otherwise_the_prediction_does(small_model):
    net, images = small_model("hitnet").eval(), torch.rand(3, 1, 28, 28)
    capsules = net.capsules(images)
    predicted = net.predict(images)
    assert torch.equal(net(images).reconstruction, net.decode(capsules, predicted))
    labels = (predicted + 1) % 10
    assert torch.equal(net(images, labels).reconstruction, net.decode(capsules, labels))
    assert not torch.equal(net.decode(capsules, labels), net.decode(capsules, predicted))


@pytest.mark.parametrize("decoder", ["paper", "standardised", "picture"])
def test_decoding_sees_one_capsule_only(small_model, decoder):
    net = small_model("hitnet", decoder=decoder).eval()
    capsules = torch.rand(2, 10, 16)
    changed = torch.rand(2, 10, 16)
    changed[:, 4] = capsules[:, 4]
    fours = torch.tensor([4, 4])
    assert torch.equal(net.decode(capsules, fours), net.decode(changed, fours))


def test_the_papers_decoder_is_two_hidden_layers_and_a_sigmoid():
    net, capsules = create_model("lenet5-hom", (1, 5, 6), num_classes=3, capsule_dim=4), torch.rand(2, 3, 4)
    first, second, third = (layer for layer in net.decoder.layers if isinstance(layer, torch.nn.Linear))
    assert (first.out_features, second.out_features, third.out_features) == (512, 1024, 30)
    masked = torch.zeros(2, 12)
    masked[0, 4:8], masked[1, 0:4] = capsules[0, 1], capsules[1, 0]
    expected = torch.sigmoid(third(F.relu(second(F.relu(first(masked)))))).view(2, 1, 5, 6)
    torch.testing.assert_close(net.decode(capsules, torch.tensor([1, 0])), expected)


def test_the_standardised_decoder_sees_the_class_and_deviations_in_units_of_their_own():
    net = create_model(
        "lenet5-hom", (1, 5, 6), num_classes=3, capsule_dim=4, decoder="standardised", hit_radius=0.2
    ).eval()
    capsules = torch.rand(2, 3, 4)
    first, second, third = (layer for layer in net.decoder.layers if isinstance(layer, torch.nn.Linear))
    seen = torch.zeros(2, 3 + 12)
    seen[0, 1] = seen[1, 0] = 1
    seen[0, 3 + 4 : 3 + 8], seen[1, 3 : 3 + 4] = (capsules[0, 1] - 0.5) / 0.1, (capsules[1, 0] - 0.5) / 0.1
    expected = torch.sigmoid(third(F.relu(second(F.relu(first(seen)))))).view(2, 1, 5, 6)
    torch.testing.assert_close(net.decode(capsules, torch.tensor([1, 0])), expected)


def test_while_training_the_standardised_decoder_is_told_which_deviations_it_does_not_see():
    net = create_model("lenet5-hom", (1, 5, 6), num_classes=3, capsule_dim=4, decoder="standardised")
    capsules, classes = torch.rand(400, 3, 4), torch.randint(3, (400,))
    net.decode(capsules, classes).sum().backward()
    assert (net.decoder.dropped.weight.grad != 0).any(dim=0).all()
    # Blind to the deviations, what is drawn tells which of the four were dropped: all, none, and all in between.
    with torch.no_grad():
        net.decoder.layers[0].weight[:, 3:] = 0
        net.decoder.dropped.weight.normal_()
    zeros = torch.zeros(400).long()
    assert len(net.decode(capsules, zeros).mul(1000).round().unique(dim=0)) == 16
    # One image in four loses some, and each share of them equally often: of four components one is kept in 3/4 + 1/8.
    with torch.no_grad():
        net.decoder.dropped.weight.copy_(torch.eye(512)[:, :4] * 1e3)
        net.decoder.layers[0].bias.zero_()
    seen: list[torch.Tensor] = []
    net.decoder.layers[1].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    net.decode(torch.full((4000, 3, 4), 0.5), torch.zeros(4000).long())
    lost = seen[0][:, :4] > 500
    assert float(lost.float().mean()) == pytest.approx(1 / 8, abs=0.02)
    assert float(lost.any(1).float().mean()) == pytest.approx((1 - 1 / 5) / 4, abs=0.03), (
        "1/5 of them draw a share of none"
    )
    # Drawing for a reader, everything is known.
    drawn = net.eval().decode(capsules, zeros)
    torch.testing.assert_close(drawn, drawn[:1].expand_as(drawn))


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_any_network_draws_if_it_is_given_a_decoder(small_model, name):
    net = small_model(name, decoder="paper")
    assert net(torch.rand(2, 1, 28, 28)).reconstruction.shape == (2, 1, 28, 28)


def test_without_a_decoder_drawing_is_refused(small_model):
    net = small_model("hitnet", decoder="none")
    assert net(torch.rand(2, 1, 28, 28)).reconstruction is None
    with pytest.raises(ValueError, match="hitnet has no decoder, so it cannot draw; create it with decoder='paper'"):
        net.decode(torch.rand(2, 10, 16), torch.tensor([0, 1]))


def enlarge(picture: torch.Tensor, layer: Doubling, height: int, width: int) -> torch.Tensor:
    """A quarter of every pixel repeated as a square, then convolved 3×3: (c, h, w) -> (channels, height, width)."""
    repeated = F.pad(picture.repeat_interleave(2, 1).repeat_interleave(2, 2) / 4, (1, 1, 1, 1))
    result = torch.zeros(layer.weight.shape[1], height, width, dtype=picture.dtype)
    for row in range(height):
        for column in range(width):
            seen = repeated[:, row : row + 3, column : column + 3].flip(1, 2)
            result[:, row, column] = torch.einsum("iyx,ioyx->o", seen, layer.weight) + layer.bias
    return result


@torch.no_grad()
def test_the_picture_decoder_equals_a_naive_loop():
    torch.manual_seed(0)
    decoder = PictureDecoder((2, 9, 6), num_classes=3, capsule_dim=4, unit=0.05).double()
    for parameter in decoder.parameters():
        parameter += 0.1 * torch.randn_like(parameter)
    capsules, label = 0.3 + 0.4 * torch.rand(1, 3, 4, dtype=torch.float64), 2
    units = 8 * torch.tanh((capsules[0, label] - 0.5) / 0.05 / 8)
    inputs = torch.zeros(15, dtype=torch.float64)
    inputs[label], inputs[3 + 4 * label :] = 1, units
    picture = F.relu(decoder.coarse(F.relu(decoder.first(inputs)))).view(128, 3, 2)
    for layer, size in zip(decoder.doublings, [(5, 3), (9, 6)], strict=True):
        picture = F.relu(enlarge(picture, layer, *size))
    expected = torch.sigmoid(F.conv2d(picture.unsqueeze(0), decoder.colours.weight, decoder.colours.bias, padding=1))
    torch.testing.assert_close(decoder(capsules, torch.tensor([label])), expected)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 4, 4), (3, 5, 17), (1, 28, 28), (3, 48, 96), (3, 224, 224)])
def test_the_picture_decoder_draws_any_size(shape):
    decoder = PictureDecoder(shape, num_classes=3, capsule_dim=4, unit=0.05)
    pictures = decoder(torch.rand(2, 3, 4), torch.tensor([0, 2])).detach()
    assert pictures.shape == (2, *shape)
    assert 0 <= float(pictures.min()) <= float(pictures.max()) <= 1
