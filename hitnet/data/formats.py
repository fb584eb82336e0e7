"""The official file formats: IDX (MNIST), CIFAR's binary records, the .mat files of SVHN and affNIST.

Every reader checks what it reads, and none runs code from a file (no pickle).
"""

from __future__ import annotations

import gzip
import io
import math
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hitnet.data.affine import FRAME
from hitnet.data.announced import LARGEST_RATIO, check_announced
from hitnet.data.dataset import ImageSet
from hitnet.data.matlab import read_mat

CIFAR_SHAPE = (3, 32, 32)
CIFAR_FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
REPLACE = "replace it with the official file"


def read_idx_split(images: Path, labels: Path) -> ImageSet:
    """An IDX pair of images and labels, gzipped or not -> ImageSet of one channel."""
    pixels, classes = read_idx(images, dims=3), read_idx(labels, dims=1)
    if len(pixels) != len(classes):
        raise ValueError(f"{images.name} has {len(pixels)} images, {labels.name} {len(classes)} labels; {REPLACE}")
    return ImageSet(pixels[:, None], classes.long())


def read_idx(path: Path, dims: int) -> Tensor:
    """One IDX file of bytes -> uint8 tensor of `dims` dimensions."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            magic = bytes([0, 0, 8, dims])
            if (start := file.read(4)) != magic:
                raise ValueError(f"{path} must start with the IDX magic {magic.hex()}, got {start.hex()}; {REPLACE}")
            if len(sides := file.read(4 * dims)) < 4 * dims:
                raise ValueError(f"{path} declares its shape in {4 * dims} bytes, got {len(sides)}; {REPLACE}")
            shape = [int.from_bytes(sides[at : at + 4], "big") for at in range(0, 4 * dims, 4)]
            size = math.prod(shape)
            if size > LARGEST_RATIO * path.stat().st_size:
                raise ValueError(f"{path} declares {shape} = {size} bytes, more than it can hold; {REPLACE}")
            check_announced(path, size)
            data = file.read(size + 1)  # one more shows a file that is too long
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is not a complete gzip file ({error}); {REPLACE}") from error
    if len(data) != size:
        got = f"{len(data)}" if len(data) < size else "more"
        raise ValueError(f"{path} declares {shape} = {size} bytes, got {got}; {REPLACE}")
    return torch.from_numpy(np.frombuffer(data, np.uint8).reshape(shape).copy())


def read_cifar(source: Path) -> tuple[ImageSet, ImageSet]:
    """CIFAR-10's six .bin files, in a folder or still in `cifar-10-binary.tar.gz` -> training and test ImageSet."""
    if source.is_dir():
        files = {name: (source / name).read_bytes() for name in CIFAR_FILES}
    else:
        files = _read_archive(source, CIFAR_FILES)
    batches = [_read_cifar_records(name, files[name]) for name in CIFAR_FILES]
    images, labels = zip(*batches, strict=True)
    return ImageSet(torch.cat(images[:-1]), torch.cat(labels[:-1])), ImageSet(images[-1], labels[-1])


