"""Files that are either wholly there or not at all."""

import json
import os
import secrets
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Settings = TypeVar("Settings")

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
            reason = error.strerror or error
            raise type(error)(f"cannot write {path} ({reason}); make room, or choose another folder") from error
        raise


def home_of(source: Path) -> Path:
    """Where what is made of a run or a model goes, be it a folder or one file."""
    return source if source.is_dir() else source.parent


def sweep(folder: Path) -> None:
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


def read_settings(path: Path, kind: type[Settings]) -> Settings:
    """A dataclass from the JSON that `write_json` made of it; a field of another name or type is an error."""
    return revive_settings(read_json(path), kind, path)


def revive_settings(content: dict[str, Any], kind: type[Settings], source: Path) -> Settings:
    """A dataclass from its JSON object; `source` is the file that is named where it is wrong."""
    hints = get_type_hints(kind)
    if unknown := sorted(content.keys() - hints.keys()):
        raise ValueError(
            f"{source} has no valid {kind.__name__}: there is no {', '.join(unknown)}; "
            f"the fields are {', '.join(hints)}"
        )
    values = {name: _revive(value, hints[name]) for name, value in content.items()}
    try:
        check_types(values, hints)
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{source} has no valid {kind.__name__}: {error}") from None


def check_types(values: dict[str, Any], hints: dict[str, Any]) -> None:
    """Refuse a value that is not what its field's type hint says."""
    for name, value in values.items():
        if not _fits(value, hints[name]):
            expected = hints[name].__name__ if isinstance(hints[name], type) else hints[name]
            raise ValueError(f"{name} must be {str(expected).replace('typing.', '')}, got {value!r}")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of such a type; numpy's numbers are as good as Python's."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, parts[0]) for item in value)
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, {int: Integral, float: Real}.get(hint, hint))


def _revive(value: Any, hint: Any) -> Any:
    """What JSON does not know: tuples and paths."""
    if isinstance(value, list):
        return tuple(value)
    return Path(value) if isinstance(value, str) and Path in (hint, *get_args(hint)) else value
