"""Many runs on one machine: one process per run, the cores split among the runs at work."""

import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Literal

import torch

from hitnet.experiments.protocol import Trial
from hitnet.files import write_json
from hitnet.runs import train
from hitnet.runs.run import Run
from hitnet.settings import RunSettings
from hitnet.training.watchers import Row, Watcher

Status = Literal["waiting", "running", "done", "failed"]
LONGEST_REPORT = 10_000  # letters: a pipe holds no more than some 65,000 bytes until it is read, after the end
ATTEMPTS = 3  # for a run whose process was killed, usually by the system for lack of memory
# Where a run is computed, where it is stored and whether pictures lie beside it is not part of the protocol: at most it
# changes how sums are rounded.
ELSEWHERE = ("out", "data_dir", "cache", "device", "threads", "no_exemplars")


@dataclass
class Progress:
    """The progress of one trial."""

    trial: Trial
    status: Status = "waiting"
    rows: list[Row] = field(default_factory=list)
    """The measurements of its epochs so far."""
    began: int = 0
    """How many epochs were done when this command started."""
    attempts: int = 0
    problem: str | None = None
    """Why it failed."""
    ended: float = 0.0
    """When it was done or failed, on the monotonic clock; 0 before that, or if it was done before this command."""

    @property
    def epochs(self) -> int:
        return len(self.rows)

    @property
    def error(self) -> float | None:
        return self.rows[-1]["test_error"] if self.rows else None

    @property
    def failure(self) -> str | None:
        """The failure message on one line; None if it did not fail."""
        if self.status != "failed":
            return None
        return f"failed: {self.trial.title}: {' '.join(str(self.problem).split())}"

    def end(self, problem: str | None = None) -> None:
        self.status, self.problem, self.ended = "done" if problem is None else "failed", problem, time.monotonic()

    def look(self) -> None:
        """Read the epochs that the run has written so far."""
        self.rows = Run(self.trial.path).read_metrics() or self.rows


Watch = Callable[[list[Progress]], None]


def survey(trials: list[Trial]) -> list[Progress]:
    """The progress of each trial before anything is started."""
    all_progress = [Progress(trial, "done" if is_done(trial) else "waiting") for trial in trials]
    for progress in all_progress:
        progress.look()
        progress.began = progress.epochs
    return all_progress


def next_trial(all_progress: list[Progress]) -> Progress | None:
    """The first trial that is ready to start; a trial whose teacher failed fails too."""
    statuses = {progress.trial.path: progress.status for progress in all_progress}
    for progress in all_progress:
        if progress.status != "waiting":
            continue
        teacher = progress.trial.teacher
        if teacher is None or statuses[teacher.path] == "done":
            return progress
        if statuses[teacher.path] == "failed":
            progress.end(f"its teacher failed: {teacher.path}")
    return None


def run_here(all_progress: list[Progress], watch: Watch) -> None:
    """Finish all trials in this process, one after the other; one that fails ends it with its error.

    Other processes would import the user's script, which then needs a guard.
    """
    watch(all_progress)
    while (chosen := next_trial(all_progress)) is not None:
        chosen.status = "running"
        watch(all_progress)
        do(chosen.trial, _Epochs(chosen, lambda: watch(all_progress)))
        chosen.end()
        watch(all_progress)


class _Epochs(Watcher):
    """Looks at the run after each of its epochs."""

    def __init__(self, progress: Progress, changed: Callable[[], None]) -> None:
        self.progress, self.changed = progress, changed

    def epoch_ended(self, row: Row) -> None:
        self.progress.look()
        self.changed()


@dataclass
class Worker:
    progress: Progress
    process: BaseProcess
    reports: Connection


