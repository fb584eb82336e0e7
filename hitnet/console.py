"""What the command line shows: progress during training, tables afterwards."""

import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from hitnet.audits.audit import Listener as AuditListener
from hitnet.data import Dataset
from hitnet.errors import printable
from hitnet.experiments.cost import gpu_hours
from hitnet.experiments.reproduce import Listener
from hitnet.experiments.runner import Progress as TrialProgress
from hitnet.experiments.tables import Table as ResultTable
from hitnet.interpret.quality import Quality
from hitnet.interpret.verdicts import VerdictCounts, in_percent
from hitnet.runs.answer import Card, Prediction
from hitnet.runs.audit_folder import AuditFolder
from hitnet.runs.calibrate import Calibrated, Rejection
from hitnet.runs.run import Run
from hitnet.settings import ModelConfig, read_model_config
from hitnet.training.loop import Job
from hitnet.training.watchers import Row, Watcher

DAY = 24 * 60 * 60
QUALITY = {
    "variation within classes explained (R²)": "r2",
    "share of prototypes recognised as their class": "prototypes_recognised",
    "share of random samples recognised": "samples_recognised",
    "share of prototypes that hit their class alone": "prototypes_hit",
    "share of sweeps that do": "sweeps_hit",
    "edge energy of prototypes (real images: 1)": "edge_energy",
}
WARM_UP, TIMED = 3, 10  # steps: the first ones take longer than the others
KIND_WORDS = {
    "wrong label": "far from the given class, hits one other alone",
    "ambiguous": "hits several classes, or narrowly misses the given one",
    "odd": "hits no class",
    "fine": "hits the given class alone",
}
SUSPECTS = 10  # pictures that are listed after an audit
FEW_STEPS = 200  # with fewer steps than this, a network hardly learns anything

LONG = 60  # seconds of training that are worth a word beforehand
SILENCE = 10  # seconds; longer ones are filled where there is no bar

console = Console(highlight=False, soft_wrap=True)


def say(text: str) -> None:
    console.print(printable(text), markup=False)


class TrainingView(Watcher):
    """On a terminal, a bar with images/s and the time left; elsewhere, one plain line per epoch."""

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
        self.epochs, self.images, self.finishing_begun = 0, 0, False
        self.silent_until = 0.0
        self.looking_task: TaskID | None = None

    def __enter__(self) -> "TrainingView":
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def announced(self, text: str) -> None:
        say(text)

    def decoded(self, done: int, total: int) -> None:
        if self.task is None:
            self.progress.start()
            self.task = self.progress.add_task("decoding", total=total, rate="")
            self.silent_until = time.monotonic() + SILENCE
        self.progress.update(self.task, completed=done)
        if not console.is_terminal and time.monotonic() > self.silent_until:
            say(f"decoded {done:,} of {total:,} pictures")
            self.silent_until = time.monotonic() + SILENCE
        if done == total:
            self.progress.update(self.task, visible=False)
            self.progress.stop()
            self.task = None

    def opened(self, folder: Path) -> None:
        self.run = Run(folder)

    def looking(self, done: int, pictures: int) -> None:
        if self.looking_task is None:
            before = f", {done:,} of them done before" if done else ""
            say(f"the frozen encoder looks at {pictures:,} pictures once{before}")
            self.progress.start()
            self.looking_task = self.progress.add_task("looking", total=pictures, rate="")
        self.progress.advance(self.looking_task, done)

    def started(self, job: Job) -> None:
        if self.looking_task is not None:
            self.progress.update(self.looking_task, visible=False)
        assert self.run is not None
        settings, data, done, batches = job.settings, job.data, job.state.epoch, job.batches
        channels, height, width = data.image_shape
        validation = job.held_out.get("validation")
        held_out = "" if validation is None else f", {len(validation):,} held out"
        say(
            f"{settings.model} on {data.name}: {len(batches.data):,} training{held_out} and {len(data.test):,} test "
            f"images, {data.num_classes} classes, {width}×{height}, {'grey' if channels == 1 else 'colour'}"
        )
        for note in data.notes:
            say(f"note: {note}")
        self.epochs = settings.epochs
        total = self.epochs * len(batches)
        if total < FEW_STEPS:
            say(f"note: only {total} training steps; try more --epochs or a smaller --batch-size")
        if job.memory is not None:
            each = " in each process" if job.team.size > 1 else ""
            say(f"memory: training takes about {job.memory.likely / 1e9:.2g} GB{each}")
        say(f"run folder: {self.run.path}" + (f", resuming after epoch {done}" if done else ""))
        if self.run.inputs_file.is_file():
            say(f"what the network sees: {self.run.inputs_file}")
        self.steps_per_epoch, self.first_steps = len(batches), FirstSteps()
        self.progress.start()
        self.task = self.progress.add_task("training", total=total, completed=done * len(batches), rate="")

    def stepped(self, images: int, loss: float) -> None:
        if self.task is None:
            return
        self.images += images
        epoch = (self.first_steps.taken() or 0) * self.steps_per_epoch
        if (whole := epoch * self.epochs) > LONG:
            each = f"{_duration(epoch)} per epoch, " if self.epochs > 1 else ""
            say(f"time: about {each}{_duration(whole)} in all")
        elapsed = self.progress.tasks[self.task].elapsed
        self.progress.update(self.task, advance=1, rate=f"{self.images / elapsed:,.0f} images/s" if elapsed else "")

    def epoch_ended(self, row: Row) -> None:
        parts = [f"epoch {int(row['epoch']):>3}/{self.epochs}", f"train loss {row['train_loss']:.4f}"]
        parts += [
            f"{name} error {row[f'{name}_error']:.2f} %" for name in ("validation", "test") if f"{name}_error" in row
        ]
        say("  ".join(parts))

    def finishing(self, done: int, steps: int) -> None:
        if not self.finishing_begun:
            self.finishing_begun = True
            say(f"finishing the drawings: {steps:,} steps of the decoder alone")
            self.task = self.progress.add_task("finishing", total=steps, rate="")
        assert self.task is not None
        self.progress.advance(self.task, done)

    def measuring(self) -> None:
        self.progress.stop()
        say("measuring the network and drawing what it learned")


