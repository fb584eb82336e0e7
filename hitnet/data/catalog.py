"""The entry point for data: a data set by name, from a folder or from a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from hitnet.data.affine import deform, place_at_random
from hitnet.data.dataset import Dataset, ImageSet, parse_size, resize_dataset
from hitnet.data.download import (
    OfficialFile,
    cache_folder,
    first_existing,
    given_folder,
    not_found,
    obtain,
)
from hitnet.data.folder import load_folder
from hitnet.data.formats import CIFAR_FILES, read_affnist, read_cifar, read_idx_split, read_svhn
from hitnet.data.npz import load_npz
from hitnet.data.reading import Loading
from hitnet.errors import did_you_mean
from hitnet.settings import Fit

DIGITS = tuple("0123456789")
CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

IDX_NAMES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
MNIST_MD5 = (
    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "d53e105ee54ea40749a09fcbcd1e9432",
    "9fb629c4189551a2d022fa330f9573f3",
    "ec29112dd5afa0611ce80d1b7f02629c",
)
FASHION_MD5 = (
    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "25c81989df183df01b3e8a0aad5dffbe",
    "bef4ecab320f06d8554ea6380940ec79",
    "bb300cfdad3c16e7a12a480ee83cd310",
)
MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
)
FASHION_MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
)
CIFAR_MIRRORS = (
    "https://www.cs.toronto.edu/~kriz/",
    "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
)
SVHN_MIRRORS = (
    "http://ufldl.stanford.edu/housenumbers/",
    "https://ufldl.stanford.edu/housenumbers/",
)
FILES = {
    "mnist": tuple(OfficialFile(*pair, MNIST_MIRRORS) for pair in zip(IDX_NAMES, MNIST_MD5, strict=True)),
    "fashion-mnist": tuple(OfficialFile(*pair, FASHION_MIRRORS) for pair in zip(IDX_NAMES, FASHION_MD5, strict=True)),
    "cifar10": (OfficialFile("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", CIFAR_MIRRORS),),
    "svhn": (
        OfficialFile("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", SVHN_MIRRORS),
        OfficialFile("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", SVHN_MIRRORS),
    ),
}
# Both sets use the same file names: the first test labels tell them apart.
FIRST_LABELS = {"mnist": [7, 2, 1, 0, 4, 1, 4, 9, 5, 9], "fashion-mnist": [9, 2, 1, 1, 6, 1, 4, 6, 5, 7]}
OFFICIAL_COUNTS = {
    "mnist": (60_000, 10_000),
    "fashion-mnist": (60_000, 10_000),
    "cifar10": (50_000, 10_000),
    "svhn": (73_257, 26_032),
    "affnist": (60_000, 320_000),
    "affnist-like": (60_000, 10_000),
}
AFFNIST_URL = "https://www.cs.toronto.edu/~tijmen/affNIST/32x/transformed/"
AFFNIST_NAMES = ("test_batches.zip", "test_batches", "test.mat", "test.mat.zip", "1.mat")
AFFNIST_SEED = 40  # not an option, so that everyone gets the same set


def load_mini(data_dir: str | Path | None) -> Dataset:
    """5,000 training and 1,000 test digits of MNIST, equally many of each, included in the package."""
    folder = Path(__file__).parent / "mnist_mini"
    train, test = _idx_splits([folder / name for name in IDX_NAMES])
    return Dataset("mnist-mini", train, test, DIGITS)


def load_mnist(data_dir: str | Path | None) -> Dataset:
    """Handwritten digits, 28×28 grey."""
    return _official("mnist", *_idx_official("mnist", data_dir), DIGITS)


def load_fashion(data_dir: str | Path | None) -> Dataset:
    """Items of clothing, 28×28 grey."""
    return _official("fashion-mnist", *_idx_official("fashion-mnist", data_dir), CLOTHES)


def load_cifar10(data_dir: str | Path | None) -> Dataset:
    """Animals and vehicles, 32×32 colour."""
    return _official("cifar10", *read_cifar(_find_cifar(data_dir)), THINGS)


def load_svhn(data_dir: str | Path | None) -> Dataset:
    """Digits of house numbers, 32×32 colour; the smaller training split, without `extra`."""
    train, test = obtain("svhn", FILES["svhn"], data_dir)
    return _official("svhn", read_svhn(train), read_svhn(test), DIGITS)


def load_affnist(data_dir: str | Path | None) -> Dataset:
    """Training: MNIST digits placed once at random on 40×40; test: the official affNIST."""
    test = read_affnist(_find_affnist(data_dir))
    return _official("affnist", _placed(load_mnist(data_dir).train), test, DIGITS)


def load_affnist_like(data_dir: str | Path | None) -> Dataset:
    """Training as in `affnist`; test: MNIST's test digits deformed by our own recipe (see `affine.deform`)."""
    mnist = load_mnist(data_dir)
    deformed = deform(mnist.test.pixels(), generator=torch.Generator().manual_seed(AFFNIST_SEED + 1))
    note = "the test set is affNIST-like: generated from MNIST's test images, not the official affNIST"
    return _official("affnist-like", _placed(mnist.train), ImageSet(deformed, mnist.test.labels), DIGITS, note)


CATALOG: dict[str, Callable[[str | Path | None], Dataset]] = {
    "mnist-mini": load_mini,
    "mnist": load_mnist,
    "fashion-mnist": load_fashion,
    "cifar10": load_cifar10,
    "svhn": load_svhn,
    "affnist": load_affnist,
    "affnist-like": load_affnist_like,
}


