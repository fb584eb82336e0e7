"""The progress of one training run."""

import time
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from hitnet.console.printing import console, duration, say
from hitnet.runs.run import Run
from hitnet.training.devices import faster_in_bfloat16
from hitnet.training.loop import Job
from hitnet.training.watchers import Row, Watcher

WARM_UP, TIMED = 3, 10  # steps: the first ones take longer than the others
TOO_FEW_STEPS = 200  # with fewer steps than this, a network hardly learns anything
LONG = 60  # seconds of training that are worth a word beforehand
SILENCE = 10  # seconds; longer ones are filled where there is no bar


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
        self.job, self.epochs = job, settings.epochs
        total = self.epochs * len(batches)
        if total < TOO_FEW_STEPS:
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
            each = f"{duration(epoch)} per epoch, " if self.epochs > 1 else ""
            say(f"time: about {each}{duration(whole)} in all")
            job = self.job
            fresh = job.settings.precision == "auto" and not job.state.epoch
            if fresh and faster_in_bfloat16(job.state.model, job.device, job.precision):
                say("note: this processor is made for bfloat16: --precision bfloat16 is faster")
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
