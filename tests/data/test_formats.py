"""Official file formats: what was written is what is read, and broken files are refused in clear words."""

import gzip
import io
import runpy
import tracemalloc
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import loadmat, savemat
from support.official_files import (
    CIFAR_NAMES,
    affnist_bytes,
    idx_bytes,
    write_cifar,
    write_idx,
    write_mnist,
    write_svhn,
)

from hitnet.data import list_datasets, load_dataset
from hitnet.data.matlab import read_mat

ROOT = Path(__file__).parent.parent.parent


def test_mnist_mini_is_built_in_balanced_and_the_default():
    mini = load_dataset()
    assert (mini.name, mini.image_shape, mini.num_classes) == ("mnist-mini", (1, 28, 28), 10)
    assert mini.train.labels.bincount().tolist() == [500] * 10
    assert mini.test.labels.bincount().tolist() == [100] * 10
    assert mini.notes == ()
    assert mini.fingerprint == "9506a657f9401f38"


def test_the_recipe_of_mnist_mini_gives_the_same_bytes_twice(tmp_path, monkeypatch):
    recipe = runpy.run_path(str(ROOT / "scripts" / "make_mnist_mini.py"))
    make_mini = recipe["make_mini"]
    monkeypatch.setitem(make_mini.__globals__, "PER_CLASS", (3, 2))
    write_mnist(tmp_path / "mnist")
    for target in ("one", "two"):
        make_mini(tmp_path, tmp_path / target / "mnist")
    for file in (tmp_path / "one" / "mnist").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / "mnist" / file.name).read_bytes()
    made = load_dataset("mnist", data_dir=tmp_path / "one")
    assert made.train.labels.bincount().tolist() == [3] * 10
    assert made.train.labels.tolist() != sorted(made.train.labels.tolist())


def test_files_of_mnist_are_not_taken_for_fashion_mnist(tmp_path):
    write_mnist(tmp_path / "mnist", test=10)
    write_idx(tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz", np.array([7, 2, 1, 0, 4, 1, 4, 9, 5, 9]))
    with pytest.raises(ValueError, match=r"the files in .*mnist are mnist's, not fashion-mnist's; choose another"):
        load_dataset("fashion-mnist", data_dir=tmp_path / "mnist")


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("suffix", [".gz", ""])
def test_idx_files_are_read_as_written(tmp_path, name, nested, suffix):
    written = write_mnist(tmp_path / name if nested else tmp_path, suffix=suffix)
    loaded = load_dataset(name, data_dir=tmp_path)
    assert np.array_equal(loaded.train.images[:, 0], written["train-images-idx3-ubyte"])
    assert np.array_equal(loaded.test.labels, written["t10k-labels-idx1-ubyte"])
    assert "officially 60,000 and 10,000" in loaded.notes[0]


def zipped(data: bytes) -> bytes:
    """gzip without the time, so that every process gives a test the same name."""
    return gzip.compress(data, mtime=0)


IMAGES = idx_bytes(np.zeros((40, 28, 28)))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (zipped(b"\x00\x00\x09\x03" + IMAGES[4:]), "must start with the IDX magic 00000803, got 00000903"),
        (zipped(IMAGES)[:-20], "not a complete gzip file"),
        (b"<html>not here</html>", "not a complete gzip file"),
        (zipped(IMAGES[:-1]), "declares \\[40, 28, 28\\] = 31360 bytes, got 31359"),
        (zipped(IMAGES + b"x"), "got more"),
        (zipped(IMAGES[:4] + b"\xff" * 12), "more than it can hold"),
        (zipped(IMAGES[:6]), "declares"),
        (zipped(b""), "IDX magic"),
        (zipped(idx_bytes(np.zeros((39, 28, 28)))), "has 39 images, .* 40 labels"),
    ],
)
def test_broken_idx_images_are_refused(tmp_path, content, complaint):
    write_mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(ValueError, match=complaint):
        load_dataset("mnist", data_dir=tmp_path)


def test_idx_labels_out_of_range_are_refused(tmp_path):
    write_mnist(tmp_path)
    write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", np.arange(20))
    with pytest.raises(ValueError, match="test labels must lie in 0..9, got 0..19"):
        load_dataset("mnist", data_dir=tmp_path)


