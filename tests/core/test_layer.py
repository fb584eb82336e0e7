"""The Hit-or-Miss layer against its definition: fully connected, BatchNorm, sigmoid."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hitnet import HitOrMiss, centripetal_loss, distance_to_centre, squash
from hitnet.core.layer import NormalisedCapsules, SquashedCapsules, mask_capsules

K, N, FEATURES, BATCH = 3, 4, 7, 5


def naive_hit_or_miss(layer: HitOrMiss, features: Tensor) -> Tensor:
    """What a training step computes, one number after the other."""
    weight, bias = layer.linear.weight.tolist(), None if layer.linear.bias is None else layer.linear.bias.tolist()
    scale, shift = layer.batch_norm.weight.tolist(), layer.batch_norm.bias.tolist()
    vectors = [
        [
            [
                sum(w * x for w, x in zip(weight[k * N + i], row, strict=True)) + (bias[k * N + i] if bias else 0)
                for i in range(N)
            ]
            for k in range(K)
        ]
        for row in features.tolist()
    ]
    out = torch.empty(len(vectors), K, N, dtype=features.dtype)
    for k in range(K):
        for i in range(N):
            shared = layer.norm == "shared"
            group = [image[j][i] for image in vectors for j in (range(K) if shared else [k])]
            parameter = i if shared else k * N + i
            mean = sum(group) / len(group)
            variance = sum((value - mean) ** 2 for value in group) / len(group)
            for b, image in enumerate(vectors):
                normal = (image[k][i] - mean) / math.sqrt(variance + 1e-3) * scale[parameter] + shift[parameter]
                out[b, k, i] = 1 / (1 + math.exp(-normal))
    return out


def with_random_parameters(norm: str) -> HitOrMiss:
    layer = HitOrMiss(FEATURES, K, N, norm=norm, dtype=torch.float64)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    return layer


@pytest.mark.parametrize("norm", ["shared", "separate"])
def test_layer_equals_a_naive_computation_of_batch_statistics(norm):
    layer, features = with_random_parameters(norm), torch.randn(BATCH, FEATURES, dtype=torch.float64)
    torch.testing.assert_close(layer(features), naive_hit_or_miss(layer, features))


@pytest.mark.parametrize("norm", ["shared", "separate"])
def test_evaluation_uses_running_averages_that_move_by_a_hundredth(norm):
    layer, features = with_random_parameters(norm), torch.randn(BATCH, FEATURES, dtype=torch.float64)
    vectors = layer.linear(features).view(BATCH, K, N)
    dims = (0, 1) if norm == "shared" else (0,)
    mean, variance = vectors.mean(dims).flatten(), vectors.var(dims).flatten()
    layer(features)
    torch.testing.assert_close(layer.batch_norm.running_mean, 0.01 * mean)
    torch.testing.assert_close(layer.batch_norm.running_var, 0.99 + 0.01 * variance)
    running_mean, running_var = (
        (part.view(N) if norm == "shared" else part.view(K, N))
        for part in (layer.batch_norm.running_mean, layer.batch_norm.running_var)
    )
    scale, shift = (part.view_as(running_mean) for part in (layer.batch_norm.weight, layer.batch_norm.bias))
    expected = torch.sigmoid((vectors - running_mean) / (running_var + 1e-3).sqrt() * scale + shift)
    torch.testing.assert_close(layer.eval()(features), expected)


def test_constants_are_those_of_keras():
    layer = HitOrMiss(FEATURES, K)
    assert (layer.norm, layer.capsule_dim) == ("shared", 16)
    assert (layer.batch_norm.eps, layer.batch_norm.momentum) == (1e-3, 0.01)
    other = HitOrMiss(FEATURES, K, norm_eps=1e-5, norm_momentum=0.1)
    assert (other.batch_norm.eps, other.batch_norm.momentum) == (1e-5, 0.1)


def test_a_bias_only_where_normalisation_does_not_subtract_it():
    assert HitOrMiss(FEATURES, K, N, norm="shared").linear.bias.shape == (K * N,)
    assert HitOrMiss(FEATURES, K, N, norm="separate").linear.bias is None
    assert HitOrMiss(FEATURES, K, N, norm="shared").batch_norm.weight.shape == (N,)
    assert HitOrMiss(FEATURES, K, N, norm="separate").batch_norm.weight.shape == (K * N,)


def test_weights_start_glorot_uniform_and_biases_at_zero():
    layer = HitOrMiss(400, 10, 16)
    bound = math.sqrt(6 / (400 + 160))
    weight = layer.linear.weight
    assert weight.abs().max() <= bound
    assert weight.abs().max() > 0.99 * bound
    torch.testing.assert_close(weight.var().item(), bound**2 / 3, rtol=0.02, atol=0)
    assert torch.equal(layer.linear.bias, torch.zeros(160))


@pytest.mark.parametrize(("classes", "dims"), [(2, 1), (37, 2), (10, 16)])
@pytest.mark.parametrize("norm", ["shared", "separate"])
def test_capsules_lie_inside_unit_hypercubes(classes, dims, norm):
    capsules = HitOrMiss(FEATURES, classes, dims, norm)(torch.randn(4, FEATURES))
    assert capsules.shape == (4, classes, dims)
    assert ((capsules > 0) & (capsules < 1)).all()


@pytest.mark.parametrize("norm", ["shared", "separate"])
@pytest.mark.parametrize("features", [torch.zeros(2, FEATURES), torch.full((2, FEATURES), 3.7)], ids=["zero", "same"])
def test_constant_features_give_finite_gradients(norm, features):
    layer = HitOrMiss(FEATURES, K, N, norm)
    features = features.clone().requires_grad_()
    capsules = layer(features)
    centripetal_loss(distance_to_centre(capsules), torch.tensor([0, 2]), N).backward()
    for gradient in (features.grad, *(parameter.grad for parameter in layer.parameters())):
        assert torch.isfinite(gradient).all()


def test_constant_features_land_exactly_on_the_centre():
    assert torch.equal(HitOrMiss(FEATURES, K, N, "separate")(torch.zeros(2, FEATURES)), torch.full((2, K, N), 0.5))


def test_one_image_is_enough_for_shared_statistics():
    layer, features = with_random_parameters("shared"), torch.randn(1, FEATURES, dtype=torch.float64)
    torch.testing.assert_close(layer(features), naive_hit_or_miss(layer, features))


def test_one_image_is_too_few_to_train_with_separate_statistics():
    layer = HitOrMiss(FEATURES, K, N, "separate")
    with pytest.raises(
        ValueError, match=r"needs at least 2 images per batch, got 1: BatchNorm cannot estimate.*larger"
    ):
        layer(torch.randn(1, FEATURES))
    assert layer.eval()(torch.randn(1, FEATURES)).shape == (1, K, N)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_classes": 1}, "num_classes must be at least 2, got 1"),
        ({"capsule_dim": 0}, "capsule_dim must be at least 1, got 0; the paper uses 16"),
        ({"norm": "both"}, "norm must be 'shared' or 'separate', got 'both'"),
    ],
)
def test_a_layer_that_cannot_be_is_refused(options, text):
    with pytest.raises(ValueError, match=text):
        HitOrMiss(**{"in_features": FEATURES, "num_classes": K, **options})


def test_the_layer_says_what_it_is():
    assert "7, num_classes=3, capsule_dim=4, norm='shared'" in repr(HitOrMiss(FEATURES, K, N))


@settings(deadline=None, max_examples=60)
@given(vector=st.lists(st.floats(-50, 50), min_size=1, max_size=8))
def test_squash_equals_its_formula(vector):
    length = math.sqrt(sum(v * v for v in vector))
    expected = [length**2 / (1 + length**2) * v / length if length else 0.0 for v in vector]
    got = squash(torch.tensor(vector, dtype=torch.float64))
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64))


def test_squash_by_hand():
    # Length 5 becomes 25/26.
    torch.testing.assert_close(squash(torch.tensor([3.0, 4.0])), torch.tensor([3.0, 4.0]) / 5 * 25 / 26)


def test_squash_passes_gradcheck_and_has_a_finite_gradient_at_zero():
    assert torch.autograd.gradcheck(squash, torch.randn(3, 4, dtype=torch.float64, requires_grad=True))
    zero = torch.zeros(2, 4, requires_grad=True)
    squash(zero).sum().backward()
    assert torch.equal(zero.grad, torch.zeros(2, 4))


def test_squashed_capsules_are_normalised_ones_squashed():
    squashed, plain = SquashedCapsules(FEATURES, K, N), NormalisedCapsules(FEATURES, K, N)
    plain.load_state_dict(squashed.state_dict())
    features = torch.randn(BATCH, FEATURES)
    assert torch.equal(squashed(features), squash(plain(features)))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8])
def test_masking_keeps_one_capsule_of_each_image(dtype):
    capsules = torch.rand(4, K, N)
    labels = torch.tensor([2, 0, 1, 2], dtype=dtype)
    expected = torch.zeros(4, K, N)
    for image, label in enumerate(labels.tolist()):
        expected[image, label] = capsules[image, label]
    assert torch.equal(mask_capsules(capsules, labels), expected)