def load_dataset(
    source: str | Path = "mnist-mini",
    *,
    data_dir: str | Path | None = None,
    image_size: int | str | tuple[int, int] | None = None,
    test_fraction: float | None = 0.2,
    split_seed: int = 0,
    skip_bad: bool = False,
    fit: Fit = "stretch",
    cache: str | Path | None = None,
    loading: Loading | None = None,
) -> Dataset:
    """A data set by name (see `list_datasets`), from a folder of class folders, or from an `.npz`.

    data_dir: a folder with the official files of a named set; nothing is downloaded then. If it is not given, the
        environment variable HITNET_DATA is used; without either, files are downloaded once and verified.
    image_size: a side, (height, width) or "WIDTHxHEIGHT" to which images are brought. Without it, pictures of one
        size up to 128 pixels stay as they are; mixed or larger ones in a folder become squares of at most 64.
    fit: images of another shape are stretched, cropped to their middle, or padded with the pixels of their edge.
    test_fraction, split_seed: if the folder or file has no test split, this fraction of each class is held out, chosen
        with that seed; with None all images are in both splits.
    skip_bad: skip unreadable pictures of a folder instead of stopping; `notes` lists them.
    cache: where a folder of more than 256 MB of pixels is kept decoded; the user's cache folder if not given. Its
        images are read from there when they are indexed.
    loading: is told of the progress.

    A name takes precedence over a folder of that name: write "./mnist" or a Path for the folder.
    """
    size = parse_size(image_size)
    if isinstance(source, str) and source in CATALOG:
        return resize_dataset(CATALOG[source](data_dir), size, fit)
    path = Path(source).expanduser()
    if path.is_dir():
        return load_folder(
            path,
            image_size=size,
            test_fraction=test_fraction,
            split_seed=split_seed,
            skip_bad=skip_bad,
            fit=fit,
            cache=None if cache is None else Path(cache),
            loading=loading,
        )
    if path.is_file() and path.suffix.lower() == ".npz":
        return resize_dataset(load_npz(path, test_fraction=test_fraction, split_seed=split_seed), size, fit)
    if path.exists():
        raise ValueError(f"expected a folder of class folders or an .npz file, got {path}")
    raise ValueError(
        f"{str(source)!r} is neither a data set nor an existing path; {did_you_mean(str(source), CATALOG)}"
        f"known data sets: {', '.join(CATALOG)}"
    )


def list_datasets() -> list[str]:
    """The names `load_dataset` accepts; the first is included in the package."""
    return list(CATALOG)


def _official(name: str, train: ImageSet, test: ImageSet, classes: tuple[str, ...], *notes: str) -> Dataset:
    """A named data set, with a note if the numbers of images differ from the official ones."""
    expected, got = OFFICIAL_COUNTS[name], (len(train), len(test))
    if got != expected:
        counts = f"{got[0]:,} training and {got[1]:,} test images, officially {expected[0]:,} and {expected[1]:,}"
        notes = (*notes, f"{name} has {counts}")
    return Dataset(name, train, test, classes, notes)


def _idx_official(name: str, data_dir: str | Path | None) -> tuple[ImageSet, ImageSet]:
    paths = obtain(name, FILES[name], data_dir)
    train, test = _idx_splits(paths)
    for other, labels in FIRST_LABELS.items():
        if other != name and test.labels[: len(labels)].tolist() == labels:
            place = paths[2].parent
            raise ValueError(
                f"the files in {place} are {other}'s, not {name}'s; choose another data_dir or HITNET_DATA"
            )
    return train, test


def _idx_splits(paths: list[Path]) -> tuple[ImageSet, ImageSet]:
    return read_idx_split(*paths[:2]), read_idx_split(*paths[2:])


def _placed(digits: ImageSet) -> ImageSet:
    generator = torch.Generator().manual_seed(AFFNIST_SEED)
    return ImageSet(place_at_random(digits.pixels(), generator=generator), digits.labels)


def _find_cifar(data_dir: str | Path | None) -> Path:
    """The archive, or the folder of unpacked .bin files if a given folder has them."""
    if folder := given_folder(data_dir):
        bases = (folder / "cifar10", folder)
        for place in (*(base / "cifar-10-batches-bin" for base in bases), *bases):
            if all((place / name).is_file() for name in CIFAR_FILES):
                return place
        if (archive := first_existing(folder, "cifar10", ["cifar-10-binary.tar.gz"])) is None:
            raise not_found("cifar10", (*CIFAR_FILES, "or cifar-10-binary.tar.gz"), folder)
        return archive
    return obtain("cifar10", FILES["cifar10"], None)[0]


def _find_affnist(data_dir: str | Path | None) -> Path:
    """The test set in the given folder or the cache; never downloaded, since no checksum of it is published."""
    given = given_folder(data_dir)
    folder = given or cache_folder("affnist").parent
    if (path := first_existing(folder, "affnist", AFFNIST_NAMES)) is None:
        raise FileNotFoundError(
            f"affnist needs test_batches.zip (or its 1.mat … 32.mat, or test.mat); looked in {folder / 'affnist'} "
            f"and {folder}. No checksum of it is published, so it is not downloaded for you: fetch "
            f"{AFFNIST_URL}test_batches.zip by hand, or use affnist-like, a generated stand-in"
        )
    return path.parent if path.name == "1.mat" else path
