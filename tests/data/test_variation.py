"""Hybrid augmentation: what moves, by how much, and what stays."""

import math

import pytest
import torch

from hitnet.data.variation import HybridAugmentation


def images_and_labels(count: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return 0.3 + 0.4 * torch.rand(count, 1, 4, 5, generator=generator), torch.arange(count) % 3


def test_no_component_moves_further_than_the_tweak_and_together_they_fill_the_range(ladder):
    images, labels = images_and_labels(300)
    made = HybridAugmentation(ladder(), tweak=0.04).make(images, labels, torch.Generator().manual_seed(1))
    moves = (made.modified - made.reconstruction).flatten(1)
    assert float(moves[:, :4].abs().max()) <= 0.04 + 1e-6
    assert float(moves[:, :4].min()) < -0.039
    assert float(moves[:, :4].max()) > 0.039
    assert not moves[:, 4:].any()


def test_the_new_image_is_the_original_plus_the_change_of_the_drawing(ladder):
    images, labels = images_and_labels()
    made = HybridAugmentation(ladder(), tweak=0.5).make(images, labels, torch.Generator().manual_seed(1))
    expected = (images + made.modified - made.reconstruction).clamp(0, 1)
    torch.testing.assert_close(made.images, expected)
    assert float(made.images.min()) >= 0
    assert float(made.images.max()) <= 1


@pytest.mark.parametrize("name", ["hitnet-fast", "lenet5-hom", "n2", "capsnet"])
def test_tweak_zero_returns_the_image_bit_for_bit(small_model, digits, name):
    images, labels = digits
    assert torch.equal(HybridAugmentation(small_model(name), tweak=0.0)(images[:8], labels[:8]), images[:8])


def test_the_labels_given_choose_the_capsule_not_the_prediction(ladder):
    # The last pixel of every drawing shows the class whose capsule was drawn.
    images, _ = images_and_labels(3)
    labels = torch.tensor([2, 0, 1])
    made = HybridAugmentation(ladder()).make(images, labels, torch.Generator().manual_seed(1))
    torch.testing.assert_close(made.modified.flatten(1)[:, -1], labels / 3)
    torch.testing.assert_close(made.reconstruction.flatten(1)[:, -1], labels / 3)


def test_an_image_does_not_depend_on_the_others_in_its_batch(small_model, digits):
    images, labels = digits
    augment = HybridAugmentation(small_model("hitnet-fast"))
    together = augment(images[:6], labels[:6], torch.Generator().manual_seed(5))
    first = augment(images[:2], labels[:2], torch.Generator().manual_seed(5))
    torch.testing.assert_close(first, together[:2])


def test_the_same_generator_gives_the_same_images_and_another_one_others(small_model, digits):
    images, labels = digits
    augment = HybridAugmentation(small_model("hitnet-fast"))
    first, second, other = (augment(images, labels, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("tweak", [-0.1, math.nan, math.inf])
def test_a_tweak_that_is_no_distance_is_refused(ladder, tweak):
    with pytest.raises(ValueError, match="tweak must be finite and at least 0"):
        HybridAugmentation(ladder(), tweak)
