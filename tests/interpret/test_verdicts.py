"""Verdicts: radii by split conformal prediction, on distances that are known; and outlier scores of every network."""

import math
from dataclasses import replace

import pytest
import torch

import hitnet
from hitnet.interpret.verdicts import conformal_radii, count_verdicts, in_percent


@pytest.mark.parametrize(
    ("scores", "verdict"),
    [
        ([0.05, 1.0, 1.2], "sure"),
        ([0.10, 1.0, 1.2], "sure"),  # on the rim is inside
        ([0.11, 1.0, 1.2], "unknown"),
        ([0.90, 0.91, 0.95], "unknown"),
        ([0.05, 0.09, 1.2], "ambiguous"),
        ([0.01, 0.02, 0.03], "ambiguous"),
        ([0.15, 0.18, 0.19], "ambiguous"),  # only the last is within its radius, but the first is nearer
    ],
)
def test_only_the_predicted_class_within_its_radius_is_sure_none_unknown_else_ambiguous(ladder, scores, verdict):
    model = ladder(radii=(0.1, 0.1, 0.2), coverage=0.99)
    assert model.verdicts(torch.tensor([scores])) == [verdict]


def test_verdicts_of_images_are_those_of_their_distances(ladder):
    model = ladder(classes=2, dims=4, radii=(0.15, 0.15), coverage=0.99)
    # All components of class 0 are pixels, those of class 1 lie 0.1 further on: one in the centre, far off, between.
    images = torch.zeros(3, 1, 4, 5)
    images.flatten(1)[:, :4] = torch.tensor([0.5, 0.9, 0.45]).unsqueeze(1)
    assert hitnet.verdicts(model, images) == ["sure", "unknown", "ambiguous"]
    torch.testing.assert_close(hitnet.outlier_score(model, images), torch.tensor([0.0, 0.8, 0.1]))


@pytest.mark.parametrize(("count", "coverage"), [(100, 0.9), (99, 0.99), (100, 0.99), (500, 0.95), (1000, 0.999)])
def test_the_radius_is_the_distance_that_counting_finds(count, coverage):
    generator = torch.Generator().manual_seed(count)
    distances, labels = torch.rand(count, 60, generator=generator), torch.arange(count) % 60  # few images of each class
    own = sorted(float(distances[index, label]) for index, label in enumerate(labels))
    # The smallest distance that at least this fraction of count + 1 images does not exceed.
    expected = next(own[place] for place in range(count) if place + 1 >= (count + 1) * coverage - 1e-9)
    assert conformal_radii(distances, labels, coverage) == ((expected,) * 60, coverage)


def test_the_true_class_of_new_images_lies_within_its_radius_as_often_as_promised():
    generator = torch.Generator().manual_seed(0)
    count, coverage, repeats = 150, 0.95, 4000
    # Distances of the true class: half of the images are easy. Split conformal prediction covers exactly this share.
    exact = math.ceil((count + 1) * coverage) / (count + 1)
    covered = 0
    for _ in range(repeats):
        own = torch.rand(count + 1, generator=generator) ** 3
        radii, shown = conformal_radii(own[:-1, None].expand(-1, 2), torch.zeros(count, dtype=torch.long), coverage)
        assert shown == coverage
        covered += float(own[-1]) <= radii[0]
    assert covered / repeats == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / repeats))


def test_labels_may_be_bytes_as_in_files_of_mnist():
    random = torch.Generator().manual_seed(0)
    distances, labels = torch.rand(50, 3, generator=random), torch.randint(3, (50,), generator=random)
    assert conformal_radii(distances, labels.byte(), 0.9) == conformal_radii(distances, labels, 0.9)


def test_a_class_with_enough_images_has_a_radius_of_its_own():
    labels = torch.tensor([0] * 300 + [1] * 150 + [2] * 149)
    distances = torch.rand(599, 3, generator=torch.Generator().manual_seed(0))
    distances[:300] *= 0.1
    own = distances[torch.arange(599), labels]
    # 301 · 0.99 = 297.99 and 300 · 0.99 = 297: the 298th of its own, the 297th of the others.
    shared = float(own[300:].sort().values[296])
    assert conformal_radii(distances, labels, 0.99)[0] == (float(own[:300].sort().values[297]), shared, shared)


