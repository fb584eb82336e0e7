"""One way in: a data set by name, by folder or by file."""

from __future__ import annotations

import difflib
from pathlib import Path

from hitnet.data.arrays import load_npz
from hitnet.data.catalog import CATALOG
from hitnet.data.dataset import Dataset, parse_size, resize_dataset
from hitnet.data.folder import load_folder


def load_dataset(
    source: str | Path = "mnist-mini",
    *,
    data_dir: str | Path | None = None,
    image_size: int | tuple[int, int] | None = None,
    test_fraction: float | None = 0.2,
    split_seed: int = 0,
    skip_bad: bool = False,
) -> Dataset:
    """A data set by name (see `list_datasets`), from a folder of class folders, or from an `.npz`.

    data_dir: a folder with the official files of a named set; the network is then not touched. Where it is not given,
        the environment variable HITNET_DATA is asked; without both, files are downloaded once and checked.
    image_size: a side or (height, width) to which images are stretched. Without it, pictures of one size up to 128
        pixels stay as they are; a folder's mixed or larger ones become squares of at most 64.
    test_fraction, split_seed: where folder or file have no test part, so much of each class is held out, by that seed;
        with None all images are in both parts.
    skip_bad: leave unreadable pictures of a folder out instead of stopping; `notes` says which.

    A name wins over a folder of that name: write "./mnist" or a Path for the folder.
    """
    size = parse_size(image_size)
    if isinstance(source, str) and source in CATALOG:
        return resize_dataset(CATALOG[source](data_dir), size)
    path = Path(source).expanduser()
    if path.is_dir():
        return load_folder(path, image_size=size, test_fraction=test_fraction, split_seed=split_seed, skip_bad=skip_bad)
    if path.is_file() and path.suffix.lower() == ".npz":
        return resize_dataset(load_npz(path, test_fraction=test_fraction, split_seed=split_seed), size)
    if path.exists():
        raise ValueError(f"expected a folder of class folders or an .npz file, got {path}")
    raise _unknown(str(source))


def _unknown(source: str) -> ValueError:
    near = difflib.get_close_matches(source.lower().replace("_", "-"), CATALOG, n=2)
    guess = f"did you mean {' or '.join(near)}? " if near else ""
    names = ", ".join(CATALOG)
    return ValueError(f"{source!r} is neither a data set nor a path that exists; {guess}The data sets are {names}")
