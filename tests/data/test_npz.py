"""Arrays in an .npz."""

import io
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest

from hitnet.data import load_dataset

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (12, 6, 5), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (12, 3, 6, 5), dtype=np.uint8)
LABELS = np.arange(12) % 3
ALPHA = r"1 or 3 channels, got shape \(12, 6, 5, 4\); drop the alpha channel with images\[..., :3\]"


def saved(folder, **arrays):
    path = folder / "shapes.npz"
    np.savez_compressed(path, **arrays)
    return path


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (GREY, GREY[:, None]),
        (GREY[:, None], GREY[:, None]),
        (GREY[..., None], GREY[:, None]),
        (COLOUR, COLOUR),
        (COLOUR.transpose(0, 2, 3, 1), COLOUR),
        (COLOUR.astype(np.int64), COLOUR),
        (COLOUR / 255, COLOUR),
        ((COLOUR / 255).astype(np.float32), COLOUR),
    ],
)
def test_every_layout_and_type_gives_the_same_bytes(tmp_path, array, expected):
    path = saved(tmp_path, x_train=array, y_train=LABELS, x_test=array[:6], y_test=LABELS[:6])
    loaded = load_dataset(path)
    assert np.array_equal(loaded.train.images, expected)
    assert np.array_equal(loaded.test.images, expected[:6])
    assert (loaded.name, loaded.class_names) == ("shapes", ("0", "1", "2"))
    converted = "images converted from floats in [0, 1] to bytes"
    assert loaded.notes == ((converted,) if array.dtype.kind == "f" else ())


def test_strings_are_class_names_and_a_column_of_labels_is_fine(tmp_path):
    words = np.array(["dog", "cat2", "cat10"])[LABELS]
    path = saved(tmp_path, x_train=GREY, y_train=words[:, None], x_test=GREY, y_test=words.astype("S"))
    loaded = load_dataset(str(path))
    assert loaded.class_names == ("cat2", "cat10", "dog")
    assert loaded.train.labels.tolist() == [2, 0, 1] * 4


def test_numbers_may_be_named(tmp_path):
    for names in (np.array(["a", "b", "c"]), np.array([b"a", b"b", b"c"])):
        path = saved(tmp_path, x_train=GREY, y_train=LABELS, class_names=names)
        assert load_dataset(path).class_names == ("a", "b", "c")


def test_without_test_arrays_a_fraction_is_held_out(tmp_path):
    loaded = load_dataset(saved(tmp_path, x_train=GREY, y_train=LABELS), test_fraction=0.25)
    assert loaded.test.labels.bincount().tolist() == [1, 1, 1]
    assert loaded.notes == ("split into 9 training and 3 test images, seed 0",)


def test_arrays_can_be_resized(tmp_path):
    assert load_dataset(saved(tmp_path, x_train=GREY, y_train=LABELS), image_size=9).image_shape == (1, 9, 9)


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"y_train": LABELS}, "must hold x_train, y_train; x_train missing"),
        ({"x_train": GREY, "y_train": LABELS, "x_test": GREY}, "y_test missing"),
        ({"x_train": GREY, "y_train": LABELS, "y_test": LABELS}, "x_test missing"),
        ({"x_train": GREY, "y_train": LABELS[:5]}, "the same length, got 12 images and y_train of shape \\(5,\\)"),
        ({"x_train": GREY.reshape(12, 30), "y_train": LABELS}, "must be \\(count, h, w\\).* got shape \\(12, 30\\)"),
        ({"x_train": np.zeros((12, 6, 5, 4), np.uint8), "y_train": LABELS}, ALPHA),
        ({"x_train": GREY[:0], "y_train": LABELS[:0]}, "got shape \\(0, 6, 5\\)"),
        ({"x_train": GREY.astype(float), "y_train": LABELS}, "must lie in 0..1, got .*; divide by 255"),
        ({"x_train": GREY * np.nan, "y_train": LABELS}, "must lie in 0..1, got nan"),
        ({"x_train": GREY.astype(int) - 1, "y_train": LABELS}, "must lie in 0..255, got -1"),
        ({"x_train": GREY > 3, "y_train": LABELS}, "must be uint8 or floats in \\[0, 1\\], got bool"),
        ({"x_train": GREY, "y_train": LABELS + 1}, "must use every label in 0..3 and no other; check \\[0\\]"),
        ({"x_train": GREY, "y_train": LABELS - 1}, "check \\[-1\\]"),
        ({"x_train": GREY, "y_train": LABELS, "class_names": np.array(["a", "b"])}, "in 0..1 and no other; check .2"),
        (
            {"x_train": GREY, "y_train": LABELS, "class_names": np.array(["a", "b", "a"])},
            "must differ, got a more",
        ),
        ({"x_train": GREY, "y_train": LABELS + 0.5}, "integers from 0, or all strings, got float64"),
        ({"x_train": GREY, "y_train": LABELS * 0}, "at least 2 classes"),
        ({"x_train": GREY, "y_train": LABELS, "x_test": GREY, "y_test": LABELS + 3}, "test labels must lie in 0..2"),
        ({"x_train": GREY, "y_train": LABELS, "x_test": COLOUR, "y_test": LABELS}, "differ in shape"),
        ({"x_train": GREY, "y_train": LABELS.astype(str), "x_test": GREY, "y_test": LABELS}, "or all strings"),
        (
            {"x_train": GREY, "y_train": LABELS.astype(str), "x_test": GREY, "y_test": (LABELS + 2).astype(str)},
            "y_train lacks: 3, 4",
        ),
    ],
)
def test_wrong_arrays_are_refused(tmp_path, arrays, complaint):
    with pytest.raises(ValueError, match=complaint):
        load_dataset(saved(tmp_path, **arrays))


