"""R², readings, edges and distributions where the answer is known."""

import math
from copy import deepcopy

import pytest
import scipy.stats
import torch

import hitnet
from hitnet.core.model import Model
from hitnet.data import ImageSet
from hitnet.interpret.quality import Quality, measure, quality, variation_within
from hitnet.interpret.sharpness import blurred, edge_energy

# What the first runs measured.
FORMER = {"r2", "prototype_r2", "component_gain", "sweep_change", "prototypes_recognised", "samples_recognised"}
FORMER |= {"images", "component_images", "component_r2", "by_importance", "dead"}


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


def test_the_quality_of_a_run_made_before_some_numbers_were_measured_is_read(ladder):
    images, labels = pixels_near_half()
    found = quality(ladder(), images, labels)
    former = {name: value for name, value in found.to_json().items() if name in FORMER}
    read = Quality.from_json(former)
    assert read.samples_recognised == found.samples_recognised
    assert (read.prototypes_hit, read.sweeps_recognised, read.read_back, read.edge_energy) == (None,) * 4
    with pytest.raises(TypeError, match="r2"):
        Quality.from_json({})


@pytest.fixture(scope="module")
def half_trained(digits) -> Model:
    """After a few steps: some of its drawings are recognised and hit, some are not."""
    images, labels = digits
    torch.manual_seed(0)
    model = hitnet.create_model("lenet5-hom", width=3, capsule_dim=6, hit_radius=0.3, norm_momentum=0.1)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(120):
        optimizer.zero_grad()
        model.loss(model(images, labels), images, labels).total.backward()
        optimizer.step()
    return model.eval()


def test_readings_of_drawings_equal_a_naive_loop(half_trained, digits):
    model, (images, labels) = half_trained, digits
    found = quality(model, images, labels, samples_per_class=5)
    unit, generator = 0.3 / 6**0.5, torch.Generator().manual_seed(0)
    drawn = {"prototypes": {}, "sweeps": {}, "samples": {}}
    for index in range(10):
        drawn["prototypes"][index] = [hitnet.prototypes(model)[index]]
        drawn["samples"][index] = [*hitnet.sample(model, index, 5, generator=generator)]
        drawn["sweeps"][index] = [
            hitnet.deformations(model, index, component, torch.tensor([0.5 + units * unit]))[0]
            for component in range(6)
            for units in (-2, -1, 1, 2)
        ]
    shares = set()
    for kind, of_classes in drawn.items():
        recognised, hit, after_blur = [], [], []
        for index, pictures in of_classes.items():
            for picture in pictures:
                distances = model.scores(picture.unsqueeze(0))[0].tolist()
                recognised.append(min(range(10), key=distances.__getitem__) == index)
                hit.append([k for k in range(10) if distances[k] <= 0.3] == [index])
                after_blur.append(int(model.predict(blurred(picture.unsqueeze(0)))) == index)
        for name, values in (("recognised", recognised), ("hit", hit), ("blurred", after_blur)):
            shares.add(sum(values) / len(values))
            assert getattr(found, f"{kind}_{name}") == pytest.approx(sum(values) / len(values)), (kind, name)
    assert len(shares) > 4, "the drawings are neither all right nor all wrong"


def test_read_back_equals_a_naive_loop(half_trained, digits):
    model, (images, labels) = half_trained, digits
    found = quality(model, images, labels)
    model, unit = deepcopy(model).double(), 0.3 / 6**0.5
    for component in range(6):
        slopes, others = [], []
        for index in range(10):
            values = torch.tensor([0.5 - unit, 0.5 + unit], dtype=torch.float64)
            down, up = model.capsules(hitnet.deformations(model, index, component, values))[:, index].tolist()
            change = [(b - a) / (2 * unit) for a, b in zip(down, up, strict=True)]
            slopes.append(change.pop(component))
            others.append(math.sqrt(sum(each**2 for each in change) / len(change)))
        assert found.read_back[component] == pytest.approx(sum(slopes) / 10, abs=1e-4)
        assert found.cross_talk[component] == pytest.approx(sum(others) / 10, abs=1e-4)


def test_a_decoder_whose_drawings_are_read_as_drawn_has_slope_one_and_no_cross_talk(ladder):
    images, labels = pixels_near_half()
    model = ladder(classes=2)
    found = quality(model, images, labels % 2)
    assert found.read_back == pytest.approx([1] * 4, abs=1e-5)
    assert found.cross_talk == pytest.approx([0] * 4, abs=1e-5)
    plain = model.decoder.forward

    def leaking(capsules, indices):
        """Component 0 is drawn at half its size, and shows in pixel 1 as well; component 3 is not drawn."""
        pictures = plain(capsules, indices)
        pictures[:, 0, 0, 1] += 0.6 * (pictures[:, 0, 0, 0] - 0.5)
        pictures[:, 0, 0, 0] = 0.5 + (pictures[:, 0, 0, 0] - 0.5) / 2
        pictures[:, 0, 0, 3] = 0.5
        return pictures

    model.decoder.forward = leaking
    found = quality(model, images, labels % 2)
    assert found.read_back == pytest.approx([0.5, 1, 1, 0], abs=1e-5)
    assert found.cross_talk == pytest.approx([0.6 / 3**0.5, 0, 0, 0], abs=1e-5)


