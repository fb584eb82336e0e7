"""Splits and subsets in which every class keeps its share; the data set itself."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hitnet.data import Dataset, ImageSet, load_dataset, split_training, stratified_split, stratified_subset
from hitnet.data.dataset import parse_size

COUNTS = st.lists(st.integers(2, 40), min_size=1, max_size=8)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def shuffled_labels(counts: list[int]) -> torch.Tensor:
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    return labels[torch.randperm(len(labels), generator=seeded(7))]


@settings(max_examples=100, deadline=None)
@given(COUNTS, st.floats(0.01, 0.99), st.integers(0, 1000))
def test_a_split_is_a_partition_that_keeps_the_proportions(counts, fraction, seed):
    labels = shuffled_labels(counts)
    kept, held = stratified_split(labels, fraction, seeded(seed))
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(len(labels)))
    assert kept.tolist() == sorted(kept.tolist())
    for label, count in enumerate(counts):
        share = int((labels[held] == label).sum())
        assert 1 <= share <= count - 1
        # Within one image of its share, but for what classes with a whole image too few or too many take from others.
        assert abs(share - fraction * count) < 1 + len(counts)
    exact = round(fraction * len(labels))
    assert len(held) == min(max(exact, len(counts)), len(labels) - len(counts))


def test_large_classes_are_split_within_one_image_of_their_share():
    labels = shuffled_labels([100, 333, 57])
    held = labels[stratified_split(labels, 0.2, seeded())[1]].bincount()
    assert [abs(int(got) - 0.2 * count) < 1 for got, count in zip(held, [100, 333, 57], strict=True)] == [True] * 3
    assert int(held.sum()) == 98


def test_the_seed_decides_the_split():
    labels = shuffled_labels([20, 20])
    one, same, other = (stratified_split(labels, 0.5, seeded(seed))[1].tolist() for seed in (1, 1, 2))
    assert one == same != other


def test_a_class_of_one_image_cannot_be_split():
    with pytest.raises(ValueError, match="at least 2 images of each class; labels \\[1\\] have only one"):
        stratified_split(torch.tensor([0, 0, 1]), 0.5, seeded())


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5])
def test_a_fraction_outside_0_and_1_is_refused(fraction):
    with pytest.raises(ValueError, match=f"between 0 and 1, got {fraction}"):
        stratified_split(torch.tensor([0, 0, 1, 1]), fraction, seeded())


@settings(max_examples=50, deadline=None)
@given(COUNTS, st.data())
def test_a_subset_has_exactly_the_size_asked_and_every_class(counts, data):
    labels = shuffled_labels(counts)
    size = data.draw(st.integers(len(counts), len(labels)))
    chosen = stratified_subset(labels, size, seeded())
    assert len(set(chosen.tolist())) == size
    assert set(labels[chosen].tolist()) == set(range(len(counts)))


def test_a_subset_larger_than_the_set_is_refused():
    with pytest.raises(ValueError, match="between the 2 classes and the 4 images, got 5"):
        stratified_subset(torch.tensor([0, 0, 1, 1]), 5, seeded())


def tiny() -> Dataset:
    images = torch.arange(64, dtype=torch.uint8).view(4, 1, 4, 4)
    part = ImageSet(images, torch.tensor([0, 1, 0, 1]))
    return Dataset("tiny", part, part, ("a", "b"))


def test_the_fingerprint_changes_with_a_pixel_a_label_and_the_shape():
    base = tiny()
    images, labels = base.train.images, base.train.labels
    pixel = images.clone()
    pixel[3, 0, 1, 2] += 1
    others = [ImageSet(pixel, labels), ImageSet(images, labels.flip(0))]
    prints = [replace(base, test=other).fingerprint for other in others]
    reshaped = ImageSet(images.view(4, 1, 2, 8), labels)
    prints += [base.fingerprint, replace(base, train=reshaped, test=reshaped).fingerprint]
    assert len(set(prints)) == 4
    assert all(len(bytes.fromhex(found)) == 8 for found in prints)
    assert tiny().fingerprint == base.fingerprint


def test_a_subset_of_an_image_set_keeps_the_order_asked():
    part = tiny().train.subset(torch.tensor([3, 0]))
    assert len(part) == 2
    assert torch.equal(part.images[0], tiny().train.images[3])
    assert part.to("cpu").labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (torch.zeros(2, 1, 4, 4), torch.zeros(2, dtype=torch.int64)),
        (torch.zeros(2, 4, 4, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64)),
        (torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.zeros(3, dtype=torch.int64)),
        (torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.zeros(2)),
    ],
)
def test_an_image_set_of_wrong_type_or_shape_is_refused(images, labels):
    with pytest.raises(ValueError, match="must be"):
        ImageSet(images, labels)


def test_a_data_set_of_one_class_is_refused():
    with pytest.raises(ValueError, match="at least 2 classes, got \\['a'\\]"):
        replace(tiny(), class_names=("a",))


@pytest.mark.parametrize("image_size", [0, -3, (4,), (4, 0), (4, 5, 6)])
def test_an_impossible_image_size_is_refused(image_size):
    with pytest.raises(ValueError, match="image_size must be a side or"):
        load_dataset(image_size=image_size)


@pytest.mark.parametrize(
    ("given", "size"), [(32, (32, 32)), ("32x48", (48, 32)), ("32×48", (48, 32)), ((5, 7), (5, 7)), (None, None)]
)
def test_sizes_are_sides_or_width_and_height(given, size):
    assert parse_size(given) == size


def test_a_class_with_one_image_keeps_it_for_training_and_every_other_class_is_held_out():
    labels = torch.tensor([0] * 40 + [1] + [2] * 3)
    images = ImageSet(torch.zeros(44, 1, 2, 2).byte(), labels)
    data = Dataset("squares", images, images, ("a", "b", "c"))
    training, held_out = split_training(data, count=None, validation=0.1, seed=0)
    assert held_out is not None
    assert held_out.labels.bincount().tolist() == [3, 0, 1]
    assert training.labels.bincount().tolist() == [37, 1, 2]


def test_classes_that_can_give_nothing_do_not_make_others_give_more():
    labels = torch.cat([torch.zeros(100).long(), torch.arange(1, 51)])  # one class of 100, fifty of one
    images = ImageSet(torch.zeros(150, 1, 2, 2).byte(), labels)
    data = Dataset("squares", images, images, tuple(map(str, range(51))))
    _, held_out = split_training(data, count=None, validation=0.1, seed=0)
    assert held_out is not None
    assert held_out.labels.tolist() == [0] * 15
