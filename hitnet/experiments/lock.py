"""One command at a time in a folder of experiments: two would train the same runs and write over each other."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows; there it is left to the user
    fcntl = None  # type: ignore[assignment]


@contextmanager
def only_command(folder: Path) -> Iterator[None]:
    """Hold the folder until the block, or the process, ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".lock").touch()
    except OSError as error:
        raise type(error)(f"cannot write into {folder} ({error.strerror}); choose another --out") from None
    with open(folder / ".lock", "w") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RuntimeError(
                    f"another command is at work in {folder}, expected to be alone there; "
                    "wait for it, or choose another --out"
                ) from None
            except OSError:
                pass  # some file systems of clusters have no locks
        yield
