"""Staircase, centripetal and margin loss against loops written from the paper's formulas."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import hitnet
from hitnet import CentripetalLoss, centripetal_loss, distance_to_centre, margin_loss, staircase
from hitnet.core.loss import smooth_slope

TOLERANCE = {torch.float32: {"rtol": 1e-4, "atol": 1e-5}, torch.float64: {"rtol": 1e-10, "atol": 1e-12}}
REDUCTIONS = {"mean": lambda losses: sum(losses) / len(losses), "sum": sum, "none": lambda losses: losses}

quickly = settings(deadline=None, max_examples=60)
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


def naive_staircase(x: float, length: float, height: float, margin: float) -> float:
    if x - margin < 0:
        return 0.0
    f = math.floor((x - margin) / length)
    return (f + 1) * height * (x - margin - 0.5 * f * length)


def naive_centripetal(
    row: list[float],
    label: int,
    n: int,
    radii: tuple[float, float],
    hit_step: tuple[float, float],
    miss_step: tuple[float, float],
    weight: float,
) -> float:
    (hit_radius, miss_radius), far, loss = radii, math.sqrt(n) / 2, 0.0
    for k, y in enumerate(row):
        t = 1 if k == label else 0
        loss += t * naive_staircase(y, *hit_step, hit_radius)
        loss += weight * (1 - t) * naive_staircase(far - y, *miss_step, far - miss_radius)
    return loss


def naive_margin(row: list[float], label: int, present: float, absent: float, weight: float) -> float:
    loss = 0.0
    for k, y in enumerate(row):
        t = 1 if k == label else 0
        loss += t * max(0.0, present - y) ** 2 + weight * (1 - t) * max(0.0, y - absent) ** 2
    return loss


@st.composite
def scored_batches(draw: st.DrawFn, farthest: float) -> tuple[list[list[float]], list[int]]:
    """Scores in [0, farthest] and a label for each image."""
    batch, classes = draw(st.integers(1, 4)), draw(st.integers(2, 6))
    row = st.lists(st.floats(0, farthest), min_size=classes, max_size=classes)
    rows = draw(st.lists(row, min_size=batch, max_size=batch))
    return rows, draw(st.lists(st.integers(0, classes - 1), min_size=batch, max_size=batch))


lengths, heights = st.floats(0.02, 0.5), st.floats(0.01, 2)


# ---- staircase


@dtypes
@quickly
@given(
    values=st.lists(st.floats(-1, 4, width=32), min_size=1, max_size=20),
    length=lengths,
    height=heights,
    margin=st.floats(-1, 2),
)
def test_staircase_equals_a_naive_loop(dtype, values, length, height, margin):
    got = staircase(torch.tensor(values, dtype=dtype), length, height, margin)
    assert got.dtype == dtype
    expected = torch.tensor([naive_staircase(value, length, height, margin) for value in values], dtype=dtype)
    torch.testing.assert_close(got, expected, **TOLERANCE[dtype])


def test_staircase_by_hand():
    # Steps begin at 0.1, 0.2, 0.3...; slopes 0.2, 0.4, 0.6: at 0.25 it has climbed 0.1 · 0.2 + 0.05 · 0.4.
    x = torch.tensor([-1.0, 0.0, 0.1, 0.15, 0.25, 0.35], dtype=torch.float64)
    expected = torch.tensor([0, 0, 0, 0.01, 0.04, 0.02 + 0.04 + 0.03], dtype=torch.float64)
    torch.testing.assert_close(staircase(x), expected)


@dtypes
@pytest.mark.parametrize(("length", "height", "margin"), [(0.1, 0.2, 0.1), (0.25, 1.5, -0.4), (0.5, 0.3, 0.0)])
def test_the_slope_on_step_f_is_f_plus_1_times_the_height_exactly(dtype, length, height, margin):
    steps = torch.arange(12)
    x = (margin + (steps.to(dtype) + 0.5) * length).requires_grad_()
    staircase(x, length, height, margin).sum().backward()
    assert torch.equal(x.grad, (steps + 1).to(dtype) * height)


@pytest.mark.parametrize(("length", "height", "margin"), [(0.1, 0.2, 0.1), (0.3, 1.5, -0.4)])
def test_staircase_is_continuous_at_every_step(length, height, margin):
    steps = margin + torch.arange(20, dtype=torch.float64) * length
    gap = 1e-9
    jump = staircase(steps + gap, length, height, margin) - staircase(steps - gap, length, height, margin)
    assert jump.abs().max() <= 2 * gap * 21 * height
    assert (jump >= 0).all()


def test_staircase_passes_gradcheck_away_from_the_steps():
    x = (torch.tensor([-0.5, 0.03, 0.13, 0.27, 0.81, 1.96], dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(staircase, x)


@pytest.mark.parametrize("length", [0.0, -0.1])
def test_a_step_must_have_a_length(length):
    with pytest.raises(ValueError, match=rf"step_length must be positive, got {length}; the paper uses 0.1"):
        staircase(torch.rand(3), step_length=length)


# ---- the same without steps


@dtypes
@quickly
@given(
    values=st.lists(st.floats(-1, 4, width=32), min_size=1, max_size=20),
    length=lengths,
    height=heights,
    margin=st.floats(-1, 2),
)
def test_smooth_slope_equals_a_naive_loop(dtype, values, length, height, margin):
    naive = [height / length * (value - margin) ** 2 / 2 if value > margin else 0.0 for value in values]
    got = smooth_slope(torch.tensor(values, dtype=dtype), length, height, margin)
    torch.testing.assert_close(got, torch.tensor(naive, dtype=dtype), **TOLERANCE[dtype])


def test_ever_smaller_steps_come_to_the_smooth_slope():
    x = torch.linspace(-0.5, 2, 200, dtype=torch.float64)
    gaps = [float((staircase(x, 0.1 / k, 0.2 / k) - smooth_slope(x)).abs().max()) for k in (1, 10, 100)]
    # A staircase is steeper than its limit by up to one step's height.
    assert all(gap <= 0.2 / k * 1.9 for gap, k in zip(gaps, (1, 10, 100), strict=True))
    assert gaps[0] > gaps[1] > gaps[2]


def test_the_smooth_centripetal_loss_by_hand():
    # The true capsule lies 0.3 beyond the hit zone, the other 0.4 short of the miss zone: 0.3² + 0.5 · 0.4².
    distances = torch.tensor([[0.4, 0.5]], dtype=torch.float64)
    loss = centripetal_loss(distances, torch.tensor([0]), shape="smooth")
    torch.testing.assert_close(loss, torch.tensor(0.09 + 0.08, dtype=torch.float64))
    torch.testing.assert_close(CentripetalLoss(shape="smooth")(distances, torch.tensor([0])), loss)


def test_an_unknown_shape_is_refused():
    with pytest.raises(ValueError, match="shape must be 'stepwise' or 'smooth', got 'round'"):
        centripetal_loss(torch.rand(1, 2), torch.tensor([0]), shape="round")
    with pytest.raises(ValueError, match="step_length must be positive"):
        smooth_slope(torch.rand(3), step_length=0.0)


# ---- distance


@dtypes
def test_distance_equals_a_naive_loop(dtype):
    capsules = torch.rand(3, 4, 5, dtype=dtype)
    naive = [[math.sqrt(sum((v - 0.3) ** 2 for v in capsule)) for capsule in image] for image in capsules.tolist()]
    torch.testing.assert_close(distance_to_centre(capsules, centre=0.3), torch.tensor(naive, dtype=dtype))


@pytest.mark.parametrize(("n", "farthest"), [(1, 0.5), (2, 0.7071067811865476), (4, 1.0), (16, 2.0)])
def test_a_corner_of_the_hypercube_is_half_the_root_of_n_away(n, farthest):
    corners = torch.stack([torch.zeros(n), torch.ones(n)]).unsqueeze(0).double()
    torch.testing.assert_close(distance_to_centre(corners), torch.full((1, 2), farthest).double())


@dtypes
def test_a_capsule_on_the_centre_has_distance_0_and_a_finite_gradient(dtype):
    capsules = torch.full((2, 3, 16), 0.5, dtype=dtype, requires_grad=True)
    distances = distance_to_centre(capsules)
    assert torch.equal(distances, torch.zeros(2, 3, dtype=dtype))
    centripetal_loss(distances, torch.tensor([0, 2])).backward()
    assert torch.isfinite(capsules.grad).all()


# ---- centripetal loss


@dtypes
@pytest.mark.parametrize("reduction", REDUCTIONS)
@quickly
@given(data=st.data())
def test_centripetal_loss_equals_a_naive_loop(dtype, reduction, data):
    n = data.draw(st.sampled_from([1, 2, 3, 4, 16, 37]), label="capsule_dim")
    rows, labels = data.draw(scored_batches(math.sqrt(n) / 2))
    hit_radius, miss_radius = data.draw(st.floats(0, 0.5)), data.draw(st.floats(0.5, 1.5))
    length, height = data.draw(lengths), data.draw(heights)
    miss_length, miss_height = data.draw(st.none() | lengths), data.draw(st.none() | heights)
    weight = data.draw(st.floats(0, 2))
    got = centripetal_loss(
        torch.tensor(rows, dtype=dtype),
        torch.tensor(labels),
        n,
        hit_radius,
        miss_radius,
        step_length=length,
        step_height=height,
        miss_step_length=miss_length,
        miss_step_height=miss_height,
        miss_weight=weight,
        reduction=reduction,
    )
    radii, hit_step, miss_step = (
        (hit_radius, miss_radius),
        (length, height),
        (miss_length or length, miss_height or height),
    )
    naive = [
        naive_centripetal(row, label, n, radii, hit_step, miss_step, weight)
        for row, label in zip(rows, labels, strict=True)
    ]
    torch.testing.assert_close(got, torch.tensor(REDUCTIONS[reduction](naive), dtype=dtype), **TOLERANCE[dtype])


@dtypes
@quickly
@given(batch=scored_batches(farthest=2.0))
def test_centripetal_loss_has_the_papers_constants_by_default(dtype, batch):
    rows, labels = batch
    naive = [
        naive_centripetal(row, label, 16, (0.1, 0.9), (0.1, 0.2), (0.1, 0.2), 0.5)
        for row, label in zip(rows, labels, strict=True)
    ]
    got = centripetal_loss(torch.tensor(rows, dtype=dtype), torch.tensor(labels))
    torch.testing.assert_close(got, torch.tensor(sum(naive) / len(naive), dtype=dtype), **TOLERANCE[dtype])


def test_loss_is_zero_when_the_true_capsule_hits_and_all_others_miss():
    distances = torch.tensor([[0.0, 0.9, 2.0], [1.4, 0.1, 1.0]], dtype=torch.float64, requires_grad=True)
    loss = centripetal_loss(distances, torch.tensor([0, 1]), reduction="none")
    assert loss.abs().max() < 1e-12
    inside = torch.tensor([[0.05, 0.95, 1.9]], dtype=torch.float64, requires_grad=True)
    centripetal_loss(inside, torch.tensor([0])).backward()
    assert torch.equal(inside.grad, torch.zeros(1, 3, dtype=torch.float64))


@pytest.mark.parametrize(
    ("n", "true_distance", "other_distance", "by_hand"),
    [
        # √2/2 = 0.7071 lies 0.6071 beyond the hit radius, on step 6: 7 · 0.2 · (0.6071 − 0.3).
        (2, math.sqrt(2) / 2, 10.0, 1.4 * (math.sqrt(2) / 2 - 0.1 - 0.3)),
        # In two dimensions even a corner is 0.9 − 0.7071 = 0.1929 from the miss zone: 0.5 · 2 · 0.2 · (0.1929 − 0.05).
        (2, 0.0, math.sqrt(2) / 2, 0.2 * (0.9 - math.sqrt(2) / 2 - 0.05)),
        # The worst true capsule lies 1.9 beyond the hit radius, at the end of 19 steps: 0.1 · 0.2 · (1 + … + 19).
        (16, 2.0, 2.0, 3.8),
        # The worst other capsule lies 0.9 inside the miss zone, at the end of 9 steps: 0.5 · 0.1 · 0.2 · (1 + … + 9).
        (16, 0.0, 0.0, 0.45),
        # The miss zone is an absolute distance: the same for any n that reaches it.
        (2, 0.0, 0.0, 0.45),
        (16, 0.15, 0.85, 0.2 * 0.05 + 0.5 * 0.2 * 0.05),
    ],
)
def test_centripetal_loss_by_hand(n, true_distance, other_distance, by_hand):
    distances = torch.tensor([[other_distance, true_distance]], dtype=torch.float64)
    torch.testing.assert_close(
        centripetal_loss(distances, torch.tensor([1]), capsule_dim=n), torch.tensor(by_hand, dtype=torch.float64)
    )


def test_slopes_of_the_centripetal_loss_are_exact_and_point_to_hit_and_miss():
    # In the middle of step f the true class climbs by (f+1) · h, another class falls by λ (f+1) · h.
    distances = torch.tensor([[0.35, 0.35, 1.2]], dtype=torch.float64, requires_grad=True)
    centripetal_loss(distances, torch.tensor([0])).backward()
    torch.testing.assert_close(distances.grad, torch.tensor([[3 * 0.2, -0.5 * 6 * 0.2, 0.0]], dtype=torch.float64))


@pytest.mark.parametrize("loss", [centripetal_loss, margin_loss])
def test_losses_pass_gradcheck_away_from_the_steps(loss):
    scores = (torch.tensor([[0.03, 0.57, 1.43], [0.76, 0.22, 1.88]], dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(lambda scores: loss(scores, torch.tensor([2, 1])), scores)


@pytest.mark.parametrize("loss", [centripetal_loss, margin_loss])
def test_each_capsules_loss_is_independent_of_the_others(loss):
    scores = torch.rand(3, 5, dtype=torch.float64) * 2
    labels = torch.tensor([0, 4, 2])
    jacobian = torch.autograd.functional.jacobian(
        lambda s: torch.autograd.functional.jacobian(lambda t: loss(t, labels, reduction="sum"), s, create_graph=True),
        scores,
    ).reshape(15, 15)
    assert torch.equal(jacobian, torch.diag(jacobian.diagonal()))
    # Not only locally: the same move of one capsule costs the same wherever the others are.
    moved, elsewhere = scores.clone(), torch.rand(3, 5, dtype=torch.float64) * 2
    moved[1, 3] = 1.234
    elsewhere[1, 3], elsewhere_moved = scores[1, 3], elsewhere.clone()
    elsewhere_moved[1, 3] = 1.234
    cost = [loss(s, labels, reduction="none")[1] for s in (moved, scores, elsewhere_moved, elsewhere)]
    torch.testing.assert_close(cost[0] - cost[1], cost[2] - cost[3])


def test_the_module_is_the_function_with_its_options():
    options = {
        "capsule_dim": 4,
        "hit_radius": 0.2,
        "miss_radius": 0.7,
        "step_length": 0.15,
        "step_height": 0.3,
        "miss_step_length": 0.05,
        "miss_step_height": 0.6,
        "miss_weight": 0.9,
        "reduction": "none",
        "shape": "smooth",
    }
    distances, labels = torch.rand(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])
    module = CentripetalLoss(**options)
    assert isinstance(module, nn.Module)
    assert torch.equal(module(distances, labels), centripetal_loss(distances, labels, **options))
    assert torch.equal(CentripetalLoss()(distances, labels), centripetal_loss(distances, labels))


# ---- margin loss


@dtypes
@pytest.mark.parametrize("reduction", REDUCTIONS)
@quickly
@given(
    batch=scored_batches(farthest=2.0), present=st.floats(0.5, 1.5), absent=st.floats(0, 0.5), weight=st.floats(0, 2)
)
def test_margin_loss_equals_a_naive_loop(dtype, reduction, batch, present, absent, weight):
    rows, labels = batch
    got = margin_loss(torch.tensor(rows, dtype=dtype), torch.tensor(labels), present, absent, weight, reduction)
    naive = [naive_margin(row, label, present, absent, weight) for row, label in zip(rows, labels, strict=True)]
    torch.testing.assert_close(got, torch.tensor(REDUCTIONS[reduction](naive), dtype=dtype), **TOLERANCE[dtype])


def test_margin_loss_by_hand():
    lengths = torch.tensor([[0.4, 0.3], [0.9, 0.1]], dtype=torch.float64)
    got = margin_loss(lengths, torch.tensor([0, 0]), reduction="none")
    torch.testing.assert_close(got, torch.tensor([0.5**2 + 0.5 * 0.2**2, 0.0], dtype=torch.float64))


# ---- wrong input

WRONG_LABELS = {
    "too high": (torch.tensor([0, 5]), ValueError, r"labels must lie in 0..4, got 5; check num_classes"),
    "negative": (torch.tensor([-1, 3]), ValueError, r"labels must lie in 0..4, got -1; check num_classes"),
    "floats": (torch.tensor([0.0, 1.0]), TypeError, r"labels must be integers, got torch.float32; use labels.long\(\)"),
    "booleans": (torch.tensor([True, False]), TypeError, r"labels must be integers, got torch.bool"),
    "one-hot": (torch.eye(5)[:2].long(), ValueError, r"shape \(2,\).*got \(2, 5\).*argmax for one-hot"),
    "one-hot floats": (torch.eye(5)[:2], TypeError, r"integers, got torch.float32.*argmax for one-hot"),
    "a column": (torch.tensor([[0], [1]]), ValueError, r"shape \(2,\).*got \(2, 1\); flatten"),
    "too few": (torch.tensor([0]), ValueError, r"shape \(2,\), one class index for each image, got \(1,\)"),
    "a list": ([0, 1], TypeError, r"labels must be a tensor, got list; use torch.as_tensor\(labels\)"),
}


@pytest.mark.parametrize("loss", [centripetal_loss, margin_loss])
@pytest.mark.parametrize("case", WRONG_LABELS)
def test_wrong_labels_are_answered_with_expected_got_and_remedy(loss, case):
    labels, error, text = WRONG_LABELS[case]
    with pytest.raises(error, match=text):
        loss(torch.rand(2, 5), labels)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_labels_may_be_integers_of_any_width(dtype):
    scores = torch.rand(2, 5)
    expected = centripetal_loss(scores, torch.tensor([4, 0]))
    assert torch.equal(centripetal_loss(scores, torch.tensor([4, 0], dtype=dtype)), expected)


@pytest.mark.parametrize("loss", [centripetal_loss, margin_loss])
@pytest.mark.parametrize("shape", [(2, 5, 16), (5,), (0, 5)])
def test_wrong_scores_are_answered_with_expected_got_and_remedy(loss, shape):
    with pytest.raises(
        ValueError, match=r"\(batch, classes\), got \(.*distance_to_centre first, and skip empty batches"
    ):
        loss(torch.rand(shape), torch.zeros(shape[0], dtype=torch.long))


@pytest.mark.parametrize("loss", [centripetal_loss, margin_loss])
def test_an_unknown_reduction_is_answered_with_the_known_ones(loss):
    with pytest.raises(ValueError, match="reduction must be 'mean', 'sum' or 'none', got 'avg'"):
        loss(torch.rand(2, 5), torch.tensor([0, 1]), reduction="avg")


def test_none_gives_one_loss_for_each_image():
    losses = hitnet.centripetal_loss(torch.rand(7, 5), torch.zeros(7, dtype=torch.long), reduction="none")
    assert isinstance(losses, Tensor)
    assert losses.shape == (7,)