def test_labels_that_are_ids_are_refused_without_counting_up_to_them(tmp_path):
    path = saved(tmp_path, x_train=GREY, y_train=LABELS + 10**6)
    tracemalloc.start()
    with pytest.raises(
        ValueError, match=r"every label in 0..1000002 and no other; check \[0, 1, 2, 3, 4, 5, 6, 7, 8, 9\]"
    ):
        load_dataset(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6


class Trap:
    """Its unpickling would fail the test."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was loaded",)


def test_object_arrays_are_refused_and_never_unpickled(tmp_path):
    trap = np.array([Trap()] * 12, dtype=object)
    for arrays in ({"x_train": GREY, "y_train": trap}, {"x_train": trap, "y_train": LABELS}):
        with pytest.raises(ValueError, match="not a readable .npz of plain arrays"):
            load_dataset(saved(tmp_path, **arrays))


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 cut off", pickle.dumps(Trap())])
def test_files_that_are_no_npz_are_refused(tmp_path, content):
    path = tmp_path / "broken.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a readable .npz"):
        load_dataset(path)


def test_a_truncated_npz_and_a_bare_npy_are_refused(tmp_path):
    path = saved(tmp_path, x_train=GREY, y_train=LABELS)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="not a readable .npz"):
        load_dataset(path)
    np.save(tmp_path / "bare.npy", GREY)
    (tmp_path / "bare.npy").rename(path)
    with pytest.raises(ValueError, match="not a readable .npz"):
        load_dataset(path)


@pytest.mark.parametrize("shape", ["(1000000000000, 28, 28)", "(4, 28, 28)", "(12,)"])
def test_an_array_that_is_not_as_large_as_it_announces_is_refused_before_memory_is_taken(tmp_path, shape):
    array = io.BytesIO()
    np.save(array, np.zeros((12, 28, 28), np.uint8))
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    with zipfile.ZipFile(tmp_path / "lies.npz", "w") as archive:
        archive.writestr("x_train.npy", array.getvalue()[:10] + header.encode() + array.getvalue()[128:])
        archive.writestr("y_train.npy", array.getvalue())
    with pytest.raises(ValueError, match=r"x_train.npy announces .* bytes, and has 9408"):
        load_dataset(tmp_path / "lies.npz")


def test_an_npz_that_announces_more_than_the_memory_is_refused(tmp_path, monkeypatch):
    path = saved(tmp_path, x_train=np.zeros((12, 60, 60), np.uint8), y_train=LABELS)
    monkeypatch.setattr("hitnet.data.announced.most_bytes", lambda: 40_000)
    with pytest.raises(ValueError, match=r"announces \S+ GB, more than half of this machine's memory"):
        load_dataset(path)


def test_other_arrays_of_an_npz_are_left_alone(tmp_path):
    other = np.array([Trap()] * 12, dtype=object)
    assert len(load_dataset(saved(tmp_path, x_train=GREY, y_train=LABELS, other=other)).train)