@pytest.mark.parametrize("folder", ["cifar10/cifar-10-batches-bin", "cifar-10-batches-bin", "cifar10", "."])
def test_cifar_files_are_read_as_written(tmp_path, folder):
    train, test = write_cifar(tmp_path / folder)
    loaded = load_dataset("cifar10", data_dir=tmp_path)
    assert np.array_equal(loaded.train.images, train)
    assert np.array_equal(loaded.test.images, test)
    assert loaded.test.labels.tolist() == list(range(10))
    assert loaded.class_names[3] == "cat"


def test_cifar_archive_is_read_without_unpacking(tmp_path):
    train, _ = write_cifar(tmp_path, archive=True)
    assert np.array_equal(load_dataset("cifar10", data_dir=tmp_path).train.images, train)
    assert [path.name for path in tmp_path.iterdir()] == ["cifar-10-binary.tar.gz"]


def test_broken_cifar_is_refused(tmp_path):
    write_cifar(tmp_path)
    records = (tmp_path / CIFAR_NAMES[2]).read_bytes()
    (tmp_path / CIFAR_NAMES[2]).write_bytes(records[:-5])
    with pytest.raises(ValueError, match="data_batch_3.bin must hold records of 3073 bytes, got 30725"):
        load_dataset("cifar10", data_dir=tmp_path)
    (tmp_path / CIFAR_NAMES[2]).write_bytes(b"\x0b" + records[1:])
    with pytest.raises(ValueError, match="training labels must lie in 0..9, got 0..11"):
        load_dataset("cifar10", data_dir=tmp_path)


def test_broken_cifar_archive_is_refused(tmp_path):
    write_cifar(tmp_path, archive=True)
    archive = tmp_path / "cifar-10-binary.tar.gz"
    archive.write_bytes(archive.read_bytes()[:5000])
    with pytest.raises(ValueError, match="not a complete .tar.gz"):
        load_dataset("cifar10", data_dir=tmp_path)


def test_svhn_is_read_as_written_and_label_10_is_digit_0(tmp_path):
    images = write_svhn(tmp_path / "svhn")
    loaded = load_dataset("svhn", data_dir=tmp_path)
    assert np.array_equal(loaded.train.images, images)
    assert loaded.train.labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] * 2


def test_a_gzip_file_is_only_unpacked_as_far_as_it_declares(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(IMAGES + bytes(100_000_000)))
    tracemalloc.start()
    with pytest.raises(ValueError, match="declares .* got more"):
        load_dataset("mnist", data_dir=tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6


@pytest.mark.parametrize(
    ("name", "write"),
    [("mnist", write_mnist), ("svhn", write_svhn), ("cifar10", partial(write_cifar, archive=True))],
)
def test_files_that_announce_more_than_the_memory_are_refused(tmp_path, monkeypatch, name, write):
    write(tmp_path)
    load_dataset(name, data_dir=tmp_path)
    monkeypatch.setattr("hitnet.data.announced.most_bytes", lambda: 5_000)
    with pytest.raises(ValueError, match=r"announces \S+ GB, more than half of this machine's memory"):
        load_dataset(name, data_dir=tmp_path)


PIXELS = np.zeros((32, 32, 3, 4), np.uint8)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({"X": PIXELS}, "must hold X and y, y missing"),
        ({"X": PIXELS, "y": np.array([[1], [2], [3]])}, "and as many labels y; got uint8 .* and 3 labels"),
        ({"X": PIXELS / 1.0, "y": np.ones((4, 1))}, "X, uint8 .* got float64"),
        ({"X": PIXELS, "y": np.array([[0], [1], [2], [3]])}, "labels 1..10, got 0..3"),
    ],
)
def test_wrong_svhn_content_is_refused(tmp_path, content, complaint):
    write_svhn(tmp_path)
    savemat(tmp_path / "train_32x32.mat", content)
    with pytest.raises(ValueError, match=complaint):
        load_dataset("svhn", data_dir=tmp_path)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("kind", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", ">u2", ">f8"])
def test_numbers_in_mat_files_are_those_that_scipy_reads(packed, kind):
    numbers = np.random.default_rng(0).integers(0, 100, (3, 4, 2)).astype(kind)
    struct = {"image": numbers, "label_int": numbers[0], "words": "a b", "inside": {"a": 1}, "x": np.zeros((0, 3))}
    written = {"X": numbers, "one": np.array([[5]], kind), "text": "letters", "s": struct, "cells": np.array([{}, 1])}
    file = io.BytesIO()
    savemat(file, written, do_compression=packed)
    expected = loadmat(file)
    file.seek(0)
    found = read_mat(file, "a.mat")
    assert set(found) == {"X", "one", "s"}
    for name in ("X", "one"):
        assert found[name].dtype == expected[name].dtype
        assert np.array_equal(found[name], expected[name])
    assert set(found["s"]) == {"image", "label_int", "x"}
    for name, value in found["s"].items():
        assert np.array_equal(value, expected["s"][name].item())


@pytest.mark.parametrize("cut", [0, 100, 3000])
def test_a_truncated_mat_file_is_refused(tmp_path, cut):
    write_svhn(tmp_path)
    path = tmp_path / "train_32x32.mat"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match="train_32x32.mat"):
        load_dataset("svhn", data_dir=tmp_path)