def run_local(all_progress: list[Progress], workers: int, watch: Watch, pause: float = 0.5) -> None:
    """Finish all trials, `workers` runs at a time; `watch` is called whenever something may have changed.

    A failed run is reported and the others continue. An interrupt ends the processes; their runs can be resumed.
    """
    context = _context()
    threads = max(1, torch.get_num_threads() // workers)
    busy: list[Worker] = []
    try:
        while True:
            while len(busy) < workers and (chosen := next_trial(all_progress)) is not None:
                busy.append(_start(context, chosen, threads))
            watch(all_progress)
            if not busy:
                return
            wait([worker.process.sentinel for worker in busy], timeout=pause)
            for worker in list(busy):
                worker.progress.look()
                if not worker.process.is_alive():
                    busy.remove(worker)
                    _end(worker)
    finally:
        for worker in busy:
            worker.process.terminate()
        for worker in busy:
            worker.process.join()


def _start(context: multiprocessing.context.BaseContext, chosen: Progress, threads: int) -> Worker:
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(chosen.trial, threads, sender), daemon=True)  # type: ignore[attr-defined]
    process.start()
    sender.close()
    chosen.status = "running"
    chosen.attempts += 1
    return Worker(chosen, process, receiver)


def _end(worker: Worker) -> None:
    """The worker's process has ended: the trial is done, has failed, or will be tried again."""
    progress = worker.progress
    try:
        report = worker.reports.recv()
    except EOFError:  # all went well, or it was killed
        report = None
    if Run(progress.trial.path).is_finished:
        progress.end()
    elif report is None and progress.attempts < ATTEMPTS:
        progress.status = "waiting"
    else:
        killed = f"its process ended {ATTEMPTS} times without an error message (exit code {worker.process.exitcode})"
        # A process that imports a script without a guard starts the script again, and stops with exit code 1.
        guard = (
            ' A script must start its work under `if __name__ == "__main__":`' if worker.process.exitcode == 1 else ""
        )
        progress.end(report or f"{killed}; is there enough memory?{guard}")


def _work(trial: Trial, threads: int, reports: Connection) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    try:
        do(trial)
    except KeyboardInterrupt:
        pass  # the parent reports it, once for all runs
    except Exception as error:
        reports.send(f"{type(error).__name__}: {error}"[:LONGEST_REPORT])


def _end_with_parent() -> None:
    """End with the command: if it is killed, its orphans would train the same runs as the next command."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _context() -> multiprocessing.context.BaseContext:
    """Processes forked from a server that has loaded torch start at once; without fork, each one loads torch."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hitnet.experiments.runner", "hitnet.interpret.figures", "torch._dynamo"])
    return context


# ---- one trial: its run is started, resumed, or left alone if it is finished


def is_done(trial: Trial) -> bool:
    """Whether the run is finished; a run with other settings in its place is an error."""
    run = Run(trial.path)
    if run.exists:
        check_settings(run, trial.settings)
    return run.is_finished


def do(trial: Trial, watcher: Watcher | None = None) -> None:
    """Train the trial's run to its end, from its last complete epoch if there is one."""
    if is_done(trial):
        return
    run = Run(trial.path)
    with no_font_warnings():
        if run.exists:
            # Resuming reads the settings from this file, and OUT may have moved since, with the teacher in it.
            write_json(run.settings_file, trial.settings.to_json())
            train.resume(run.path, watcher=watcher)
        else:
            train.train(trial.settings, watcher=watcher)


@contextmanager
def no_font_warnings() -> Iterator[None]:
    """Figures show a box for a letter that the font lacks; a line for each of them would hide what matters."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield


def check_settings(run: Run, wanted: RunSettings) -> None:
    """Refuse a run whose settings differ from the protocol's."""
    environment = run.read_environment()
    # The number of processes matters too: with torchrun, each one normalises over its own share of a batch.
    made_with = {**_settings(run.read_settings()), "processes": environment["processes"]}
    if made_with["precision"] == "auto" != wanted.precision:
        made_with["precision"] = environment["precision"]  # what it found there
    for name, expected in {**_settings(wanted), "processes": 1}.items():
        if made_with[name] != expected:
            raise ValueError(
                f"{run.path} was made with {name} {made_with[name]}, expected {expected}; choose another --out, "
                "or remove it"
            )


def _settings(settings: RunSettings) -> dict[str, Any]:
    """The settings that matter; the teacher's path relative to the run, since both may have moved."""
    teacher = None if settings.teacher is None else os.path.relpath(settings.teacher, settings.out)
    values = {**settings.to_json(), "teacher": teacher}
    return {name: value for name, value in values.items() if name not in ELSEWHERE}
