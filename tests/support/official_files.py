"""Small files in the official formats, written for the tests."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
from scipy.io import savemat

CIFAR_NAMES = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(int(side).to_bytes(4, "big") for side in array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx(path: Path, array: np.ndarray) -> None:
    data = idx_bytes(array)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def digits(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noise with ink only in the middle 20×20, as MNIST has it, and labels 0..9 in turn."""
    images = np.zeros((count, 28, 28), np.uint8)
    images[:, 4:24, 4:24] = np.random.default_rng(seed).integers(1, 256, (count, 20, 20))
    return images, np.arange(count) % 10


def write_mnist(folder: Path, train: int = 40, test: int = 20, suffix: str = ".gz") -> dict[str, np.ndarray]:
    """The four files of MNIST or Fashion-MNIST."""
    folder.mkdir(parents=True, exist_ok=True)
    (x_train, y_train), (x_test, y_test) = digits(train, 0), digits(test, 1)
    arrays = {
        "train-images-idx3-ubyte": x_train,
        "train-labels-idx1-ubyte": y_train,
        "t10k-images-idx3-ubyte": x_test,
        "t10k-labels-idx1-ubyte": y_test,
    }
    for name, array in arrays.items():
        write_idx(folder / (name + suffix), array)
    return arrays


def cifar_records(count: int, seed: int) -> tuple[bytes, np.ndarray, np.ndarray]:
    images = np.random.default_rng(seed).integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    labels = (np.arange(count) % 10).astype(np.uint8)
    records = b"".join(bytes([label]) + image.tobytes() for image, label in zip(images, labels, strict=True))
    return records, images, labels


def write_cifar(folder: Path, archive: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Six files of 10 records, loose or as the official archive; returns the training images and the test images."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {name: cifar_records(10, seed) for seed, name in enumerate(CIFAR_NAMES)}
    if archive:
        with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as tar:
            for name, (data, _, _) in made.items():
                member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    else:
        for name, (data, _, _) in made.items():
            (folder / name).write_bytes(data)
    images = [pixels for _, pixels, _ in made.values()]
    return np.concatenate(images[:-1]), images[-1]


def write_svhn(folder: Path, count: int = 20) -> np.ndarray:
    """train_32x32.mat and test_32x32.mat with the same content; returns images (count, 3, 32, 32)."""
    folder.mkdir(parents=True, exist_ok=True)
    images = np.random.default_rng(0).integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    labels = (np.arange(count) % 10 + 1).astype(np.uint8)[:, None]
    for name in ("train_32x32.mat", "test_32x32.mat"):
        savemat(folder / name, {"X": images.transpose(2, 3, 1, 0), "y": labels}, do_compression=True)
    return images


def affnist_bytes(count: int, seed: int) -> tuple[bytes, np.ndarray, np.ndarray]:
    """One .mat with the official struct; returns it with images (count, 40, 40) and labels."""
    images = np.random.default_rng(seed).integers(0, 256, (count, 40, 40), dtype=np.uint8)
    labels = ((np.arange(count) + seed) % 10).astype(np.uint8)
    file = io.BytesIO()
    savemat(file, {"affNISTdata": {"image": images.reshape(count, 1600).T, "label_int": labels[None]}})
    return file.getvalue(), images, labels
