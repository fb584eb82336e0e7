"""An `.npz` file of arrays as a data set."""

from __future__ import annotations

import math
import zipfile
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numpy.lib.format import read_array_header_1_0, read_array_header_2_0, read_magic
from torch import Tensor

from hitnet.data.announced import check_announced
from hitnet.data.dataset import Dataset, ImageSet
from hitnet.data.folder import natural_order
from hitnet.data.folds import image_names
from hitnet.data.split import split_off_test

Array = npt.NDArray[Any]
NAMES = frozenset({"x_train", "y_train", "x_test", "y_test", "class_names"})
LAYOUTS = "(count, h, w), (count, c, h, w) or (count, h, w, c) with 1 or 3 channels"


def load_npz(path: Path, *, test_fraction: float | None = 0.2, split_seed: int = 0) -> Dataset:
    """`x_train, y_train` and, unless `test_fraction` of them is to be held out, `x_test, y_test` -> Dataset.

    Images are bytes or floats in [0, 1]; labels are integers from 0, named by `class_names` if that is there, or
    strings, which are then the class names.
    """
    # Byte strings become str, like the other strings.
    arrays = {
        name: given.astype(str) if given.dtype.kind == "S" else given for name, given in _read_arrays(path).items()
    }
    notes: list[str] = []
    splits = ("train", "test") if "x_test" in arrays else ("train",)
    images = [_to_images(arrays[f"x_{split}"], f"{path}: x_{split}", notes) for split in splits]
    raw = [arrays[f"y_{split}"] for split in splits]
    for split, pixels, given in zip(splits, images, raw, strict=True):
        if given.shape not in ((len(pixels),), (len(pixels), 1)):
            got = f"{len(pixels)} images and y_{split} of shape {given.shape}"
            raise ValueError(f"{path}: x_{split} and y_{split} must have the same length, got {got}")
    labels, names = _to_labels(path, [given.ravel() for given in raw], arrays.get("class_names"))
    parts = [ImageSet(*pair) for pair in zip(images, labels, strict=True)]
    if len(parts) == 1:
        # Numbered before the split, so that a name leads to the image in the file.
        parts[0] = replace(parts[0], files=image_names(parts[0], "train"))
        parts = [parts[0].subset(part) for part in split_off_test(labels[0], test_fraction, split_seed, notes)]
    held_out = len(splits) == 1
    return Dataset(path.stem, parts[0], parts[1], names, tuple(dict.fromkeys(notes)), test_is_held_out=held_out)


def _read_arrays(path: Path) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(path) as archive:
            _check_sizes(path, archive)
        # Without pickle: an object array, which could run code, is refused.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            arrays = {name: np.asarray(content[name]) for name in content.files if name in NAMES}
    except Exception as error:  # broken files make numpy and zipfile raise almost any exception
        raise ValueError(
            f"{path} is not a readable .npz of plain arrays ({error}); save it with numpy.savez"
        ) from error
    # x_test and y_test are optional, but only together.
    needed = {"x_train", "y_train"} | ({"x_test", "y_test"} if {"x_test", "y_test"} & set(arrays) else set())
    if missing := sorted(needed - set(arrays)):
        raise ValueError(f"{path} must hold {', '.join(sorted(needed))}; {', '.join(missing)} missing")
    return arrays


def _check_sizes(path: Path, archive: zipfile.ZipFile) -> None:
    """Compare what each array announces with its size in the archive, and all together with the memory."""
    members = [member for member in archive.infolist() if member.filename.removesuffix(".npy") in NAMES]
    check_announced(path, sum(member.file_size for member in members))
    for member in members:
        with archive.open(member) as file:
            read_header = read_array_header_1_0 if read_magic(file) == (1, 0) else read_array_header_2_0
            shape, _, kind = read_header(file)
            size, there = math.prod(shape) * kind.itemsize, member.file_size - file.tell()
        if size != there and not kind.hasobject:
            raise ValueError(f"{member.filename} announces {shape} of {kind}, {size} bytes, and has {there}")


def _to_images(array: Array, name: str, notes: list[str]) -> Tensor:
    """Bytes or floats in any of three layouts -> uint8 (count, channels, height, width)."""
    array = channels_first(array, name)
    if array.dtype != np.uint8:
        array = _to_bytes(array, name, notes)
    return torch.from_numpy(np.ascontiguousarray(array))


def channels_first(array: Array, name: str) -> Array:
    """Images in any of three layouts -> (count, channels, height, width)."""
    given = array.shape
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[1] not in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    if array.ndim != 4 or array.shape[1] not in (1, 3) or 0 in array.shape:
        remedy = "; drop the alpha channel with images[..., :3]" if given[3:] == (4,) else ""
        raise ValueError(f"{name} must be {LAYOUTS}, got shape {given}{remedy}")
    return array


def _to_bytes(array: Array, name: str, notes: list[str]) -> Array:
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be uint8 or floats in [0, 1], got {array.dtype}")
    low, high = array.min(), array.max()
    top = 1 if array.dtype.kind == "f" else 255
    if not (low >= 0 and high <= top):  # written this way, NaN fails too
        remedy = "; divide by 255, or save as uint8" if top == 1 else "; save as uint8"
        raise ValueError(f"{name} of {array.dtype} must lie in 0..{top}, got {low}..{high}{remedy}")
    if top == 255:
        return array.astype(np.uint8)
    notes.append("images converted from floats in [0, 1] to bytes")
    return np.rint(array * 255).astype(np.uint8)


def _to_labels(path: Path, raw: list[Array], class_names: Array | None) -> tuple[list[Tensor], tuple[str, ...]]:
    """Labels of each split as integers from 0 and the names of their classes."""
    kinds = {given.dtype.kind for given in raw}
    if kinds <= {"U"}:
        names = natural_order({str(name) for name in raw[0]})
        if strange := natural_order({str(name) for given in raw for name in given} - set(names)):
            raise ValueError(f"{path}: y_test has classes that y_train lacks: {', '.join(strange)}")
        index = {name: number for number, name in enumerate(names)}
        return [torch.tensor([index[str(name)] for name in given]) for given in raw], tuple(names)
    if not kinds <= {"i", "u"}:
        got = ", ".join(str(given.dtype) for given in raw)
        raise ValueError(f"{path}: labels must be integers from 0, or all strings, got {got}")
    labels = [torch.from_numpy(given.astype(np.int64)) for given in raw]
    present = set(labels[0].tolist())
    classes = max(present) + 1 if class_names is None else class_names.size
    # Labels may be ids in the billions: only the first few missing ones are collected.
    missing = islice((label for label in range(classes) if label not in present), 10)
    if odd := sorted({*missing, *(label for label in present if not 0 <= label < classes)})[:10]:
        raise ValueError(f"{path}: y_train must use every label in 0..{classes - 1} and no other; check {odd}")
    numbered = tuple(str(name) for name in (range(classes) if class_names is None else class_names.ravel()))
    if twice := [name for name, count in Counter(numbered).items() if count > 1]:
        raise ValueError(f"{path}: class_names must differ, got {', '.join(twice[:10])} more than once")
    return labels, numbered
