"""Errors that name the remedy: the closest known name, or the package to install. Imports no torch."""

import difflib
import re
from collections.abc import Iterable, Sequence
from importlib.util import find_spec

# Control characters but for line breaks and tabs, halves of characters, and marks that turn the direction of reading.
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """A text that cannot command the terminal: names of files and classes may hold anything."""
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)  # as JSON escapes them


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first few names."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that suggests the closest known name, with a trailing space; empty if none is close."""
    spelled_alike = {_plain(each): each for each in known}
    near = difflib.get_close_matches(_plain(name), spelled_alike, n=1, cutoff=0.5)
    return f"did you mean {spelled_alike[near[0]]!r}? " if near else ""


def check_known(name: str, known: Iterable[str], what: str) -> str:
    """The name itself if it is known, otherwise an error that suggests the closest one."""
    known = list(known)
    if name in known:
        return name
    raise ValueError(f"there is no {what} {name!r}; {did_you_mean(name, known)}known: {', '.join(known)}")


class MissingPackage(ImportError, RuntimeError):
    """A package of one of hitnet's extras is not installed."""


def require(what: str, packages: Iterable[str], extra: str) -> None:
    """Raise `MissingPackage` if any of `packages` is not installed; `extra` is hitnet's extra that installs them."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise MissingPackage(f"{what} needs {', '.join(missing)}; install: pip install 'hitnet[{extra}]'")


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")
