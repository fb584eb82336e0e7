"""What the command line shows: progress while training, tables afterwards."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from hitnet.experiments.cost import gpu_hours
from hitnet.experiments.reproduce import Listener
from hitnet.experiments.runner import Progress as TrialProgress
from hitnet.experiments.tables import Table as ResultTable
from hitnet.interpret.quality import Quality
from hitnet.runs.answer import Card, Prediction
from hitnet.runs.calibrate import Calibration
from hitnet.runs.run import Run
from hitnet.training.loop import Job
from hitnet.training.watchers import Row, Watcher

DAY = 24 * 60 * 60
FEW_STEPS = 200  # a network that saw fewer batches than this has hardly learned anything

console = Console(highlight=False, soft_wrap=True)


def say(text: str) -> None:
    console.print(text, markup=False)


class TrainingView(Watcher):
    """A bar with images/s and the time left on a terminal; elsewhere one plain line an epoch."""

    def __init__(self) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
            disable=not console.is_terminal,
        )
        self.task: TaskID | None = None
        self.run: Run | None = None
        self.epochs, self.images = 0, 0

    def __enter__(self) -> "TrainingView":
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def opened(self, folder: Path) -> None:
        self.run = Run(folder)

    def started(self, job: Job) -> None:
        assert self.run is not None
        settings, data, done, batches = job.settings, job.data, job.state.epoch, len(job.batches)
        channels, height, width = data.image_shape
        training = settings.train_images or len(data.train)
        held_out = f" ({settings.validation:.0%} of them for validation)" if settings.validation else ""
        say(
            f"{settings.model} on {data.name}: {training:,} training{held_out} and {len(data.test):,} test images, "
            f"{data.num_classes} classes, {width}×{height}, {'grey' if channels == 1 else 'colour'}"
        )
        for note in data.notes:
            say(f"note: {note}")
        self.epochs = settings.epochs
        total = self.epochs * batches
        if total < FEW_STEPS:
            say(f"note: {total} steps of training are few; try more --epochs or a smaller --batch-size")
        say(f"run folder: {self.run.path}" + (f", going on after epoch {done}" if done else ""))
        self.progress.start()
        self.task = self.progress.add_task("training", total=total, completed=done * batches, rate="")

    def stepped(self, images: int, loss: float) -> None:
        if self.task is None:
            return
        self.images += images
        elapsed = self.progress.tasks[self.task].elapsed
        self.progress.update(self.task, advance=1, rate=f"{self.images / elapsed:,.0f} images/s" if elapsed else "")

    def epoch_ended(self, row: Row) -> None:
        parts = [f"epoch {int(row['epoch']):>3}/{self.epochs}", f"train loss {row['train_loss']:.4f}"]
        parts += [
            f"{name} error {row[f'{name}_error']:.2f} %" for name in ("validation", "test") if f"{name}_error" in row
        ]
        say("  ".join(parts))


def show_result(run: Run) -> None:
    """The end of a training run, and what to do next."""
    result = run.read_result()
    test, kept = result["test"], result["kept_epoch"]
    table = _table(["", ""], "ll", f"{result['model']} on {result['data']}")
    table.show_header = False
    _add(table, "test error", f"{test['error']:.2f} %  ({test['mistakes']} of {test['images']:,} images)")
    best = f", the best was epoch {kept}" if kept != result["epochs"] else ""
    _add(table, "epochs", f"{result['epochs']} in {_duration(result['seconds'])}{best}")
    _add(table, "parameters", f"{result['parameters']:,}")
    if result["decoder"]:
        _add(table, "decoder", result["decoder"])
        quality = Quality.from_json(result["quality"])
        _add_quality(table, quality)
    _add(table, "run folder", str(run.path))
    pictures = sorted(run.plots_folder.glob("*.png"))
    _add(table, "pictures", f"{', '.join(path.name for path in pictures)} in its plots/")
    _show(table)
    if result["decoder"]:
        show_components(quality)
    folder = shlex.quote(str(run.path))
    say(f"next: hitnet predict {folder} PICTURE.png")
    if result["decoder"]:
        say(f"      hitnet explore {folder}")


def show_evaluation(content: dict[str, Any]) -> None:
    """Error of each class and of all."""
    for note in content["notes"]:
        say(f"note: {note}")
    title = f"{content['mistakes']} mistakes in {content['images']:,} images: {content['error']:.2f} % error"
    table = _table(["class", "images", "mistakes", "error, %", "mostly taken for"], "lrrrl", title)
    for row in content["per_class"]:
        error = "–" if row["error"] is None else f"{row['error']:.2f}"
        _add(table, row["class"], f"{row['images']:,}", str(row["mistakes"]), error, row["as"] or "–")
    _show(table)


def show_predictions(predictions: Sequence[Prediction], calibration: Calibration | None) -> None:
    """One line a file; with a calibration also whether the answer is accepted."""
    extra = ["accepted"] if calibration else []
    table = _table(["file", "class", "score", "verdict", *extra, "note"], "llrll" + "l" * len(extra))
    for each in predictions:
        accepted = ["–" if each.accepted is None else "yes" if each.accepted else "no" for _ in extra]
        if each.error is not None:
            _add(table, each.file, "–", "–", "–", *accepted, f"not read: {each.error}")
        else:
            answer = (each.class_name or "–", f"{each.score:.3f}", each.verdict or "–")
            _add(table, each.file, *answer, *accepted, each.note or "")
    _show(table)
    if calibration:
        say(f"accepted: images with {_promise(calibration)}")


def show_calibration(calibration: Calibration) -> None:
    """What the threshold makes of the images it was chosen on and of those that had no say."""
    for note in calibration.notes:
        say(f"note: {note}")
    table = _table(["", "validation", "test"], "lrr")
    parts = (calibration.validation, calibration.test)
    _add(table, "images", *(f"{part.images:,}" for part in parts))
    _add(table, "answered", *(f"{part.answered:,} ({100 * part.answered / part.images:.1f} %)" for part in parts))
    _add(table, "mistakes among the answers", *(f"{part.mistakes:,}" for part in parts))
    # Validation images chose the threshold, so they show no bound of their own: only what was wished.
    _add(
        table,
        f"upper bound of their share ({_percent(calibration.confidence)})",
        "",
        f"{100 * calibration.test_bound:.3f} %",
    )
    _show(table)
    say(f"answered: images with {_promise(calibration)}")


def _promise(calibration: Calibration) -> str:
    return (
        f"an outlier score up to {calibration.threshold:.4f}; at most {_percent(calibration.max_error)} of such "
        f"answers are wrong, with {_percent(calibration.confidence)} confidence "
        f"(chosen on {calibration.validation.images:,} validation images)"
    )


def _percent(share: float) -> str:
    """With all digits that it has: 99.99999 % are not 100 %."""
    return f"{100 * share:.15g} %"


def show_cards(cards: Sequence[Card]) -> None:
    for card in cards:
        say(f"{card.file}: not read: {card.error}" if card.error is not None else f"{card.file}: {card.words}")
        if card.path is not None:
            say(f"  {card.path}" + (f"  ({card.note})" if card.note else ""))


def show_quality(quality: Quality, title: str) -> None:
    """What the capsules explain, in all and component by component."""
    table = _table(["", ""], "lr", title)
    table.show_header = False
    _add_quality(table, quality)
    _add(table, "measured on test images", f"{quality.images:,}")
    _show(table)
    show_components(quality)


def _add_quality(table: Table, quality: Quality) -> None:
    _add(table, "variation within classes explained (R²)", f"{quality.r2:.3f}")
    _add(table, "prototypes recognised as their class", f"{100 * quality.prototypes_recognised:.0f} %")
    _add(table, "random samples recognised", f"{100 * quality.samples_recognised:.1f} %")


def show_components(quality: Quality) -> None:
    """Each component by itself, the others at the centre; the most telling first."""
    table = _table(["component", "R² alone", "more than the prototype", "changes a pixel by up to"], "lrrr")
    for component in quality.by_importance:
        name = f"c{component} (dead)" if component in quality.dead else f"c{component}"
        r2 = (f"{quality.component_r2[component]:.3f}", f"{quality.component_gain[component]:+.3f}")
        _add(table, name, *r2, f"{100 * quality.sweep_change[component]:.0f} %")
    _show(table)
    say(f"dead components: {', '.join(f'c{component}' for component in quality.dead) or 'none'}")


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, nothing elsewhere; call what it gives with the number of things done."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        console=console,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(description, total=total)
        yield lambda done: bar.advance(task, done)


class ExperimentsView(Listener):
    """One table over all runs on a terminal; elsewhere a line when a run begins or ends."""

    def __init__(self) -> None:
        self.live = Live(console=console, refresh_per_second=2, transient=True) if console.is_terminal else None
        self.statuses: dict[str, str] = {}

    def __enter__(self) -> "ExperimentsView":
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def planned(self, all_progress: list[TrialProgress], seconds: float) -> None:
        self.statuses = {each.trial.title: each.status for each in all_progress}
        done = sum(each.status == "done" for each in all_progress)
        if all_progress:
            words = f"{len(all_progress)} runs, {done} of them finished already"
            if done < len(all_progress):
                words += f"; the others take about {_duration(seconds)} on two cores of a server"
            if seconds > DAY:
                hours = gpu_hours([each.trial for each in all_progress if each.status != "done"])
                words += f", {hours:,.0f} hours of a GPU (docs/reproduce.md)"
            say(words)

    def timing(self) -> None:
        say("taking the time of training steps")

    def changed(self, all_progress: list[TrialProgress], seconds_left: float) -> None:
        if self.live is not None:
            self.live.start()  # once; later calls change nothing
            self.live.update(_progress_table(all_progress, seconds_left, console.height - 6))
            return
        done = sum(each.status in ("done", "failed") for each in all_progress)
        for each in all_progress:
            title = each.trial.title
            if each.status != self.statuses.get(title) and each.status != "waiting":
                tail = f"; {done} of {len(all_progress)} runs, about {_duration(seconds_left)} left"
                say(f"{title}: {_words(each)}{tail}")
            self.statuses[title] = each.status

    def writing(self) -> None:
        if self.live is not None:
            self.live.stop()
        say("writing tables and figures")

    def written(self, tables: Sequence[ResultTable], problems: Sequence[str], path: Path) -> None:
        for result in tables:
            table = _table(result.headings, "l" + "r" * (len(result.headings) - 1), result.title)
            for row in result.rows:
                _add(table, *row)
            _show(table)
        for problem in problems:
            say(problem)
        say(f"written to {path}")


def _progress_table(all_progress: Sequence[TrialProgress], seconds_left: float, most: int) -> Table:
    """What runs comes first, then what ended last, then what waits; what does not fit is counted."""
    counts = Counter(each.status for each in all_progress)
    title = ", ".join(
        f"{counts[status]} {status}" for status in ("done", "running", "waiting", "failed") if counts[status]
    )
    table = _table(["run", "epoch", "test error, %", "status"], "lrrl", f"{title}; {_duration(seconds_left)} left")
    for column in table.columns[1:]:
        column.no_wrap = True
    order = ("running", "failed", "done", "waiting")
    ranked = sorted(all_progress, key=lambda each: (order.index(each.status), -each.ended))
    shown = ranked if len(ranked) <= most else ranked[: most - 1]  # the last line counts the rest
    for each in shown:
        error = "–" if each.error is None else f"{each.error:.2f}"
        # A run is one line, whatever its name: so many fit.
        name = Text(each.trial.title, no_wrap=True, overflow="ellipsis")
        table.add_row(name, f"{each.epochs}/{each.trial.settings.epochs}", error, each.status)
    if len(ranked) > len(shown):
        _add(table, f"… and {len(ranked) - len(shown)} more", "", "", "")
    return table


def _words(each: TrialProgress) -> str:
    if each.status == "running":
        return f"going on after epoch {each.epochs}" if each.epochs else "begins"
    return f"done, test error {each.error:.2f} %" if each.status == "done" else f"failed, {each.problem}"


def show_runs(runs: Sequence[Run]) -> None:
    """One line a run; one that cannot be read does not hide the others."""
    table = _table(["run", "epochs", "test error, %", "status"], "lrrl")
    for run in runs:
        try:
            _add(table, str(run.path), *_outcome(run))
        except (ValueError, KeyError, TypeError, OSError):
            _add(table, str(run.path), "–", "–", "damaged")
    _show(table)


def _outcome(run: Run) -> tuple[str, str, str]:
    """(epochs, test error, status)."""
    if run.is_finished:
        result = run.read_result()
        return str(result["epochs"]), f"{result['test']['error']:.2f}", "finished"
    rows = run.read_metrics()
    return f"{len(rows)}/{run.read_settings().epochs}", f"{rows[-1]['test_error']:.2f}" if rows else "–", "unfinished"


def _duration(seconds: float) -> str:
    if seconds > 3 * DAY:
        return f"{seconds / DAY:,.0f} days"
    return f"{seconds:.0f} s" if seconds < 120 else str(timedelta(seconds=round(seconds)))


def _table(headings: Sequence[str], sides: str, title: str | None = None) -> Table:
    """An empty table; `sides` has l or r for each column."""
    table = Table(title=None if title is None else Text(title), title_justify="left")
    for heading, side in zip(headings, sides, strict=True):
        table.add_column(heading, justify="right" if side == "r" else "left", overflow="fold")
    return table


def _add(table: Table, *cells: str) -> None:
    # As Text: in a plain string rich would take a class called "[old] fox" for a style.
    table.add_row(*map(Text, cells))


def _show(table: Table) -> None:
    # In a file or a pipe there is no edge to fold at.
    (console if console.is_terminal else Console(width=1000)).print(table)