class FirstSteps:
    """Measures how long a step takes, once, at the beginning of training."""

    def __init__(self) -> None:
        self.steps, self.began = 0, 0.0

    def taken(self) -> float | None:
        """To be called after every step: the seconds of one, when enough were made to say, else None."""
        self.steps += 1
        if self.steps == WARM_UP:
            self.began = time.perf_counter()
        return (time.perf_counter() - self.began) / TIMED if self.steps == WARM_UP + TIMED else None


def show_result(run: Run) -> None:
    """The result of a training run, and what to do next."""
    result = run.read_result()
    test, kept = result["test"], result["kept_epoch"]
    table = _table(["", ""], "ll", f"{result['model']} on {result['data']}")
    table.show_header = False
    _add(table, "test error", f"{test['error']:.2f} %  ({test['mistakes']} of {test['images']:,} images)")
    if _is_uneven(test):
        _add(table, "mean of the classes' errors", f"{test['balanced_error']:.2f} %")
    simple = result.get("baseline")
    if simple is not None:
        _add(table, simple["name"], f"{simple['error']:.2f} %")
    best = f"; kept the best, epoch {kept}" if kept != result["epochs"] else ""
    _add(table, "epochs", f"{result['epochs']} in {_duration(result['seconds'])}{best}")
    if finishing := result.get("finishing"):
        _add(table, "finishing", f"{finishing['steps']:,} steps in {_duration(finishing['seconds'])}")
    if "verdicts" in result:
        _add_verdicts(table, read_model_config(run.config_file), VerdictCounts(**result["verdicts"]))
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
    if simple is not None and simple["error"] < test["error"]:
        say(
            f"note: a {simple['name']} does better on these pictures; the network needs more of them, more --epochs, "
            "or --model resnet18-hom"
        )
    folder = shlex.quote(str(run.path))
    say(f"next: hitnet predict {folder} PICTURE.png")
    if result["decoder"]:
        say(f"      hitnet explore {folder}")


def show_evaluation(content: dict[str, Any]) -> None:
    """The error of each class and of all together."""
    for note in content["notes"]:
        say(f"note: {note}")
    if len(content.get("members", [])) > 1:
        for member in content["members"]:
            say(f"{member['run']} alone: {member['error']:.2f} % error")
    title = f"{content['mistakes']} mistakes in {content['images']:,} images: {content['error']:.2f} % error"
    if _is_uneven(content):
        title += f", mean of the classes' errors {content['balanced_error']:.2f} %"
    table = _table(["class", "images", "mistakes", "error, %", "most often mistaken for"], "lrrrl", title)
    for row in content["per_class"]:
        error = "–" if row["error"] is None else f"{row['error']:.2f}"
        _add(table, row["class"], f"{row['images']:,}", str(row["mistakes"]), error, row["as"] or "–")
    _show(table)


