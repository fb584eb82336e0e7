"""The progress of many training runs, and the tables made from them."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.live import Live
from rich.table import Table
from rich.text import Text

from hitnet.console.printing import DAY, add_row, console, duration, new_table, say, show
from hitnet.errors import printable
from hitnet.experiments.cost import gpu_hours
from hitnet.experiments.reproduce import Listener
from hitnet.experiments.runner import Progress
from hitnet.experiments.tables import Table as ResultTable


class ExperimentsView(Listener):
    """On a terminal, one live table of all runs; elsewhere, a line when a run begins or ends."""

    def __init__(self) -> None:
        self.live = Live(console=console, refresh_per_second=2, transient=True) if console.is_terminal else None
        self.statuses: dict[str, str] = {}

    def __enter__(self) -> "ExperimentsView":
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def planned(self, all_progress: list[Progress], seconds: float) -> None:
        self.statuses = {each.trial.title: each.status for each in all_progress}
        done = sum(each.status == "done" for each in all_progress)
        if all_progress:
            words = f"{len(all_progress)} runs, {done} of them already finished"
            if done < len(all_progress):
                words += f"; the others take about {duration(seconds)} on two cores of a server"
            if seconds > DAY:
                hours = gpu_hours([each.trial for each in all_progress if each.status != "done"])
                words += f", {hours:,.0f} hours of a GPU (docs/reproduce.md)"
            say(words)

    def timing(self) -> None:
        say("timing training steps")

    def changed(self, all_progress: list[Progress], seconds_left: float | None) -> None:
        if self.live is not None:
            self.live.start()  # later calls have no effect
            self.live.update(progress_table(all_progress, seconds_left, console.height - 6))
            return
        done = sum(each.status in ("done", "failed") for each in all_progress)
        for each in all_progress:
            title = each.trial.title
            if each.status != self.statuses.get(title) and each.status != "waiting":
                tail = f"; {done} of {len(all_progress)} runs{_time_left(', about ', seconds_left)}"
                say(f"{title}: {_words(each)}{tail}")
            self.statuses[title] = each.status

    def writing(self) -> None:
        if self.live is not None:
            self.live.stop()
        say("writing tables and figures")

    def written(self, tables: Sequence[ResultTable], problems: Sequence[str], path: Path) -> None:
        for result in tables:
            table = new_table(result.headings, "l" + "r" * (len(result.headings) - 1), result.title)
            for row in result.rows:
                add_row(table, *row)
            show(table)
        for problem in problems:
            say(problem)
        say(f"written to {path}")


def progress_table(all_progress: Sequence[Progress], seconds_left: float | None, most: int) -> Table:
    """Running trials first, then failed and done ones (the latest first), then waiting ones; the rest is counted."""
    counts = Counter(each.status for each in all_progress)
    title = ", ".join(
        f"{counts[status]} {status}" for status in ("done", "running", "waiting", "failed") if counts[status]
    )
    table = new_table(["run", "epoch", "test error, %", "status"], "lrrl", f"{title}{_time_left('; ', seconds_left)}")
    for column in table.columns[1:]:
        column.no_wrap = True
    order = ("running", "failed", "done", "waiting")
    ranked = sorted(all_progress, key=lambda each: (order.index(each.status), -each.ended))
    shown = ranked if len(ranked) <= most else ranked[: most - 1]  # the last line counts the rest
    for each in shown:
        error = "–" if each.error is None else f"{each.error:.2f}"
        # One line per run, even if its name is long: the number of rows was chosen to fit.
        name = Text(printable(each.trial.title), no_wrap=True, overflow="ellipsis")
        table.add_row(name, f"{each.epochs}/{each.trial.settings.epochs}", error, each.status)
    if len(ranked) > len(shown):
        add_row(table, f"… and {len(ranked) - len(shown)} more", "", "", "")
    return table


def _time_left(before: str, seconds: float | None) -> str:
    return "" if seconds is None else f"{before}{duration(seconds)} left"


def _words(each: Progress) -> str:
    if each.status == "running":
        return f"resumes after epoch {each.epochs}" if each.epochs else "begins"
    return f"done, test error {each.error:.2f} %" if each.status == "done" else f"failed, {each.problem}"