@pytest.mark.parametrize(("coverage", "enough"), [(0.8, 15), (0.9, 30), (0.99, 300)])
def test_a_class_with_too_few_images_shares_its_radius(coverage, enough):
    def radii(count: int) -> list[int]:
        labels = torch.tensor([0] * 1000 + [1] * count + [2] * (enough - 1))
        distances = torch.rand(len(labels), 3, generator=torch.Generator().manual_seed(0)) + labels[:, None]
        return [math.floor(radius) for radius in conformal_radii(distances, labels, coverage)[0]]

    assert radii(enough) == [0, 1, 2], "each has that of its own images"
    assert radii(enough - 1) == [0, 2, 2], "the last two have one together"


@pytest.mark.parametrize(("coverage", "fewest"), [(0.8, 4), (0.9, 9), (0.99, 99)])
def test_classes_that_share_a_radius_need_enough_images_for_one(coverage, fewest):
    def radii(count: int) -> tuple[float, ...]:
        labels = torch.tensor([0] * 1000 + [1] * count)
        distances = torch.rand(len(labels), 2, generator=torch.Generator().manual_seed(0)) + labels[:, None]
        return conformal_radii(distances, labels, coverage)[0]

    easy, hard = radii(fewest)
    assert easy < 1 < hard
    easy, hard = radii(fewest - 1)
    assert easy == hard, "together with the others"


def test_many_easy_images_do_not_make_the_radius_of_few_hard_ones():
    generator = torch.Generator().manual_seed(0)
    labels = torch.tensor([0] * 2000 + [1] * 20)  # too few for a radius, so that all share one
    covered = []
    for _ in range(100):
        own = torch.cat([torch.rand(4000, generator=generator), 1 + torch.rand(40, generator=generator)])
        old, new = own.view(-1, 2).unbind(1)
        (easy, hard), shown = conformal_radii(old[:, None].expand(-1, 2), labels, 0.99)
        assert (easy, shown) == (hard, 0.99)
        covered.append(float((new <= torch.tensor([easy, hard])[labels]).float().mean()))
    assert sum(covered) / len(covered) == pytest.approx(0.99, abs=0.002)


@pytest.mark.parametrize(("count", "shown"), [(1, 1 / 2), (20, 20 / 21), (98, 98 / 99), (99, 0.99)])
def test_few_images_take_the_farthest_and_say_what_that_shows(count, shown):
    distances = torch.rand(count, 2, generator=torch.Generator().manual_seed(0))
    radii, found = conformal_radii(distances, torch.zeros(count, dtype=torch.long), 0.99)
    assert found == pytest.approx(shown)
    assert radii[0] == float(distances[:, 0].max())