def _read_archive(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """The named files of a .tar.gz, read in one pass and never unpacked to disk."""
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = Path(member.name).name
                if name in names and (content := archive.extractfile(member)):
                    check_announced(f"{path}/{name}", member.size)
                    contents[name] = content.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is not a complete .tar.gz file ({error}); {REPLACE}") from error
    if missing := sorted(set(names) - set(contents)):
        raise ValueError(f"{path} must hold {', '.join(names)}; {', '.join(missing)} missing; {REPLACE}")
    return contents


def _read_cifar_records(name: str, data: bytes) -> tuple[Tensor, Tensor]:
    """Records of one label byte and three colour planes -> (count, 3, 32, 32), (count,)."""
    record = 1 + math.prod(CIFAR_SHAPE)
    if not data or len(data) % record:
        raise ValueError(f"{name} must hold records of {record} bytes, got {len(data)} bytes; {REPLACE}")
    records = torch.from_numpy(np.frombuffer(data, np.uint8).reshape(-1, record).copy())
    return records[:, 1:].reshape(-1, *CIFAR_SHAPE), records[:, 0].long()


def read_svhn(path: Path) -> ImageSet:
    """SVHN's cropped digits, `X` (32, 32, 3, count) and `y` (count, 1) in 1..10 -> ImageSet; label 10 is digit 0."""
    content = _load_mat(path, path.name, needs=("X", "y"))
    pixels, labels = np.asarray(content["X"]), np.asarray(content["y"]).ravel()
    if pixels.dtype != np.uint8 or pixels.shape != (32, 32, 3, len(labels)):
        got = f"{pixels.dtype} {pixels.shape} and {len(labels)} labels"
        raise ValueError(f"{path} must hold X, uint8 (32, 32, 3, count), and as many labels y; got {got}; {REPLACE}")
    if not np.isin(labels, np.arange(1, 11)).all():
        raise ValueError(f"{path} must hold labels 1..10, got {labels.min()}..{labels.max()}; {REPLACE}")
    images = np.ascontiguousarray(pixels.transpose(3, 2, 0, 1))
    return ImageSet(torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64) % 10))


def read_affnist(path: Path) -> ImageSet:
    """affNIST's test set as one .mat, a folder of them, or either still zipped -> ImageSet (count, 1, 40, 40)."""
    parts = [_read_affnist_struct(source, name) for name, source in _mat_files(path)]
    if not parts:
        raise ValueError(f"{path} must hold .mat files of affNIST, got none; {REPLACE}")
    return ImageSet(torch.cat([part.pixels() for part in parts]), torch.cat([part.labels for part in parts]))


def _mat_files(path: Path) -> Iterator[tuple[str, Path | io.BytesIO]]:
    """The .mat files at `path`, batches in the order of their numbers: yields (name, what to read)."""
    if path.is_dir():
        for file in sorted(path.glob("*.mat"), key=lambda file: (len(file.name), file.name)):
            yield str(file), file
    elif path.suffix == ".zip":
        try:
            with zipfile.ZipFile(path) as archive:
                names = [name for name in archive.namelist() if name.endswith(".mat") and "__MACOSX" not in name]
                for name in sorted(names, key=lambda name: (len(name), name)):
                    check_announced(f"{path}/{name}", archive.getinfo(name).file_size)
                    yield f"{path}/{name}", io.BytesIO(archive.read(name))
        except (zipfile.BadZipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path} is not a complete .zip file ({error}); {REPLACE}") from error
    else:
        yield str(path), path


def _read_affnist_struct(source: Path | io.BytesIO, name: str) -> ImageSet:
    struct = _load_mat(source, name, needs=("affNISTdata",))["affNISTdata"]
    if not isinstance(struct, dict) or not {"image", "label_int"} <= set(struct):
        raise ValueError(f"{name} must hold the struct affNISTdata with image and label_int; {REPLACE}")
    pixels, labels = struct["image"], struct["label_int"].ravel()
    if pixels.dtype != np.uint8 or pixels.shape != (FRAME * FRAME, len(labels)):
        got = f"{pixels.dtype} {pixels.shape} and {len(labels)} labels"
        raise ValueError(f"{name} must hold images, uint8 ({FRAME * FRAME}, count), and as many labels; got {got}")
    images = np.ascontiguousarray(pixels.T).reshape(-1, 1, FRAME, FRAME)
    return ImageSet(torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64)))


def _load_mat(source: Path | io.BytesIO, name: str, needs: Sequence[str]) -> dict[str, Any]:
    with source.open("rb") if isinstance(source, Path) else nullcontext(source) as file:
        try:
            content = read_mat(file, name)
        except ValueError as error:
            raise ValueError(f"{error}; {REPLACE}") from None
    if missing := [variable for variable in needs if variable not in content]:
        raise ValueError(f"{name} must hold {' and '.join(needs)}, {' and '.join(missing)} missing; {REPLACE}")
    return content
