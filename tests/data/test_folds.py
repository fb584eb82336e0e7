"""Folds: every image is held out once, classes in proportion, copies together."""

import numpy as np
import pytest
import torch
from PIL import Image

from hitnet.data import load_dataset
from hitnet.data.dataset import Dataset, ImageSet
from hitnet.data.folds import assign_folds, first_copies, fold_of, pool
from hitnet.settings import TrainConfig


def make(labels: list[int], classes: int, copies: dict[int, int] | None = None) -> ImageSet:
    images = torch.randint(256, (len(labels), 1, 4, 4), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    for copy, original in (copies or {}).items():
        images[copy] = images[original]
    return ImageSet(images, torch.tensor(labels))


def test_every_image_is_tested_in_one_fold_and_trained_on_in_the_others():
    data = load_dataset("mnist-mini")
    seen: list[str] = []
    for number in (1, 2, 3):
        fold = fold_of(data, f"{number}/3", seed=0)
        assert fold.test.labels.bincount().tolist() == [200] * 10
        assert fold.train.files is not None
        assert fold.test.files is not None
        assert not set(fold.train.files) & set(fold.test.files)
        seen += fold.test.files
    assert sorted(seen) == sorted(pool(data).names)


def test_a_single_fold_trains_on_everything_and_tests_on_some_of_each_class():
    data = load_dataset("mnist-mini")
    fold = fold_of(data, "1/1", seed=0)
    assert fold.train.files == pool(data).names
    assert fold.test.files is not None
    assert set(fold.test.files) < set(pool(data).names)
    assert fold.test.labels.bincount().tolist() == [200] * 10


def test_the_few_that_a_single_fold_tests_on_have_every_class_whatever_the_order():
    images = make([0, 1] * 1500 + [2] * 5, 3)
    fold = fold_of(Dataset("taking turns", images, images.subset(torch.arange(3)), ("a", "b", "c")), "1/1", seed=0)
    assert (fold.test.labels.bincount() > 0).all()
    assert len(fold.test) == 2000


def test_copies_are_held_out_together_even_of_another_class():
    images = make([0] * 10 + [1] * 10, 2, copies={15: 3, 16: 3, 7: 1})
    for seed in range(5):
        parts = assign_folds(images, ("a", "b"), 3, seed).tolist()
        assert parts[15] == parts[16] == parts[3]
        assert parts[7] == parts[1]


def test_the_first_copy_is_the_one_a_naive_search_finds():
    images = make([0] * 12, 1, copies={5: 2, 9: 2, 11: 0}).images
    naive = [next(j for j in range(12) if images[j].equal(images[i])) for i in range(12)]
    assert first_copies(images).tolist() == naive


def test_a_class_that_cannot_be_audited_is_refused_with_its_name():
    with pytest.raises(ValueError, match="'b' has 4 images, expected at least 5; add some, or leave it out$"):
        assign_folds(make([0] * 9 + [1] * 4, 2), ("a", "b"), 3, 0)
    with pytest.raises(ValueError, match="'a' has 12 images, expected at least 30; .*, or use at most 12 folds"):
        assign_folds(make([0] * 12 + [1] * 12, 2), ("a", "b"), 30, 0)
    with pytest.raises(ValueError, match="'b' are copies of each other"):
        assign_folds(make([0] * 9 + [1] * 5, 2, {10: 9, 11: 9, 12: 9, 13: 9}), ("a", "b"), 3, 0)


@pytest.mark.parametrize("fold", ["0/3", "4/3", "1", "a/b", "1/3/2", "-1/3"])
def test_a_fold_that_is_none_is_refused(fold: str):
    with pytest.raises(ValueError, match="as in 1/3, 2/3 or 3/3"):
        TrainConfig(fold=fold)


def test_images_of_an_npz_without_a_test_part_keep_their_numbers(tmp_path):
    x = np.arange(20, dtype=np.uint8).repeat(16).reshape(20, 4, 4)
    np.savez(tmp_path / "x.npz", x_train=x, y_train=np.arange(20) % 2)
    for name, image in zip(
        (everything := pool(load_dataset(tmp_path / "x.npz"))).names, everything.images.images, strict=True
    ):
        assert int(name.removeprefix("train/")) == int(image[0, 0, 0])
    assert set(everything.splits) == {"train"}  # nobody but HitNet divided them
    np.savez(tmp_path / "y.npz", x_train=x, y_train=np.arange(20) % 2, x_test=x, y_test=np.arange(20) % 2)
    assert set(pool(load_dataset(tmp_path / "y.npz")).splits) == {"train", "test"}


def test_pictures_of_a_folder_without_a_test_part_are_all_of_one_split(tmp_path):
    def write(folder):
        for name in ("a", "b"):
            (folder / name).mkdir(parents=True)
            for number in range(5):
                Image.new("L", (8, 8), 20 * number).save(folder / name / f"{number}.png")

    write(tmp_path / "whole")
    write(tmp_path / "divided" / "train")
    write(tmp_path / "divided" / "test")
    assert set(pool(load_dataset(tmp_path / "whole")).splits) == {"train"}
    assert set(pool(load_dataset(tmp_path / "divided")).splits) == {"train", "test"}


def test_the_pool_has_all_splits_in_their_order():
    part = make([0, 1], 2)
    data = Dataset("tiny", part, part, ("a", "b"), validation=part)
    everything = pool(data)
    assert everything.splits == ("train", "train", "validation", "validation", "test", "test")
    assert everything.names[2:4] == ("validation/0", "validation/1")
