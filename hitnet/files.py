"""Atomic writing: a file or folder is either complete or not there at all."""

import csv
import io
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows, where nothing prevents two commands in one folder
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
LEFTOVERS = ".*.part"
LARGEST_RECORD = 50_000_000  # bytes of a JSON or CSV file of a run


def write_bytes(path: Path, content: bytes) -> None:
    """Write a temporary file, then rename it: a crash or a full disk leaves the previous file intact."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")  # short: the name itself may be as long as names may be
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        if path.parent.is_dir():
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritable(path, error) from error
        raise


@contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder to fill next to its final place, renamed when the block succeeds: it is complete or not there.

    With `replace`, a folder that is there makes room first.
    """
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


@contextmanager
def next_version(path: Path) -> Iterator[Path]:
    """A folder to fill that takes the place of the one at `path` when the block succeeds; until then that one stays."""
    former = path.with_name(f".{path.name}.former.part")
    shutil.rmtree(former, ignore_errors=True)
    with new_folder(_next(path), replace=True) as temporary:
        yield temporary
    path.rename(former)
    _next(path).rename(path)
    shutil.rmtree(former, ignore_errors=True)


def settle_version(path: Path) -> None:
    """Complete a `next_version` that was killed between its two renames."""
    if not path.exists() and _next(path).is_dir():
        _next(path).rename(path)


def _next(path: Path) -> Path:
    return path.with_name(f"{path.name}.next")


def _unwritable(path: Path, error: OSError) -> OSError:
    if str(error).startswith("cannot write"):
        return error
    return type(error)(f"cannot write {path} ({error.strerror or error}); make room, or choose another folder")


def is_leftover(path: Path) -> bool:
    """Whether a file or folder was left half-written by a killed process."""
    return path.match(LEFTOVERS)


def remove_leftovers(folder: Path) -> None:
    """Remove files that a killed process left half-written in a folder or below."""
    for leftover in list(folder.rglob(LEFTOVERS)):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, content: Any) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_bytes(path, text.encode(errors="backslashreplace"))  # file names that are not UTF-8 can be read back


def write_table(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """A CSV file that reads back the same, whatever the cells contain."""
    text = io.StringIO()
    plain = csv.writer(text, lineterminator="\n")
    quoted = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        # Before Python 3.13, a carriage return in a cell is left unquoted, and would end the line.
        (quoted if any("\r" in cell for cell in row) else plain).writerow(row)
    write_bytes(path, os.fsencode(text.getvalue()))


def read_record(path: Path) -> bytes:
    """The content of a small file; what would never end, such as a pipe, or fill the memory is refused."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a file; it must be one, or a link to one")
    if (size := path.stat().st_size) > LARGEST_RECORD:
        limit = f"{LARGEST_RECORD / 1e6:g} MB"
        raise ValueError(f"{path} has {size / 1e6:.0f} MB, expected at most {limit}; it is not a HitNet file")
    return path.read_bytes()


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file, or an error that names the file."""
    return parse_json(read_record(path), path)


def parse_json(text: str | bytes, source: Path) -> dict[str, Any]:
    """The JSON object in a text; errors name `source`, the file it came from."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{source} is not valid JSON ({error}); it is damaged or not a HitNet file") from None
    if not isinstance(content, dict):
        raise ValueError(f"{source} must hold a JSON object, got {type(content).__name__}; it is not a HitNet file")
    return content


@contextmanager
def only_command(folder: Path) -> Iterator[None]:
    """Lock the folder until the block, or the process, ends: two commands would train the same runs twice."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LOCK).touch()
    except OSError as error:
        raise type(error)(f"cannot write into {folder} ({error.strerror}); choose another --out") from None
    with open(folder / LOCK, "w") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RuntimeError(
                    f"another command is running in {folder}, expected none; wait for it, or choose another --out"
                ) from None
            except OSError:
                pass  # some cluster file systems do not support locks
        yield