def test_capsules_of_one_component_have_no_cross_talk(ladder):
    images, labels = pixels_near_half()
    assert quality(ladder(dims=1), images, labels).cross_talk == [0]


def test_a_drawing_hits_only_if_its_own_class_is_hit_and_no_other(ladder):
    images, labels = pixels_near_half()
    # The capsule of class k is 0.2 k further away than class 0's: with a radius of 0.1 only class 0 is ever hit.
    found = quality(ladder(), images, labels)
    assert found.prototypes_recognised == found.prototypes_hit == pytest.approx(1 / 3)
    # With 0.3, prototypes of all classes hit classes 0 and 1, so none is hit alone.
    found = quality(ladder(hit_radius=0.3), images, labels)
    assert found.prototypes_hit == 0
    assert found.prototypes_recognised == pytest.approx(1 / 3)


def test_noise_is_not_hit_and_not_read_back_and_a_real_picture_is(half_trained, digits):
    model, (images, labels) = deepcopy(half_trained), digits
    distances = model.scores(images)
    chosen = [int(distances[:, k].masked_fill(labels != k, math.inf).argmin()) for k in range(10)]
    real = images[chosen]
    right = float((model.predict(real) == torch.arange(10)).float().mean())
    model.decoder.forward = lambda capsules, indices: real[indices]
    found = quality(model, images, labels)
    assert found.prototypes_recognised == found.sweeps_recognised == found.samples_recognised == pytest.approx(right)
    assert found.prototypes_hit == found.samples_hit > 0.5
    assert found.read_back == [0] * 6
    noise = torch.rand(10, 1, 28, 28)
    model.decoder.forward = lambda capsules, indices: noise[indices]
    assert quality(model, images, labels).prototypes_hit <= 0.1


def test_a_pattern_that_only_the_network_sees_does_not_survive_the_blur(ladder):
    """The class is read from a mesh: brighter pixels of one colour of a chessboard."""
    rows, columns = torch.meshgrid(torch.arange(4), torch.arange(5), indexing="ij")
    mesh = ((rows + columns) % 2).float()
    model = ladder(classes=2, dims=1)
    model.decoder.forward = lambda capsules, indices: 0.5 + 0.4 * mesh * indices[:, None, None, None]
    contrast = (mesh - 0.5).flatten()

    def read(features):
        seen = (features @ contrast > 0.5).float()
        return torch.stack([0.5 + 0.3 * seen, 0.8 - 0.3 * seen], 1).unsqueeze(2)

    model.head.forward = read
    images, labels = pixels_near_half(classes=2)
    found = quality(model, images, labels)
    assert (found.prototypes_recognised, found.prototypes_hit, found.prototypes_blurred) == (1, 1, 0.5)
    assert found.edge_energy > 4 * found.edge_energy_blurred


def test_edges_of_prototypes_are_measured_against_real_images_of_their_class(ladder):
    images, labels = pixels_near_half()
    model = ladder()
    means = torch.stack([images[labels == index].mean(0) for index in range(3)])
    model.decoder.forward = lambda capsules, indices: means[indices.long()]
    for name, seen in (("edge_energy", lambda x: x), ("edge_energy_blurred", blurred)):
        ratios = []
        for index in range(3):
            real = [float(edge_energy(seen(image.unsqueeze(0)))) for image in images[labels == index]]
            ratios.append(float(edge_energy(seen(means[index : index + 1]))) / (sum(real) / len(real)))
        assert getattr(quality(model, images, labels), name) == pytest.approx(sum(ratios) / 3)
    sharp = torch.stack([images[labels == index][0] for index in range(3)])
    model.decoder.forward = lambda capsules, indices: sharp[indices.long()]
    copies = sharp.repeat(4, 1, 1, 1)
    assert quality(model, copies, torch.arange(12) % 3).edge_energy == pytest.approx(1)
    assert quality(model, copies * 0 + 0.5, torch.arange(12) % 3).edge_energy is None


def test_without_a_hit_zone_nothing_hits_and_nothing_is_read_back(small_model, digits):
    images, labels = digits
    found = quality(small_model("n2"), images, labels, samples_per_class=2)
    assert (found.prototypes_hit, found.sweeps_hit, found.samples_hit) == (None,) * 3
    assert (found.read_back, found.cross_talk) == (None, None)
    assert found.sweeps_recognised is not None
    assert found.edge_energy is not None


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


def test_a_network_is_measured_on_devices_without_double_precision(small_model, digits, monkeypatch):
    class OnTheCpu(torch.Tensor):
        """What was copied from the device."""

    def refuse_on_the_device(tensor: torch.Tensor) -> torch.Tensor:
        assert isinstance(tensor, OnTheCpu), "Apple's GPUs have no double precision"
        return double(tensor)

    copy, double = torch.Tensor.cpu, torch.Tensor.double
    model, data = small_model("hitnet-fast"), ImageSet((digits[0] * 255).byte(), digits[1])
    expected = measure(model, data)
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: copy(tensor).as_subclass(OnTheCpu))
    monkeypatch.setattr(torch.Tensor, "double", refuse_on_the_device)
    assert measure(model, data).quality == expected.quality


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


def test_classes_of_equal_images_do_not_vary():
    images = torch.tensor([0.1, 0.3, 0.7]).view(3, 1, 1, 1).expand(3, 1, 5, 5).repeat_interleave(7, dim=0)
    assert variation_within(images, torch.arange(3).repeat_interleave(7)) == 0
