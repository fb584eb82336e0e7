"""What the command line shows: progress while training, tables afterwards."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from hitnet.data import Dataset
from hitnet.interpret.predict import Prediction
from hitnet.model import Model
from hitnet.training.loop import Watcher
from hitnet.training.run import Row, Run

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
            console=console,
            disable=not console.is_terminal,
        )
        self.task: TaskID | None = None
        self.epochs, self.images = 0, 0

    def __enter__(self) -> "TrainingView":
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def started(self, run: Run, data: Dataset, model: Model, epochs_done: int, batches: int) -> None:
        channels, height, width = data.image_shape
        say(
            f"{model.config.name} on {data.name}: {len(data.train):,} training and {len(data.test):,} test images, "
            f"{data.num_classes} classes, {width}×{height}, {'grey' if channels == 1 else f'{channels} channels'}"
        )
        for note in data.notes:
            say(f"note: {note}")
        say(f"run folder: {run.path}" + (f", going on after epoch {epochs_done}" if epochs_done else ""))
        self.epochs = run.config.epochs
        self.progress.start()
        total = self.epochs * batches
        self.task = self.progress.add_task("training", total=total, completed=epochs_done * batches, rate="")

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
    result = run.result
    test = result["test"]
    table = Table(title=f"{result['model']} on {result['data']}", title_justify="left", show_header=False)
    table.add_row("test error", f"{test['error']:.2f} %  ({test['mistakes']} of {test['images']:,} images)")
    table.add_row("epochs", f"{result['epochs']} in {result['seconds']:.0f} s")
    table.add_row("parameters", f"{result['parameters']:,}")
    if result["decoder"]:
        table.add_row("decoder", result["decoder"])
    table.add_row("run folder", str(run.path))
    console.print(table)


def show_evaluation(content: dict[str, Any]) -> None:
    """Error of each class and of all."""
    table = Table(
        title=f"{content['mistakes']} mistakes in {content['images']:,} images: {content['error']:.2f} % error"
    )
    for heading in ("class", "images", "mistakes", "error, %", "mostly taken for"):
        table.add_column(heading, justify="left" if heading in ("class", "mostly taken for") else "right")
    for row in content["per_class"]:
        error = "–" if row["error"] is None else f"{row['error']:.2f}"
        table.add_row(row["class"], f"{row['images']:,}", str(row["mistakes"]), error, row["as"] or "–")
    console.print(table)


def show_predictions(predictions: Sequence[Prediction]) -> None:
    table = _table(["file", "class", "score", "verdict", "note"], "llrll")
    for found in predictions:
        if found.error is not None:
            table.add_row(found.file, "–", "–", "–", f"not read: {found.error}")
        else:
            table.add_row(found.file, found.class_name, f"{found.score:.3f}", found.verdict or "–", found.note or "")
    console.print(table)


def show_runs(runs: Sequence[Run]) -> None:
    table = Table()
    for heading in ("run", "data", "model", "epochs", "test error, %", "state"):
        table.add_column(
            heading, justify="right" if heading in ("epochs", "test error, %") else "left", overflow="fold"
        )
    for run in runs:
        config = run.config
        if run.is_finished:
            result = run.result
            row = [result["data"], result["model"], str(result["epochs"]), f"{result['test']['error']:.2f}", "finished"]
        else:
            done = len(run.metrics) if (run.path / "metrics.csv").is_file() else 0
            row = [config.data, config.model, f"{done}/{config.epochs}", "–", "unfinished"]
        table.add_row(str(run.path), *row)
    console.print(table)


def _table(headings: Sequence[str], sides: str, title: str | None = None) -> Table:
    """An empty table; `sides` has l or r for each column."""
    table = Table(title=title, title_justify="left")
    for heading, side in zip(headings, sides, strict=True):
        table.add_column(heading, justify="right" if side == "r" else "left", overflow="fold")
    return table
