"""Batches of an epoch, shifts, flips and what is erased."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hitnet.data import Batches, ImageSet, Variation, shift

EVERYTHING = Variation(shift=2, flip=True, rotate=10, scale=0.1, shear=10, bend=0.05, colour=0.2, erase=0.4, seed=1)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numbered(count: int, channels: int = 1, side: int = 5) -> ImageSet:
    """Random images whose label is their own number."""
    images = torch.randint(0, 256, (count, channels, side, side), dtype=torch.uint8, generator=seeded(9))
    return ImageSet(images, torch.arange(count))


def moved_by_loop(image: torch.Tensor, down: int, right: int, fill: str) -> torch.Tensor:
    out = torch.zeros_like(image)
    _, height, width = image.shape
    for row in range(height):
        for column in range(width):
            if 0 <= row - down < height and 0 <= column - right < width:
                out[:, row, column] = image[:, row - down, column - right]
            elif fill == "edge":
                above, beside = min(max(row - down, 0), height - 1), min(max(column - right, 0), width - 1)
                out[:, row, column] = image[:, above, beside]
    return out


@pytest.mark.parametrize(
    ("channels", "height", "width", "limit"), [(1, 6, 6, 2), (3, 4, 7, 1), (1, 2, 2, 3), (3, 5, 4, 0)]
)
@pytest.mark.parametrize("fill", ["zeros", "edge"])
def test_shift_equals_a_naive_loop(channels, height, width, limit, fill):
    images = torch.randint(1, 256, (60, channels, height, width), dtype=torch.uint8, generator=seeded(1))
    offsets = torch.randint(-limit, limit + 1, (60, 2), generator=seeded(2))
    expected = torch.stack([moved_by_loop(image, *o, fill) for image, o in zip(images, offsets.tolist(), strict=True)])
    assert torch.equal(shift(images, limit, fill=fill, generator=seeded(2)), expected)


def test_shift_draws_every_move_about_equally_often():
    dot = torch.zeros(25_000, 1, 5, 5, dtype=torch.uint8)
    dot[:, :, 2, 2] = 1
    counts = shift(dot, 2, generator=seeded()).long().sum((0, 1))
    assert int(counts.sum()) == 25_000
    assert 850 < int(counts.min()) <= int(counts.max()) < 1150


def test_shift_works_on_floats_and_on_no_images():
    assert shift(torch.rand(3, 1, 4, 4), 1, generator=seeded()).dtype == torch.float32
    assert shift(torch.zeros(0, 1, 4, 4, dtype=torch.uint8), 2, generator=seeded()).shape == (0, 1, 4, 4)


def test_a_negative_shift_is_refused():
    with pytest.raises(ValueError, match="0 pixels or more, got -1"):
        shift(torch.zeros(1, 1, 4, 4), -1, generator=seeded())


def labels_and_mirrored(batches: Batches, epoch: int) -> dict[int, bool]:
    """Which images of an epoch are mirrored, by their label."""
    originals, found = batches.data.images / 255, {}
    for images, labels, _ in batches.epoch(epoch):
        for image, label in zip(images, labels.tolist(), strict=True):
            mirrored = torch.equal(image, originals[label].flip(-1))
            assert mirrored or torch.equal(image, originals[label])
            found[label] = mirrored
    return found


def test_flip_mirrors_one_half_of_the_images_and_in_the_next_epoch_the_other_half():
    batches = Batches(numbered(60), 16, variation=Variation(flip=True, seed=4), generator=seeded())
    epochs = [labels_and_mirrored(batches, number) for number in range(3)]
    assert sum(epochs[0].values()) == 30
    assert all(epochs[1][label] != mirrored for label, mirrored in epochs[0].items())
    assert epochs[2] == epochs[0]


def test_the_seed_of_the_run_decides_which_half_is_mirrored_first_not_the_generator():
    def first(seed: int, generator: int) -> dict[int, bool]:
        variation = Variation(flip=True, seed=seed)
        return labels_and_mirrored(Batches(numbered(60), 60, variation=variation, generator=seeded(generator)), 0)

    assert first(1, 7) == first(1, 8)
    assert first(1, 7) != first(2, 7)


def test_what_is_erased_for_the_network_is_whole_for_the_decoder():
    data = numbered(40, channels=3, side=8)
    ((images, labels, whole),) = Batches(data, 40, variation=Variation(erase=0.5), generator=seeded()).epoch(0)
    assert torch.equal(whole, data.images[labels] / 255)
    hidden = (images != whole).any(1).flatten(1).sum(1)
    assert int(hidden.max()) == 16
    assert int(hidden.min()) >= 4


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 60), st.integers(2, 20))
def test_an_epoch_shows_every_image_once_but_a_last_batch_of_one(count, batch_size):
    data = numbered(count)
    batches = Batches(data, batch_size, variation=Variation(shift=1, flip=True), generator=seeded())
    epoch = list(batches.epoch(0))
    sizes = [len(labels) for _, labels, _ in epoch]
    seen = torch.cat([labels for _, labels, _ in epoch]).tolist()
    assert len(batches) == len(sizes)
    assert min(sizes) >= 2
    assert len(seen) == len(set(seen)) == count - (count % batch_size == 1)


def test_evaluation_is_in_order_and_keeps_a_last_image():
    data = numbered(9)
    batches = Batches(data, 4)
    assert [labels.tolist() for _, labels in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert len(batches) == 3
    assert torch.equal(torch.cat([images for images, _ in batches]), data.images.float() / 255)


def test_images_are_exactly_x_over_255():
    data = ImageSet(torch.arange(256, dtype=torch.uint8).view(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64))
    images, labels = next(iter(Batches(data, 4)))
    assert images.dtype == torch.float32
    assert labels.dtype == torch.int64
    assert torch.equal(images, data.images.float() / 255)


def test_every_epoch_has_a_new_order_and_the_same_seed_the_same_epochs():
    data = numbered(50)
    one, two = (Batches(data, 16, variation=EVERYTHING, generator=seeded(3)) for _ in range(2))
    first = [list(one.epoch(number)) for number in range(2)]
    again = [list(two.epoch(number)) for number in range(2)]
    for epoch, repeated in zip(first, again, strict=True):
        for batch, same in zip(epoch, repeated, strict=True):
            assert all(torch.equal(part, other) for part, other in zip(batch, same, strict=True))
    assert first[0][0][1].tolist() != first[1][0][1].tolist()


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("count", [48, 53, 49])
def test_ranks_together_see_what_one_process_sees(world_size, count):
    data = numbered(count, channels=3)
    whole = list(Batches(data, 12, variation=EVERYTHING, generator=seeded(5)).epoch(1))
    ranks = [
        Batches(data, 12, variation=EVERYTHING, generator=seeded(5), rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    lengths = {len(batches) for batches in ranks}
    assert lengths == {count // 12 + (count % 12 >= 2 * world_size)}
    for number, slices in enumerate(zip(*(batches.epoch(1) for batches in ranks), strict=True)):
        for part, together in enumerate(whole[number]):
            # One warp of many images and several of fewer may round differently.
            torch.testing.assert_close(torch.cat([one[part] for one in slices]), together)
        assert min(len(one.labels) for one in slices) >= 2


def test_ranks_evaluate_every_image_once_and_never_an_empty_batch():
    ranks = [Batches(numbered(9), 4, rank=rank, world_size=2) for rank in range(2)]
    seen = [labels.tolist() for batches in ranks for _, labels in batches]
    assert sorted(label for batch in seen for label in batch) == list(range(9))
    assert [] not in seen
    assert [len(batches) for batches in ranks] == [sum(1 for _ in batches) for batches in ranks]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"batch_size": 4, "variation": Variation(shift=1)}, "needs a generator"),
        ({"batch_size": 1, "generator": seeded()}, "at least 2 images, got batch_size 1"),
        ({"batch_size": 3, "generator": seeded(), "world_size": 2}, "at least 4 images"),
        ({"batch_size": 4, "rank": 2, "world_size": 2}, "rank must lie in 0..1, got 2"),
        ({"batch_size": 0}, "at least 1 images, got batch_size 0"),
    ],
)
def test_impossible_batches_are_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        Batches(numbered(8), **options)


def test_balanced_epochs_show_every_class_equally_often_and_no_image_much_more_than_its_classmates() -> None:
    labels = torch.tensor([0] * 80 + [1] * 15 + [2] * 5)
    data = ImageSet(torch.arange(100, dtype=torch.uint8).view(100, 1, 1, 1), labels)
    batches = Batches(data, 10, generator=seeded(), balance=True)
    epochs = [
        [int(255 * image.item() + 0.5) for batch in batches.epoch(0) for image in batch.images] for _ in range(30)
    ]
    for shown in epochs:
        times = [shown.count(index) for index in range(100)]
        assert len(shown) == 100
        assert sorted([sum(times[:80]), sum(times[80:95]), sum(times[95:])]) == [33, 33, 34]
        assert set(times[:80]) == {0, 1}, "a large class is not repeated"
        assert max(times[95:]) - min(times[95:]) <= 1, "of a small class every image is repeated"
    assert {index for shown in epochs for index in shown} == set(range(100)), "no image is left out for good"
    assert epochs[0] != epochs[1]


def test_a_training_epoch_without_a_generator_is_refused():
    with pytest.raises(ValueError, match="needs a generator"):
        next(Batches(numbered(8), 4).epoch(0))
