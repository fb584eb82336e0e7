"""Heads: the paper's comparison table, row by row, and routing against Sabour's procedure."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from hitnet import centripetal_loss, margin_loss
from hitnet.core.heads import CapsNetHead, HitOrMissHead, N1Head, N2bHead, N2Head, Routing, SoftmaxHead, coupling, route
from hitnet.settings import ModelConfig

FEATURES = 32
HEADS = [SoftmaxHead, N1Head, N2Head, N2bHead, HitOrMissHead, CapsNetHead]
heads = pytest.mark.parametrize("head", HEADS, ids=lambda head: head.__name__)


def lengths(capsules: Tensor) -> list[list[float]]:
    return [[math.sqrt(sum(v * v for v in capsule)) for capsule in image] for image in capsules.tolist()]


def distances(capsules: Tensor) -> list[list[float]]:
    return lengths(capsules - 0.5)


def logits(capsules: Tensor) -> list[list[float]]:
    return [[capsule[0] for capsule in image] for image in capsules.tolist()]


TABLE = {
    SoftmaxHead: (logits, "highest", F.cross_entropy),
    N1Head: (logits, "highest", F.cross_entropy),
    N2Head: (lengths, "highest", margin_loss),
    N2bHead: (distances, "highest", margin_loss),
    HitOrMissHead: (distances, "lowest", centripetal_loss),
    CapsNetHead: (lengths, "highest", margin_loss),
}


@heads
def test_a_head_is_its_row_of_the_papers_table(head):
    naive_score, decision, loss = TABLE[head]
    made = head(FEATURES, ModelConfig.from_options(num_classes=4, width=16)).double()
    capsules = made(torch.randn(5, FEATURES, dtype=torch.float64))
    assert capsules.shape == (5, made.num_classes, made.capsule_dim)
    scores = made.score(capsules)
    torch.testing.assert_close(scores, torch.tensor(naive_score(capsules), dtype=torch.float64))
    pick = min if decision == "lowest" else max
    assert made.decide(scores).tolist() == [row.index(pick(row)) for row in scores.tolist()]
    labels = torch.tensor([0, 1, 2, 3, 0])
    torch.testing.assert_close(made.loss(scores, labels), loss(scores, labels))


@pytest.mark.parametrize("shape", ["stepwise", "smooth"])
def test_radii_and_shape_reach_the_loss(shape):
    config = ModelConfig.from_options(num_classes=4, capsule_dim=9, hit_radius=0.3, miss_radius=0.8, loss_shape=shape)
    head, scores, labels = HitOrMissHead(FEATURES, config), torch.rand(5, 4), torch.tensor([0, 1, 2, 3, 0])
    torch.testing.assert_close(head.loss(scores, labels), centripetal_loss(scores, labels, 9, 0.3, 0.8, shape=shape))


@pytest.mark.parametrize("head", [N2Head, N2bHead, HitOrMissHead], ids=lambda head: head.__name__)
def test_options_reach_the_layer(head):
    layer = head(
        FEATURES, ModelConfig.from_options(norm="separate", norm_momentum=0.2, norm_eps=1e-4, capsule_dim=5)
    ).layer
    assert (layer.norm, layer.capsule_dim) == ("separate", 5)
    assert (layer.batch_norm.momentum, layer.batch_norm.eps) == (0.2, 1e-4)


def test_n1_normalises_each_logit_and_needs_no_bias():
    head = N1Head(FEATURES, ModelConfig.from_options(num_classes=4)).double()
    features = torch.randn(6, FEATURES, dtype=torch.float64)
    plain = features @ head.layer.linear.weight.T
    expected = (plain - plain.mean(0)) / (plain.var(0, unbiased=False) + 1e-3).sqrt()
    torch.testing.assert_close(head.score(head(features)), expected)
    assert head.layer.linear.bias is None


@heads
@pytest.mark.parametrize(
    ("labels", "error", "text"),
    [
        (torch.tensor([0, 4]), ValueError, r"labels must lie in 0..3, got 4; check num_classes"),
        (torch.tensor([0.0, 1.0]), TypeError, r"labels must be integers, got torch.float32; use labels.long\(\)"),
        (torch.tensor([0, 1, 2]), ValueError, r"shape \(2,\).*got \(3,\)"),
    ],
)
def test_every_loss_refuses_wrong_labels(head, labels, error, text):
    made = head(FEATURES, ModelConfig.from_options(num_classes=4, width=16))
    with pytest.raises(error, match=text):
        made.loss(torch.rand(2, 4), labels)


# ---- routing


def naive_squash(vector: list[float]) -> list[float]:
    squared = sum(v * v for v in vector)
    return [squared / (1 + squared) * v / math.sqrt(squared) for v in vector] if squared else vector


def naive_route(votes: list[list[list[float]]], iterations: int) -> list[list[float]]:
    """Procedure 1 of Sabour et al. for one image: votes[j][i] is what primary capsule i predicts for class j."""
    classes, primaries, dims = len(votes), len(votes[0]), len(votes[0][0])
    b = [[0.0] * classes for _ in range(primaries)]
    for _ in range(iterations):
        c = []
        for i in range(primaries):
            total = sum(math.exp(b[i][j]) for j in range(classes))
            c.append([math.exp(b[i][j]) / total for j in range(classes)])
        v = []
        for j in range(classes):
            s = [sum(c[i][j] * votes[j][i][d] for i in range(primaries)) for d in range(dims)]
            v.append(naive_squash(s))
        for i in range(primaries):
            for j in range(classes):
                b[i][j] += sum(votes[j][i][d] * v[j][d] for d in range(dims))
    return v


@pytest.mark.parametrize("iterations", [1, 2, 3, 5])
def test_routing_equals_a_naive_loop(iterations):
    votes = torch.randn(3, 4, 6, 5, dtype=torch.float64)
    expected = torch.tensor([naive_route(image, iterations) for image in votes.tolist()], dtype=torch.float64)
    torch.testing.assert_close(route(votes, iterations), expected)


def test_routing_coefficients_sum_to_1_over_the_output_capsules():
    coefficients = coupling(torch.randn(3, 10, 7) * 5)
    assert coefficients.shape == (3, 10, 7)
    torch.testing.assert_close(coefficients.sum(dim=1), torch.ones(3, 7))
    torch.testing.assert_close(coupling(torch.zeros(1, 10, 7)), torch.full((1, 10, 7), 0.1))


def test_votes_equal_a_naive_loop_over_channels_and_pixels():
    channels, pixels, classes, dims = 16, 3, 4, 5
    routing = Routing(
        channels * pixels, ModelConfig.from_options(num_classes=classes, capsule_dim=dims, width=channels)
    ).double()
    features = torch.randn(2, channels * pixels, dtype=torch.float64)
    votes = routing.votes(features)
    assert votes.shape == (2, classes, 2 * pixels, dims)
    maps = features.view(2, channels, pixels)
    for image in range(2):
        for group in range(channels // 8):
            for pixel in range(pixels):
                primary = naive_squash(maps[image, 8 * group : 8 * group + 8, pixel].tolist())
                i = group * pixels + pixel
                expected = torch.tensor(primary, dtype=torch.float64) @ routing.weight[i]
                torch.testing.assert_close(votes[image, :, i].flatten(), expected)


def test_routing_iterations_default_to_3_and_can_be_chosen():
    features = torch.randn(2, FEATURES)
    routing = Routing(FEATURES, ModelConfig.from_options(width=16))
    assert torch.equal(routing(features), route(routing.votes(features), 3))
    other = Routing(FEATURES, ModelConfig.from_options(width=16, routing_iterations=1))
    other.load_state_dict(routing.state_dict())
    assert torch.equal(other(features), route(routing.votes(features), 1))


def test_gradients_flow_through_the_votes_of_the_last_round():
    votes = torch.randn(2, 3, 4, 5, dtype=torch.float64, requires_grad=True)
    one_round = torch.autograd.gradcheck(lambda v: route(v, 1), votes)
    assert one_round
    (gradient,) = torch.autograd.grad(route(votes, 3).square().sum(), votes)
    assert torch.isfinite(gradient).all()
    assert gradient.abs().amin(dim=3).min() > 0


def test_capsnet_needs_a_width_of_whole_primary_capsules():
    with pytest.raises(ValueError, match="capsnet needs a width divisible by 8, got 12; the paper uses 256"):
        Routing(48, ModelConfig.from_options(width=12))
