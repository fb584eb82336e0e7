"""Files that are either wholly there or not at all."""

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LEFTOVERS = ".*.part"


def write_bytes(path: Path, content: bytes) -> None:
    """Write beside, then rename: a crash or a full disk leaves the former file as it was."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException as error:
        if path.parent.is_dir():
            beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritable(path, error) from error
        raise


@contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder to fill beside its place, to which it is renamed when the block ends well: it is whole or not there."""
    beside = path.with_name(f".{path.name}.part")
    shutil.rmtree(beside, ignore_errors=True)
    if replace and path.is_dir():
        # Renamed first: a kill while it is being removed leaves no half folder.
        path.rename(beside)
        shutil.rmtree(beside)
    try:
        beside.mkdir(parents=True)
        yield beside
        beside.rename(path)
    except BaseException as error:
        shutil.rmtree(beside, ignore_errors=True)
        if isinstance(error, OSError):
            raise _unwritable(path, error) from error
        raise


def _unwritable(path: Path, error: OSError) -> OSError:
    if str(error).startswith("cannot write"):
        return error
    return type(error)(f"cannot write {path} ({error.strerror or error}); make room, or choose another folder")


def is_leftover(path: Path) -> bool:
    """Whether a file or folder was left half-written by a killed process."""
    return path.match(LEFTOVERS)


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed process left half-written in a folder and below."""
    for leftover in folder.rglob(LEFTOVERS):
        leftover.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, content: Any) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_bytes(path, text.encode(errors="backslashreplace"))  # file names that are not UTF-8 come back as they were


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file, or an error that names the file."""
    return parse_json(path.read_bytes(), path)


def parse_json(text: str | bytes, source: Path) -> dict[str, Any]:
    """The object in a text; `source` is the file that is named where there is none."""
    try:
        content = json.loads(text)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{source} is not valid JSON ({error}); it is damaged or not a file of HitNet") from None
    if not isinstance(content, dict):
        raise ValueError(f"{source} must hold an object, got {type(content).__name__}; it is not a file of HitNet")
    return content