def _is_uneven(test: dict[str, Any]) -> bool:
    """Whether the error of all images may hide that of a small class; results of former versions do not say."""
    images = [row["images"] for row in test["per_class"] if row["images"]]
    return "balanced_error" in test and max(images) > 2 * min(images)


def show_predictions(
    predictions: Sequence[Prediction], rejection: Rejection | None, config: ModelConfig, has_hit_zone: bool
) -> None:
    """One line per file; with a rejection threshold, also whether the answer is accepted."""
    extra = ["accepted"] if rejection else []
    titles = ["file", "class", "verdict", "score", "usual", *extra, "note"]
    table = _table(titles, "lllrr" + "l" * len(extra) + "l")
    for each in predictions:
        accepted = ["–" if each.accepted is None else "yes" if each.accepted else "no" for _ in extra]
        if each.error is not None:
            _add(table, each.file, "–", "–", "–", "–", *accepted, f"not read: {each.error}")
        else:
            usual = "–" if each.radius is None else f"≤ {each.radius:.3f}"
            verdict = _verdict_in_words(each) if has_hit_zone else "–"
            _add(
                table,
                each.file,
                each.class_name or "–",
                verdict,
                f"{each.score:.3f}",
                usual,
                *accepted,
                each.note or "",
            )
    _show(table)
    if config.coverage is not None:
        share = in_percent(config.coverage)
        say(f"usual: how far from its centre a class lands for {share} of new images of the same kind, at most")
    if rejection:
        say(f"accepted: images with {_promise(rejection)}")


def _verdict_in_words(each: Prediction) -> str:
    """The verdict; for an ambiguous one also the other classes that it may be."""
    others = [name for name in each.candidates or () if name != each.class_name]
    if each.verdict == "ambiguous" and others:
        more = f" and {len(others) - 2} more" if len(others) > 2 else ""
        return f"ambiguous, or {', '.join(others[:2])}{more}"
    return each.verdict or "not calibrated"


def show_calibration(found: Calibrated) -> None:
    """What the verdicts say of the test images and, if asked for, the effect of the rejection threshold."""
    for note in found.notes:
        say(f"note: {note}")
    if found.verdicts is not None:
        table = _table(["", ""], "ll")
        table.show_header = False
        _add_verdicts(table, found.config, found.verdicts)
        _show(table)
    if found.rejection is not None:
        _show_rejection(found.rejection)


def _add_verdicts(table: Table, config: ModelConfig, found: VerdictCounts) -> None:
    wrong = f"{found.sure_mistakes} of them wrong"
    counts = f"{found.sure:,} sure ({wrong}), {found.ambiguous:,} ambiguous, {found.unknown:,} unknown"
    _add(table, "verdicts on test images", counts)
    assert config.radii is not None
    assert config.coverage is not None
    low, high = (f"{edge(config.radii):.3f}" for edge in (min, max))
    shared = low if low == high else f"{low} to {high}, by class"
    promise = f"for {in_percent(config.coverage)} of new images, by {config.calibrated_on:,} held-out ones"
    _add(table, "usual distance of the true class", f"up to {shared}, {promise}")
    share = f"{100 * found.covered / found.images:.1f} %"
    _add(table, "test images within it", f"{share}; {found.mean_candidates:.2f} classes are, on average")


def _show_rejection(rejection: Rejection) -> None:
    """The effect of the threshold on the validation images, which chose it, and on the test images."""
    table = _table(["", "validation", "test"], "lrr")
    parts = (rejection.validation, rejection.test)
    _add(table, "images", *(f"{part.images:,}" for part in parts))
    _add(table, "answered", *(f"{part.answered:,} ({100 * part.answered / part.images:.1f} %)" for part in parts))
    _add(table, "mistakes among the answers", *(f"{part.mistakes:,}" for part in parts))
    # No bound for the validation images: they chose the threshold, so they cannot also test it.
    _add(
        table,
        f"upper bound of their error rate ({_percent(rejection.confidence)})",
        "",
        f"{100 * rejection.test_bound:.3f} %",
    )
    _show(table)
    say(f"answered: images with {_promise(rejection)}")


def _promise(rejection: Rejection) -> str:
    return (
        f"an outlier score up to {rejection.threshold:.4f}; at most {_percent(rejection.max_error)} of such "
        f"answers are wrong, with {_percent(rejection.confidence)} confidence "
        f"(chosen on {rejection.validation.images:,} validation images)"
    )


