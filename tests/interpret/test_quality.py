"""R² and distributions where the answer is known."""

import pytest
import scipy.stats
import torch

import hitnet
from hitnet.data import ImageSet
from hitnet.interpret.quality import Quality, measure, quality


def pixels_near_half(count: int = 60, classes: int = 3, spread: float = 0.05) -> tuple[torch.Tensor, torch.Tensor]:
    """Four pixels that vary, zeros, and the class in the last one; of class 0 the ladder draws all but that."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % classes
    images = torch.zeros(count, 20)
    images[:, :4] = (0.5 + spread * torch.randn(count, 4, generator=generator)).clamp(0, 1)
    images[:, -1] = labels / classes
    return images.view(count, 1, 4, 5), labels


def test_r2_of_a_perfect_decoder_is_one(ladder):
    images, _ = pixels_near_half()
    labels = torch.zeros(len(images), dtype=torch.long)
    images[:, 0, -1, -1] = 0
    found = quality(ladder(), images, labels)
    assert found.r2 == pytest.approx(1, abs=1e-6)
    # Each of four independent components explains its part, and they add up.
    assert sum(found.component_gain) + found.prototype_r2 == pytest.approx(1, abs=1e-6)


def test_r2_of_a_decoder_that_draws_the_class_mean_is_zero(ladder):
    images, labels = pixels_near_half()
    model = ladder()
    means = torch.stack([images[labels == index].mean(0) for index in range(3)])
    model.decoder.forward = lambda capsules, indices: means[indices.long()]
    found = quality(model, images, labels)
    assert found.r2 == pytest.approx(0, abs=1e-6)
    assert found.component_gain == pytest.approx([0] * 4, abs=1e-6)
    assert found.dead == [0, 1, 2, 3]


def test_a_component_that_the_decoder_ignores_is_dead_and_comes_last(ladder):
    images, _ = pixels_near_half()
    model = ladder()
    plain = model.decoder.forward

    def blind(capsules, indices):
        pictures = plain(capsules, indices)
        pictures[:, 0, 0, 2] = 0.5
        return pictures

    model.decoder.forward = blind
    found = quality(model, images, torch.zeros(len(images), dtype=torch.long))
    assert found.dead == [2]
    assert found.by_importance[-1] == 2
    assert found.sweep_change == pytest.approx([0.2, 0.2, 0, 0.2], abs=1e-6)  # 4 units of 0.05


def test_a_component_that_moves_one_class_or_only_midway_is_not_dead(ladder):
    images, labels = pixels_near_half()
    model = ladder()

    def picky(capsules, indices):
        pictures = torch.full((len(capsules), 1, 4, 5), 0.5)
        own = capsules[torch.arange(len(capsules)), indices]
        pictures[:, 0, 0, 0] = torch.where(indices == 2, own[:, 0], 0.5)
        # The same at the centre and at both ends, two units of 0.05 away.
        pictures[:, 0, 0, 1] = (20 * torch.pi * (own[:, 1] - 0.5)).sin().abs()
        return pictures

    model.decoder.forward = picky
    found = quality(model, images, labels)
    assert found.dead == [2, 3]
    assert found.sweep_change[0] == pytest.approx(0.2, abs=1e-6)


def test_quality_survives_json(ladder):
    images, labels = pixels_near_half()
    found = quality(ladder(), images, labels)
    assert Quality.from_json(found.to_json()) == found


def test_single_components_are_measured_on_a_part_of_many_images(ladder):
    images, _ = pixels_near_half(300)
    labels = torch.zeros(300, dtype=torch.long)
    found = quality(ladder(), images, labels, component_images=60)
    assert (found.images, found.component_images) == (300, 60)
    whole = quality(ladder(), images, labels)
    assert found.r2 == pytest.approx(whole.r2)
    assert found.component_gain == pytest.approx(whole.component_gain, abs=0.1)


def test_with_more_classes_than_wanted_images_one_of_each_class_is_measured(ladder):
    images, labels = pixels_near_half(60, classes=30)
    assert quality(ladder(classes=30), images, labels, component_images=8).component_images == 30
    found = measure(ladder(classes=30), ImageSet((images * 255).byte(), labels), limit=8)
    assert found.quality.images == 30


def test_measure_summarises_the_components_of_true_class_capsules(ladder):
    images, _ = pixels_near_half(200)
    data = ImageSet((images * 255).round().byte(), torch.zeros(200, dtype=torch.long))
    found = measure(ladder(), data)
    values = data.images.flatten(1)[:, :4].double() / 255
    assert found.summary.mean == pytest.approx(float(values.mean()), abs=1e-5)
    assert found.summary.deviation == pytest.approx(float(values.std(correction=0)), abs=1e-5)
    assert found.summary.expected_deviation == pytest.approx(0.05)
    centre, spread = found.statistics.pooled()
    torch.testing.assert_close(centre, values.mean(0), atol=1e-5, rtol=0)
    torch.testing.assert_close(spread, values.std(0, correction=0), atol=1e-5, rtol=0)


def test_measure_takes_a_part_of_very_many_images(ladder):
    images, labels = pixels_near_half(300)
    found = measure(ladder(), ImageSet((images * 255).byte(), labels), limit=90)
    assert found.quality.images == 90


def test_networks_that_hit_nothing_have_no_summary_of_components(small_model, digits):
    images, labels = digits
    found = measure(small_model("n2"), ImageSet((images * 255).byte(), labels))
    assert found.summary is None
    assert found.statistics is None


def test_moments_are_the_capsules_and_the_distance_to_the_gaussian_is_scipys_kolmogorov_smirnov(ladder):
    images, labels = pixels_near_half(300)
    model = ladder()
    found = hitnet.component_statistics(model, images, labels)
    capsules = model.capsules(images)
    for index in range(3):
        own = capsules[labels == index, index]
        torch.testing.assert_close(found.mean[index], own.mean(0))
        torch.testing.assert_close(found.deviation[index], own.std(0, correction=0))
        for feature in range(4):
            expected = scipy.stats.kstest(own[:, feature].double().numpy(), scipy.stats.norm(0.5, 0.05).cdf).statistic
            assert float(found.gaussian_distance[index, feature]) == pytest.approx(expected, abs=1e-6)
    assert found.expected_deviation == pytest.approx(0.05)


def test_a_class_without_images_is_nan_and_its_histogram_empty(ladder):
    images, _ = pixels_near_half(20)
    found = hitnet.component_statistics(ladder(), images, torch.zeros(20, dtype=torch.long))
    assert found.mean[1].isnan().all()
    assert not found.histogram[1:].any()
    assert (found.histogram[0].sum(1) == 20).all()
    assert found.pooled()[0].isfinite().all()
