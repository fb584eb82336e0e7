"""The quality of labels, the radii of agreement and the kinds, against hand-computed values and naive loops."""

import math

import numpy as np
import pandas
import pytest
import torch

import hitnet
from hitnet.interpret.label_quality import judge, kinds_of, label_quality, radii_of_agreement


def test_the_quality_equals_a_naive_loop():
    distances = torch.rand(7, 4, generator=torch.Generator().manual_seed(0)) * 2
    labels = torch.tensor([0, 1, 2, 3, 0, 1, 2])
    found = label_quality(distances, labels, temperature=0.3)
    for row, label, quality in zip(distances.tolist(), labels.tolist(), found.tolist(), strict=True):
        weights = [math.exp(-value / 0.3) for value in row]
        assert quality == pytest.approx(weights[label] / sum(weights))


def test_arrays_give_an_array_and_a_wrong_label_has_the_lowest_quality():
    distances = np.array([[0.1, 1.0], [0.1, 0.9], [1.1, 0.2], [0.9, 0.1]])
    quality = hitnet.label_quality(distances, np.array([0, 0, 1, 0]))
    assert isinstance(quality, np.ndarray)
    assert quality.argmin() == 3
    assert ((quality >= 0) & (quality <= 1)).all()


def test_two_classes_need_only_the_difference_of_their_distances():
    distances = np.array([[0.1, 1.0], [0.1, 0.9], [1.1, 0.2], [0.9, 0.1]])
    labels = np.array([0, 0, 1, 0])
    decision_function = distances[:, 0] - distances[:, 1]  # as HitNetClassifier has it
    assert np.allclose(hitnet.label_quality(-decision_function, labels), hitnet.label_quality(distances, labels))


def test_tables_of_pandas_are_taken_whatever_their_index():
    distances = np.array([[0.1, 1.0, 0.8], [0.1, 0.9, 0.7], [1.1, 0.2, 0.9]])
    labels = np.array([0, 0, 1])
    tables = pandas.DataFrame(distances, index=[7, 8, 9]), pandas.Series(labels, index=[5, 6, 7])
    assert (hitnet.label_quality(*tables) == hitnet.label_quality(distances, labels)).all()


def test_the_class_that_is_hit_alone_is_suggested_even_if_another_is_nearer():
    """Class 0 lands within 0.1 of its centre, class 1 within 1.0; 400 of each, so that each has its own radius."""
    near, far = torch.linspace(0.01, 0.1, 400), torch.linspace(0.1, 1.0, 400)
    distances = torch.cat(
        [torch.stack([near, near + 2], 1), torch.stack([far + 2, far], 1), torch.tensor([[0.4, 0.6]])]
    )
    labels = torch.tensor([0] * 400 + [1] * 400 + [0])
    judged = judge(distances, labels, torch.zeros(801, dtype=torch.long))
    assert (int(distances[-1].argmin()), int(judged.suggested[-1])) == (0, 1)
    assert judged.nearest[-1] <= 1 < judged.own[-1]


@pytest.mark.parametrize(
    ("reach", "quality", "kind"),
    [
        ([0.9, 1.1, 1.1], 0.9, "fine"),
        ([1.1, 0.9, 1.1], 0.1, "wrong label"),
        ([1.1, 0.9, 1.1], 0.2, "ambiguous"),  # 1/6 is half of what chance gives each of three classes
        ([2.1, 0.9, 1.1], 0.2, "wrong label"),
        ([0.9, 0.9, 1.1], 0.1, "ambiguous"),
        ([1.1, 0.9, 0.9], 0.1, "ambiguous"),
        ([1.1, 1.1, 1.1], 0.1, "odd"),
    ],
)
def test_what_is_hit_decides_the_kind(reach: list[float], quality: float, kind: str):
    assert kinds_of(torch.tensor([reach]), torch.tensor([0]), torch.tensor([quality])) == [kind]


@pytest.mark.parametrize("temperature", [0, -1.0, float("nan"), float("inf")])
def test_a_temperature_that_is_none_is_refused(temperature: float):
    with pytest.raises(ValueError, match="temperature must be above 0 and finite, got .*; leave it out"):
        label_quality([[0.1, 0.9]], [0], temperature)