def lay_out_affnist(folder, layout):
    """Three numbered batches, 10.mat coming after 2.mat; returns images and labels in that order."""
    batches = {name: affnist_bytes(5, seed) for seed, name in enumerate(["1.mat", "2.mat", "10.mat"])}
    if layout == "zip":
        with zipfile.ZipFile(folder / "test_batches.zip", "w") as archive:
            for name, (data, _, _) in sorted(batches.items()):
                archive.writestr(f"test_batches/{name}", data)
    else:
        (folder / layout).mkdir(exist_ok=True)
        for name, (data, _, _) in batches.items():
            (folder / layout / name).write_bytes(data)
    return [np.concatenate([batch[part] for batch in batches.values()]) for part in (1, 2)]


@pytest.mark.parametrize("layout", ["zip", "test_batches", "."])
def test_affnist_batches_are_read_in_the_order_of_their_numbers(tmp_path, layout):
    write_mnist(tmp_path / "mnist")
    (tmp_path / "affnist").mkdir()
    images, labels = lay_out_affnist(tmp_path / "affnist", layout)
    loaded = load_dataset("affnist", data_dir=tmp_path)
    assert np.array_equal(loaded.test.images[:, 0], images)
    assert np.array_equal(loaded.test.labels, labels)
    assert loaded.train.images.shape == (40, 1, 40, 40)


def test_affnist_in_one_mat_file(tmp_path):
    write_mnist(tmp_path)
    data, images, _ = affnist_bytes(7, 0)
    (tmp_path / "test.mat").write_bytes(data)
    assert np.array_equal(load_dataset("affnist", data_dir=tmp_path).test.images[:, 0], images)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({"other": np.zeros(3)}, "must hold affNISTdata"),
        ({"affNISTdata": np.zeros(3)}, "struct affNISTdata with image and label_int"),
        ({"affNISTdata": {"image": np.zeros((1600, 3), np.uint8)}}, "with image and label_int"),
        (
            {"affNISTdata": {"image": np.zeros((784, 3), np.uint8), "label_int": np.zeros((1, 3))}},
            "\\(1600, count",
        ),
        ({"affNISTdata": {"image": np.zeros((1600, 3), np.uint8), "label_int": np.zeros((1, 2))}}, "and 2 labels"),
    ],
)
def test_wrong_affnist_content_is_refused(tmp_path, content, complaint):
    write_mnist(tmp_path)
    savemat(tmp_path / "test.mat", content)
    with pytest.raises(ValueError, match=complaint):
        load_dataset("affnist", data_dir=tmp_path)


def test_a_broken_affnist_zip_is_refused(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "test_batches.zip").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(ValueError, match="not a complete .zip"):
        load_dataset("affnist", data_dir=tmp_path)


def test_named_sets_can_be_resized(tmp_path):
    small = load_dataset("mnist-mini", image_size=(14, 20))
    assert small.image_shape == (1, 14, 20)
    assert small.notes == ("images resized to 20×14 from 28×28",)
    assert small.train.images.dtype == torch.uint8


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="'fashion_mnst' is neither .* did you mean 'fashion-mnist'"):
        load_dataset("fashion_mnst")
    with pytest.raises(ValueError, match=", ".join(list_datasets())):
        load_dataset("zzz")