def test_a_calibrated_model_keeps_its_radii_and_counts_its_verdicts(small_model, digits, tmp_path):
    model = small_model("hitnet-fast")
    images, labels = digits[0], digits[1]
    assert hitnet.verdicts(model, images) == [None] * len(images)
    hitnet.calibrate(model, images, labels, coverage=0.9)
    model.save(tmp_path)
    loaded = hitnet.load(tmp_path)
    assert (loaded.config.radii, loaded.config.coverage) == (model.config.radii, 0.9)
    assert loaded.config.calibrated_on == len(images)
    scores, given = model.scores(images), hitnet.verdicts(loaded, images)
    found = count_verdicts(model, scores, labels)
    assert (found.images, found.sure + found.ambiguous + found.unknown) == (len(images), len(images))
    right = [int(model.predict(images)[place]) == int(labels[place]) for place in range(len(images))]
    sure = [place for place, verdict in enumerate(given) if verdict == "sure"]
    assert (found.sure, found.sure_mistakes) == (len(sure), sum(not right[place] for place in sure))
    assert found.covered / len(images) >= 0.9
    radii = loaded.config.radii or ()
    inside = sum(score <= radius for row in scores.tolist() for score, radius in zip(row, radii, strict=True))
    assert found.mean_candidates == pytest.approx(inside / len(images))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radii": (0.1, 0.2)}, "radii must hold 3 distances, each at most 1, got others; .*hitnet calibrate"),
        ({"radii": (0.1, 0.2, math.nan)}, "radii must hold 3 distances"),
        ({"radii": (0.1, 0.2, -0.3)}, "radii must hold 3 distances"),
        ({"radii": (0.1, 0.2, 10**400)}, "radii must hold 3 distances"),
        ({"radii": (0.1, 0.2, 1.01)}, "radii must hold 3 distances"),
        ({"calibrated_on": -5}, "calibrated_on must be at least 1 image, got -5"),
        ({"calibrated_on": None}, "calibrated_on must be at least 1 image, got None"),
        ({"radii": None}, "coverage and calibrated_on go with radii"),
        ({"coverage": 1.0}, "coverage must lie between 0 and 1, got 1.0"),
    ],
)
def test_radii_that_cannot_be_are_refused(ladder, options, message):
    with pytest.raises(ValueError, match=message):
        ladder(**{"radii": (0.1, 0.1, 0.1), "coverage": 0.99, **options})


def test_a_radius_in_a_corner_of_the_cube_is_not_refused_for_a_rounding_error():
    scores = (torch.ones(40, 2, 5) - 0.5).norm(dim=2)
    radii, _ = conformal_radii(scores, torch.arange(40) % 2, 0.9)
    assert radii[0] > 5**0.5 / 2, "the float32 distance is a little too long"
    model = hitnet.create_model("lenet5-hom", (1, 5, 5), num_classes=2, capsule_dim=5)
    replace(model.config, radii=radii, coverage=0.9, calibrated_on=40)


def test_a_network_without_hit_zone_cannot_have_radii():
    with pytest.raises(ValueError, match="n1 has no hit zone, so it cannot have radii"):
        hitnet.create_model("n1", radii=(0.1,) * 10, coverage=0.99, calibrated_on=100)


@pytest.mark.parametrize(
    ("share", "words"), [(0.99, "99 %"), (40 / 41, "97.56 %"), (0.9999, "99.99 %"), (0.99999, "99.99 %")]
)
def test_a_promise_is_never_rounded_up(share, words):
    assert in_percent(share) == words


def test_calibrating_refuses_networks_without_hit_zone_and_shares_that_are_none(small_model, digits):
    with pytest.raises(ValueError, match="only networks with Hit-or-Miss have radii, n1 has none"):
        hitnet.calibrate(small_model("n1"), *digits)
    with pytest.raises(ValueError, match=r"coverage must lie between 0 and 1, got 99; 0\.99 misses one"):
        hitnet.calibrate(small_model("hitnet-fast"), *digits, coverage=99)


@pytest.mark.parametrize("name", hitnet.list_models())
def test_the_more_unusual_of_two_images_is_the_one_whose_best_score_is_worse(small_model, digits, name):
    model, images = small_model(name), digits[0][:6]
    scores, found = model.scores(images), hitnet.outlier_score(model, images)
    assert found.shape == (6,)
    if name in ("n1", "lenet5", "resnet18", "densenet40-12"):
        expected = -scores.double().softmax(1).amax(1)
    elif model.head.decision == "highest":
        expected = -scores.amax(1)
    else:
        expected = scores.amin(1)
    torch.testing.assert_close(found, expected)


def test_batches_and_mode_make_no_difference(small_model, digits):
    model = small_model("hitnet-fast").train()
    whole, parts = (model.scores(digits[0], batch_size=size) for size in (64, 7))
    torch.testing.assert_close(whole, parts)
    assert model.training


def test_a_network_without_hit_zone_has_no_verdict(small_model, digits):
    assert hitnet.verdicts(small_model("n1"), digits[0][:2]) == [None, None]
