"""What all output of the command line is made of: lines, tables, bars, durations."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from hitnet.errors import printable

DAY = 24 * 60 * 60

console = Console(highlight=False, soft_wrap=True)


def say(text: str) -> None:
    console.print(printable(text), markup=False)


def new_table(headings: Sequence[str], sides: str, title: str | None = None) -> Table:
    """An empty table; `sides` has l (left) or r (right) for each column."""
    table = Table(title=None if title is None else Text(printable(title)), title_justify="left")
    for heading, side in zip(headings, sides, strict=True):
        table.add_column(heading, justify="right" if side == "r" else "left", overflow="fold")
    return table


def add_row(table: Table, *cells: str) -> None:
    # As Text: in a plain string, rich would read a class called "[old] fox" as markup.
    table.add_row(*(Text(printable(cell)) for cell in cells))


def show(table: Table) -> None:
    # In a file or a pipe there is no edge to wrap at.
    (console if console.is_terminal else Console(width=1000)).print(table)


@contextmanager
def progress(description: str, total: int | None) -> Iterator[Callable[..., None]]:
    """A bar on a terminal, nothing elsewhere; yields a function to call with the number of items done.

    Where the total is known later, it is that function's second argument.
    """
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        console=console,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(description, total=total)

        def advance(done: int, total: int | None = None) -> None:
            if total is not None:
                bar.update(task, total=total)
            bar.advance(task, done)

        yield advance


def duration(seconds: float) -> str:
    if seconds > 3 * DAY:
        return f"{seconds / DAY:,.0f} days"
    return f"{seconds:.0f} s" if seconds < 120 else str(timedelta(seconds=round(seconds)))