@pytest.mark.parametrize("labels", [["cat", "dog"], np.array(["cat", "dog"]), np.array(["cat", "dog"], dtype=object)])
def test_names_as_labels_are_answered_with_how_to_number_them(labels):
    with pytest.raises(TypeError, match="labels must be class indices from 0, got .*; number them, as np.unique"):
        label_quality([[0.1, 0.9], [0.8, 0.2]], labels)


def test_with_many_classes_a_quality_below_a_hundredth_is_low():
    reach = torch.full((2, 345), 1.5)
    reach[:, 7] = 0.5
    assert kinds_of(reach, torch.tensor([0, 0]), torch.tensor([0.009, 0.011])) == ["wrong label", "ambiguous"]


def test_wrong_labels_are_found_where_nearly_every_third_label_is_wrong():
    """Two classes that are easily told apart: the labels do not make a quality low, but the distances do."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.arange(1000) % 2
    distances = 0.1 + 0.1 * torch.rand(1000, 2, generator=generator)
    distances[torch.arange(1000), 1 - truth] += 0.8
    given = torch.where(torch.rand(1000, generator=generator) < 0.3, 1 - truth, truth)
    kinds = judge(distances, given, torch.zeros(1000, dtype=torch.long)).kinds
    called = torch.tensor([kind == "wrong label" for kind in kinds])
    assert float(called[given != truth].float().mean()) > 0.95
    assert not called[given == truth].any()


def test_right_labels_of_hard_images_are_seldom_called_wrong():
    """Two classes overlap, and 5 % of the labels are wrong: of what is called wrong, most must be."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.arange(4000) % 4
    noise = 0.12 * torch.randn(4000, 4, generator=generator)
    # Classes 0 and 1 resemble each other, so that about one image in ten lies nearer to the wrong one.
    away = torch.tensor([[0.1, 0.4, 1.0, 1.0], [0.4, 0.1, 1.0, 1.0], [1.0, 1.0, 0.1, 1.0], [1.0, 1.0, 1.0, 0.1]])
    distances = (away[truth] + noise).abs()
    given = truth.clone()
    given[::20] = (given[::20] + 1 + torch.arange(200) % 3) % 4
    judged = judge(distances, given, torch.zeros(4000, dtype=torch.long))
    called = torch.tensor([kind == "wrong label" for kind in judged.kinds])
    wrong = given != truth
    assert float(wrong[called].float().mean()) > 0.9
    assert float(called[wrong].float().mean()) > 0.5


def test_wrong_labels_do_not_widen_the_radii():
    """One label in twenty is wrong: its distance, 1, would be the radius if all images counted."""
    labels = torch.arange(400) % 2
    distances = torch.full((400, 2), 1.0)
    distances[torch.arange(400), labels] = torch.linspace(0.1, 0.2, 400)
    given = labels.clone()
    given[::20] = 1 - given[::20]
    radii = radii_of_agreement(distances, given, coverage=0.99)
    assert (radii <= 0.2).all()
    judged = judge(distances, given, torch.zeros(400, dtype=torch.long))
    wrong = (given != labels).tolist()
    assert all(kind == "wrong label" for kind, flipped in zip(judged.kinds, wrong, strict=True) if flipped)
    assert judged.kinds.count("wrong label") == sum(wrong)
    assert judged.suggested.equal(labels)


def test_each_network_has_its_own_scale():
    """A network whose distances are all three times as large judges the same."""
    generator = torch.Generator().manual_seed(1)
    distances, labels = torch.rand(300, 3, generator=generator), torch.randint(3, (300,), generator=generator)
    networks = torch.arange(600) // 300
    judged = judge(torch.cat([distances, 3 * distances]), labels.repeat(2), networks)
    assert judged.kinds[:300] == judged.kinds[300:]
    torch.testing.assert_close(judged.quality[:300], judged.quality[300:], atol=1e-3, rtol=1e-2)


@pytest.mark.parametrize(
    ("distances", "labels", "message"),
    [
        (np.ones((3, 2, 1)), np.zeros(3, int), "shape"),
        (np.ones((3, 1)), np.zeros(3, int), "at least 2 classes"),
        (-np.ones((3, 2)), np.zeros(3, int), "decision_function gives −distances"),
        (np.full((3, 2), np.nan), np.zeros(3, int), "finite"),
        (np.ones((3, 2)), np.full(3, 5), "0..1, got 5"),
    ],
)
def test_what_cannot_be_judged_is_refused(distances, labels, message: str):
    with pytest.raises(ValueError, match=message):
        label_quality(distances, labels)
