"""Drawings from capsules alone, by networks whose drawings are known."""

import pytest
import torch

import hitnet
from hitnet.core.model import create_model
from hitnet.interpret.prototypes import all_deformations, sweep_values


def test_the_prototype_is_what_the_decoder_draws_at_the_centre(ladder):
    model = ladder()
    pictures = hitnet.prototypes(model).flatten(1)
    assert torch.equal(pictures[:, :4], torch.full((3, 4), 0.5))
    assert torch.allclose(pictures[:, -1], torch.tensor([0, 1 / 3, 2 / 3]))


@pytest.mark.parametrize("name", ["hitnet", "hitnet-fast", "n2", "capsnet", "lenet5-hom"])
def test_the_prototype_equals_the_decoder_on_c_with_zeros_elsewhere(small_model, name):
    model = small_model(name).eval()
    for index in (0, 9):
        capsules = torch.zeros(1, 10, 16)
        capsules[0, index] = 0.5
        expected = model.decoder(capsules, torch.tensor([index]))[0]
        torch.testing.assert_close(hitnet.prototypes(model)[index], expected)


def test_a_sweep_moves_only_its_component_by_the_values_given(ladder):
    model = ladder()
    values = torch.tensor([0.1, 0.5, 0.9])
    pictures = hitnet.deformations(model, 1, 2, values).flatten(1)
    assert torch.equal(pictures[:, 2], values)
    rest = [0, 1, *range(3, 20)]
    assert torch.equal(pictures[:, rest], hitnet.prototypes(model)[1].flatten()[rest].expand(3, -1))


def test_all_deformations_are_the_single_ones_together(small_model):
    model = small_model("lenet5-hom", capsule_dim=3).eval()
    together = all_deformations(model, 4)
    assert together.shape == (3, 11, 1, 28, 28)
    for feature in range(3):
        torch.testing.assert_close(together[feature], hitnet.deformations(model, 4, feature))


def test_the_papers_sweep_goes_from_045_to_055_in_steps_of_001(ladder):
    torch.testing.assert_close(sweep_values(ladder(dims=16)), torch.arange(45, 56) / 100)


@pytest.mark.parametrize(("radius", "dims", "expected"), [(0.1, 16, 0.025), (0.2, 16, 0.05), (0.1, 4, 0.05)])
def test_ranges_adapt_to_the_hit_radius_and_the_dimension(ladder, radius, dims, expected):
    model = ladder(dims=dims, hit_radius=radius)
    assert model.head.unit == pytest.approx(expected)
    assert float(sweep_values(model)[-1]) == pytest.approx(0.5 + 2 * expected)
    assert hitnet.HybridAugmentation(model).tweak == pytest.approx(expected)
    drawn = hitnet.sample(model, 0, 4000, generator=torch.Generator().manual_seed(0)).flatten(1)[:, :dims]
    assert float(drawn.std()) == pytest.approx(expected, rel=0.03)


def test_samples_repeat_with_their_generator_and_have_the_spread_asked_for(ladder):
    model = ladder()
    first, second = (hitnet.sample(model, 2, 50, 0.1, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(hitnet.sample(model, 2, 5, 0.0), hitnet.prototypes(model)[2].expand(5, -1, -1, -1))


@pytest.mark.parametrize("name", ["n1", "lenet5", "resnet18"])
def test_a_model_without_decoder_says_so(name):
    model = create_model(name, width=4)
    for call in (
        lambda: hitnet.prototypes(model),
        lambda: hitnet.explain(model, torch.rand(1, 28, 28)),
        lambda: hitnet.HybridAugmentation(model)(torch.rand(2, 1, 28, 28), torch.tensor([0, 1])),
    ):
        with pytest.raises(ValueError, match="has no decoder"):
            call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: hitnet.deformations(model, 3, 0), "class_index must lie in 0..2, got 3"),
        (lambda model: hitnet.deformations(model, 0, 4), "component must lie in 0..3, got 4"),
        (lambda model: hitnet.sample(model, -1, 2), "class_index must lie in 0..2, got -1"),
    ],
)
def test_a_class_or_component_that_is_not_there_is_refused(ladder, call, message):
    with pytest.raises(ValueError, match=message):
        call(ladder())


def test_drawing_leaves_the_training_mode_as_it_was(small_model):
    model = small_model("hitnet-fast").train()
    assert torch.equal(hitnet.prototypes(model), hitnet.prototypes(model))
    assert model.training
    assert model.decoder.training
