"""Verdicts and outlier scores of images, on capsules that are known and on every network."""

import pytest
import torch

import hitnet


def test_verdicts_of_images_are_those_of_their_distances(ladder):
    model = ladder(classes=2, dims=4, hit_radius=0.15)
    # All components of class 0 are pixels, those of class 1 lie 0.1 further on: one in the centre, far off, between.
    images = torch.zeros(3, 1, 4, 5)
    images.flatten(1)[:, :4] = torch.tensor([0.5, 0.9, 0.45]).unsqueeze(1)
    assert hitnet.verdicts(model, images) == ["sure", "unknown", "ambiguous"]
    torch.testing.assert_close(hitnet.outlier_score(model, images), torch.tensor([0.0, 0.8, 0.1]))


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
    assert hitnet.verdicts(model, digits[0]) == model.head.verdicts(whole)


def test_a_network_without_hit_zone_has_no_verdict(small_model, digits):
    assert hitnet.verdicts(small_model("n1"), digits[0][:2]) == [None, None]
