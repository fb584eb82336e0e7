"""Where the official files are: in a folder the user gives, or in the cache, downloaded once and verified."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class OfficialFile:
    """A published file: its name, its MD5 checksum and the mirrors that offer it, tried in turn."""

    name: str
    md5: str
    mirrors: tuple[str, ...]


def given_folder(data_dir: str | Path | None) -> Path | None:
    """The folder of existing files: `data_dir`, else the variable HITNET_DATA, else None."""
    chosen = data_dir or os.environ.get("HITNET_DATA")
    if not chosen:
        return None
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"the data folder {folder} does not exist; check data_dir or HITNET_DATA")
    return folder


def cache_folder(dataset: str) -> Path:
    """Where downloads of a data set are kept."""
    import pooch

    return Path(pooch.os_cache("hitnet")) / dataset


def obtain(dataset: str, files: Sequence[OfficialFile], data_dir: str | Path | None) -> list[Path]:
    """The paths of official files, in order; they are downloaded only if no folder is given."""
    if (folder := given_folder(data_dir)) is None:
        return [_download(file, cache_folder(dataset)) for file in files]
    names = [file.name for file in files]
    paths = [first_existing(folder, dataset, _spellings(name)) for name in names]
    if None in paths:
        raise not_found(dataset, names, folder)
    return [path for path in paths if path is not None]


def first_existing(folder: Path, dataset: str, names: Sequence[str]) -> Path | None:
    """The first of `names` that exists in folder/dataset/ or in the folder itself."""
    places = [place / name for place in (folder / dataset, folder) for name in names]
    return next((path for path in places if path.exists()), None)


def not_found(dataset: str, names: Sequence[str], folder: Path) -> FileNotFoundError:
    """The error for files missing from a folder the user gave."""
    return FileNotFoundError(
        f"{dataset} needs {', '.join(names)}; looked in {folder / dataset} and {folder}. "
        "Put the files there, or unset data_dir and HITNET_DATA to have them downloaded"
    )


def _spellings(name: str) -> list[str]:
    return [name, name.removesuffix(".gz")] if name.endswith("-ubyte.gz") else [name]


def _download(file: OfficialFile, folder: Path) -> Path:
    """The file in the cache, downloaded from the first mirror that offers it with the right checksum."""
    import pooch

    failures = []
    for mirror in file.mirrors:
        try:
            # A cached file with the right checksum is not downloaded again.
            return Path(
                pooch.retrieve(mirror + file.name, f"md5:{file.md5}", file.name, folder, downloader=_fetch_with_bar)
            )
        except (OSError, ValueError) as error:
            failures.append(f"  {mirror}{file.name}: {error}")
    raise FileNotFoundError(
        f"{file.name} could not be downloaded (expected md5 {file.md5}):\n"
        + "\n".join(failures)
        + "\nDownload it by hand into a folder and give that folder as data_dir or HITNET_DATA"
    )


def _fetch_with_bar(url: str, target: Any, caller: Any) -> None:
    """A downloader for pooch, with a progress bar if stderr is a terminal."""
    import pooch
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn(url.rsplit("/", 1)[1]), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        pooch.HTTPDownloader(progressbar=_Bar(progress), chunk_size=1 << 16)(url, target, caller)


class _Bar:
    """The interface that pooch expects of a progress bar, implemented with rich."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, visible=False)

    @property
    def total(self) -> float | None:
        total: float | None = self._progress.tasks[0].total
        return total

    @total.setter
    def total(self, value: int) -> None:
        self._progress.update(self._task, total=value, visible=True)

    def update(self, step: int) -> None:
        self._progress.update(self._task, advance=step)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        self._progress.stop()