def _percent(share: float) -> str:
    """With all its digits: 99.99999 % is not 100 %."""
    return f"{100 * share:.15g} %"


def show_cards(cards: Sequence[Card]) -> None:
    for card in cards:
        say(f"{card.file}: not read: {card.error}" if card.error is not None else f"{card.file}: {card.words}")
        if card.path is not None:
            say(f"  {card.path}" + (f"  ({card.note})" if card.note else ""))


def show_quality(quality: Quality, title: str) -> None:
    """How well capsules describe the images, in total and component by component."""
    table = _table(["", ""], "lr", title)
    table.show_header = False
    _add_quality(table, quality)
    _add(table, "measured on test images", f"{quality.images:,}")
    _show(table)
    show_components(quality)


def _add_quality(table: Table, quality: Quality) -> None:
    worse = "; below 0: the mean image of a class is nearer to its images than the drawings" if quality.r2 < 0 else ""
    _add(table, "variation within classes explained (R²)", f"{quality.r2:.3f}{worse}")
    _add(table, "drawings recognised as their class", _of_drawings(quality, "recognised"))
    if quality.prototypes_hit is not None:
        _add(table, "drawings within its hit zone, and no other's", _of_drawings(quality, "hit"))
    if quality.read_back is not None and quality.cross_talk is not None:
        means = (fmean(quality.read_back), fmean(quality.cross_talk))
        _add(table, "a moved component read again", "{:.2f} of the change, {:.2f} leaks into others".format(*means))
    if quality.edge_energy is not None:
        both = f"{quality.edge_energy:.2f} of a real image's, {quality.edge_energy_blurred:.2f} if both are blurred"
        _add(table, "edge energy of prototypes", both)


def _of_drawings(quality: Quality, what: str) -> str:
    """The shares of prototypes, sweeps and samples; runs made before have no shares of sweeps."""
    shares = {kind: getattr(quality, f"{kind}_{what}") for kind in ("prototypes", "sweeps", "samples")}
    return ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in shares.items() if share is not None)


def show_finished(before: dict[str, Any], after: dict[str, Any]) -> None:
    """The drawings of a run before its finishing phase and after it."""
    table = _table(["", "before", "after"], "lrr")
    _add(table, "decoder", str(before["decoder"] or "none"), after["decoder"])
    for name, key in QUALITY.items():
        values = ((result.get("quality") or {}).get(key) for result in (before, after))
        _add(table, name, *("–" if value is None else f"{value:.3f}" for value in values))
    _add(table, "test error, %", f"{before['test']['error']:.2f}", f"{after['test']['error']:.2f}")
    _show(table)
    finishing = after["finishing"]
    say(f"{finishing['steps']} steps in {_duration(finishing['seconds'])}")


def show_components(quality: Quality) -> None:
    """Each component on its own, the others at the centre; the most important first."""
    titles = ["component", "R² alone", "more than the prototype", "changes a pixel by up to", "read back", "cross-talk"]
    table = _table(titles, "lrrrrr")
    for component in quality.by_importance:
        name = f"c{component} (dead)" if component in quality.dead else f"c{component}"
        r2 = (f"{quality.component_r2[component]:.3f}", f"{quality.component_gain[component]:+.3f}")
        read = [
            "–" if values is None else f"{values[component]:.2f}" for values in (quality.read_back, quality.cross_talk)
        ]
        _add(table, name, *r2, f"{100 * quality.sweep_change[component]:.0f} %", *read)
    _show(table)
    say(f"dead components: {', '.join(f'c{component}' for component in quality.dead) or 'none'}")


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

    def planned(self, all_progress: list[TrialProgress], seconds: float) -> None:
        self.statuses = {each.trial.title: each.status for each in all_progress}
        done = sum(each.status == "done" for each in all_progress)
        if all_progress:
            words = f"{len(all_progress)} runs, {done} of them already finished"
            if done < len(all_progress):
                words += f"; the others take about {_duration(seconds)} on two cores of a server"
            if seconds > DAY:
                hours = gpu_hours([each.trial for each in all_progress if each.status != "done"])
                words += f", {hours:,.0f} hours of a GPU (docs/reproduce.md)"
            say(words)

    def timing(self) -> None:
        say("timing training steps")

    def changed(self, all_progress: list[TrialProgress], seconds_left: float | None) -> None:
        if self.live is not None:
            self.live.start()  # later calls have no effect
            self.live.update(_progress_table(all_progress, seconds_left, console.height - 6))
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
            table = _table(result.headings, "l" + "r" * (len(result.headings) - 1), result.title)
            for row in result.rows:
                _add(table, *row)
            _show(table)
        for problem in problems:
            say(problem)
        say(f"written to {path}")


