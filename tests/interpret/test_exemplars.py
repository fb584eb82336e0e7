"""Which real pictures stand beside the drawn ones, and how many."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from hitnet.core.model import Model
from hitnet.data import ImageSet, to_float
from hitnet.interpret import exemplars
from hitnet.interpret.exemplars import choose_exemplars, how_many, images_at_end, shrink, typical_images

Small = Callable[..., Model]


def pictures(count: int, classes: int = 3, shape: tuple[int, int, int] = (1, 28, 28)) -> ImageSet:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, *shape), generator=generator, dtype=torch.uint8)
    return ImageSet(images, torch.arange(count) % classes)


def unit(vector: Tensor) -> Tensor:
    return vector / vector.norm()


def test_typical_images_equal_a_naive_loop() -> None:
    features, deviations = torch.randn(41, 5), torch.randn(41, 4)
    nearer = sorted(range(41), key=lambda place: float(deviations[place].norm()))[:21]
    chosen: list[int] = []
    for _ in range(6):

        def left_over(candidate: int) -> float:
            return sum(
                min(float((unit(features[other]) - unit(features[each])).norm()) for each in [*chosen, candidate])
                for other in nearer
            )

        chosen.append(min((place for place in nearer if place not in chosen), key=left_over))
    assert typical_images(features, deviations, 6).tolist() == chosen


def test_a_common_kind_of_image_comes_first_and_each_kind_once() -> None:
    kinds = torch.eye(3)[[0] * 20 + [1] * 10 + [2] * 5] + 0.01 * torch.rand(35, 3)
    far = torch.arange(70).div(35, rounding_mode="floor").unsqueeze(1)  # the second half is not looked at
    chosen = typical_images(kinds.repeat(2, 1), far, 3)
    assert kinds[chosen].argmax(1).tolist() == [0, 1, 2]


def test_copies_of_one_image_are_each_chosen_once() -> None:
    assert sorted(typical_images(torch.ones(4, 3), torch.zeros(4, 2), 6).tolist()) == [0, 1, 2, 3]


def test_images_at_an_end_equal_a_naive_loop() -> None:
    deviations = torch.randn(40, 5)
    for component in range(5):
        highest = sorted(range(40), key=lambda place: -float(deviations[place, component]))[:8]
        alone = sorted(highest, key=lambda place: -float(deviations[place, component] / deviations[place].norm()))
        assert images_at_end(deviations, component, 3).tolist() == alone[:3]


def test_an_image_below_the_centre_is_never_at_the_high_end() -> None:
    assert images_at_end(torch.tensor([[-0.1, 1.0], [-0.2, 0.0], [0.3, 0.2]]), 0, 3).tolist() == [2]
    assert images_at_end(torch.zeros(4, 2), 0, 3).tolist() == []


@pytest.mark.parametrize("name", ["hitnet-fast", "lenet5-hom"])
def test_every_chosen_picture_is_a_training_image_of_its_class_at_the_right_end(small_model: Small, name: str) -> None:
    model, data = small_model(name, num_classes=3, capsule_dim=4), pictures(60)
    found = choose_exemplars(model, data)
    copies = {picture.numpy().tobytes() for picture in found.pictures}
    assert len(copies) == len(found.pictures), "a picture is stored once"
    capsules = model.all_capsules(to_float(data.images))
    where = {image.numpy().tobytes(): place for place, image in enumerate(data.images)}
    for index in range(3):
        for place in [*found.typical[index].tolist(), *found.ends[index].flatten().tolist()]:
            if place >= 0:
                assert data.labels[where[found.pictures[place].numpy().tobytes()]] == index
        for component in range(4):
            for side, sign in enumerate((-1, 1)):
                for place in found.ends[index, component, side].tolist():
                    if place >= 0:
                        image = where[found.pictures[place].numpy().tobytes()]
                        assert sign * (capsules[image, index, component] - 0.5) > 0


def test_misclassified_images_are_not_shown_if_the_class_has_others(small_model: Small) -> None:
    model, data = small_model("lenet5-hom", num_classes=3, capsule_dim=4), pictures(90)
    found = choose_exemplars(model, data)
    for index in range(3):
        shown = found.pictures[found.typical[index][found.typical[index] >= 0]]
        right = (model.predict(to_float(data.images)) == data.labels) & (data.labels == index)
        if right.any():
            assert (model.predict(to_float(shown)) == index).all()
        else:
            assert len(shown) == 6


def test_the_same_images_are_chosen_again_and_the_model_stays_in_its_mode(small_model: Small, monkeypatch) -> None:
    monkeypatch.setattr(exemplars, "MOST_IMAGES", 40)
    model = small_model("lenet5-hom", num_classes=3, capsule_dim=4).train()
    first, second = (choose_exemplars(model, pictures(90)) for _ in range(2))
    assert all(torch.equal(getattr(first, part), getattr(second, part)) for part in vars(first))
    assert model.training


def test_a_class_with_few_or_no_images_leaves_places_empty(small_model: Small) -> None:
    data = pictures(2, classes=2)
    found = choose_exemplars(small_model("lenet5-hom", num_classes=3, capsule_dim=4), data)
    assert found.typical.tolist() == [[0] + [-1] * 5, [1] + [-1] * 5, [-1] * 6]
    assert torch.equal(found.pictures, data.images)
    assert (found.ends[2] == -1).all()


@pytest.mark.parametrize(
    ("classes", "dims", "expected"),
    [(2, 16, (6, 3)), (10, 16, (6, 3)), (50, 16, (6, 2)), (100, 16, (6, 1)), (10, 64, (6, 3)), (1000, 16, (4, 0))],
)
def test_many_classes_get_fewer_pictures_each(classes: int, dims: int, expected: tuple[int, int]) -> None:
    typical, per_end = how_many(classes, dims)
    assert (typical, per_end) == expected
    assert classes * (typical + 2 * dims * per_end) <= exemplars.MOST_PICTURES


def test_a_hundred_classes_stay_within_the_limit_and_large_pictures_shrink(small_model: Small, monkeypatch) -> None:
    monkeypatch.setattr(exemplars, "MOST_PICTURES", 500)
    monkeypatch.setattr(exemplars, "MOST_PIXELS", 500 * 100)
    model = small_model("lenet5-hom", (3, 30, 24), num_classes=100, capsule_dim=4)
    found = choose_exemplars(model, pictures(400, 100, (3, 30, 24)))
    assert found.ends.shape == (100, 4, 2, 0)
    count, channels, height, width = found.pictures.shape
    assert count <= 500
    assert channels == 3
    assert 0.8 * 500 * 100 < count * height * width <= 500 * 100
    assert height / width == pytest.approx(30 / 24, abs=0.15)


def test_small_pictures_are_kept_as_they_are() -> None:
    data = pictures(20)
    assert shrink(data.images) is data.images