class AuditView(AuditListener):
    """The progress of the networks of an audit; that of a quick one is shown like any training."""

    def __init__(self) -> None:
        self.watcher = self.training = TrainingView()
        self.experiments = ExperimentsView()

    def __enter__(self) -> "AuditView":
        return self

    def __exit__(self, *error: object) -> None:
        self.training.__exit__(*error)
        self.experiments.__exit__(*error)

    def opened(self, data: Dataset, images: int) -> None:
        say(f"auditing {data.name}: {images:,} images in {data.num_classes} classes")
        for note in data.notes:
            say(f"note: {note}")

    def changed(self, all_progress: list[TrialProgress], seconds_left: float | None) -> None:
        self.experiments.changed(all_progress, seconds_left)

    def looking(self) -> None:
        self.__exit__()
        say("looking for duplicates and writing the findings")


def show_audit(folder: AuditFolder) -> None:
    """How many pictures of each kind there are, and what to do next."""
    summary = folder.read_summary()
    kinds, copies = summary["kinds"], summary["duplicates"]
    title = f"{summary['images']:,} images of {summary['data']}, {summary['way']}, {_duration(summary['seconds'])}"
    table = _table(["kind", "images", ""], "lrl", title)
    for kind, meaning in KIND_WORDS.items():
        _add(table, kind, f"{kinds[kind]:,}", meaning)
    sorts = f"{copies['in_different_classes']} across classes, {copies['across_splits']} across splits"
    _add(table, "duplicates", f"{copies['images']:,}", f"in {copies['sets']} sets, {copies['exact']} exact; {sorts}")
    _show(table)
    worst = folder.read_issues()[:SUSPECTS]
    table = _table(["most suspicious", "given", "suggested", "quality", "kind"], "lllrl")
    for issue in worst:
        _add(table, issue.path, issue.given_label, issue.predicted_label, f"{issue.label_score:.4f}", issue.kind)
    _show(table)
    say(f"look:   {folder.page_file}")
    say(f"decide: hitnet explore {shlex.quote(str(folder.path))}")


def _progress_table(all_progress: Sequence[TrialProgress], seconds_left: float | None, most: int) -> Table:
    """Running trials first, then failed and done ones (the latest first), then waiting ones; the rest is counted."""
    counts = Counter(each.status for each in all_progress)
    title = ", ".join(
        f"{counts[status]} {status}" for status in ("done", "running", "waiting", "failed") if counts[status]
    )
    table = _table(["run", "epoch", "test error, %", "status"], "lrrl", f"{title}{_time_left('; ', seconds_left)}")
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
        _add(table, f"… and {len(ranked) - len(shown)} more", "", "", "")
    return table


def _time_left(before: str, seconds: float | None) -> str:
    return "" if seconds is None else f"{before}{_duration(seconds)} left"


def _words(each: TrialProgress) -> str:
    if each.status == "running":
        return f"resumes after epoch {each.epochs}" if each.epochs else "begins"
    return f"done, test error {each.error:.2f} %" if each.status == "done" else f"failed, {each.problem}"


def show_runs(runs: Sequence[Run]) -> None:
    """One line per run; one that cannot be read does not hide the others."""
    table = _table(["run", "epochs", "test error, %", "status"], "lrrl")
    for run in runs:
        try:
            _add(table, str(run.path), *_outcome(run))
        except (ValueError, LookupError, TypeError, OSError):
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
    """An empty table; `sides` has l (left) or r (right) for each column."""
    table = Table(title=None if title is None else Text(printable(title)), title_justify="left")
    for heading, side in zip(headings, sides, strict=True):
        table.add_column(heading, justify="right" if side == "r" else "left", overflow="fold")
    return table


def _add(table: Table, *cells: str) -> None:
    # As Text: in a plain string, rich would read a class called "[old] fox" as markup.
    table.add_row(*(Text(printable(cell)) for cell in cells))


def _show(table: Table) -> None:
    # In a file or a pipe there is no edge to wrap at.
    (console if console.is_terminal else Console(width=1000)).print(table)
