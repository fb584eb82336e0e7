"""Many runs on one machine: one process a run, the cores split among those that run at a time."""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
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
from hitnet.training.watchers import Row

Status = Literal["waiting", "running", "done", "failed"]
ATTEMPTS = 3  # of a run whose process was killed: by the system, when memory is short
# Where a run is computed and where its files lie is no part of the protocol: at most it changes how sums are rounded.
ELSEWHERE = ("out", "data_dir", "device", "threads")


@dataclass
class Progress:
    """How far one trial is."""

    trial: Trial
    status: Status = "waiting"
    rows: list[Row] = field(default_factory=list)
    """What its epochs measured so far."""
    began: int = 0
    """How many epochs it had when this command took it up."""
    attempts: int = 0
    problem: str | None = None
    """Why it failed."""
    ended: float = 0.0
    """When it was done or failed, by this process's clock; 0 before that, and if it was done already."""

    @property
    def epochs(self) -> int:
        return len(self.rows)

    @property
    def error(self) -> float | None:
        return self.rows[-1]["test_error"] if self.rows else None

    @property
    def failure(self) -> str | None:
        """What to say of a run that failed, on one line."""
        if self.status != "failed":
            return None
        return f"failed: {self.trial.title}: {' '.join(str(self.problem).split())}"

    def end(self, problem: str | None = None) -> None:
        self.status, self.problem, self.ended = "done" if problem is None else "failed", problem, time.monotonic()

    def look(self) -> None:
        """Read what the run has written since."""
        self.rows = Run(self.trial.path).read_metrics() or self.rows


Watch = Callable[[list[Progress]], None]


def survey(trials: list[Trial]) -> list[Progress]:
    """How far each trial is before anything is started."""
    all_progress = [Progress(trial, "done" if is_done(trial) else "waiting") for trial in trials]
    for progress in all_progress:
        progress.look()
        progress.began = progress.epochs
    return all_progress


def next_trial(all_progress: list[Progress]) -> Progress | None:
    """The first one that waits for nothing; what waits for a run that failed fails with it."""
    statuses = {progress.trial.path: progress.status for progress in all_progress}
    for progress in all_progress:
        if progress.status != "waiting":
            continue
        teacher = progress.trial.teacher
        if teacher is None or statuses[teacher.path] == "done":
            return progress
        if statuses[teacher.path] == "failed":
            progress.end(f"the run that is to deform its images failed: {teacher.path}")
    return None


@dataclass
class Worker:
    progress: Progress
    process: BaseProcess
    reports: Connection


def run_local(all_progress: list[Progress], workers: int, watch: Watch, pause: float = 0.5) -> None:
    """Do what is to be done, `workers` runs at a time; `watch` is called whenever something may have changed.

    A run that fails is reported and the others go on. An interruption ends the processes; their runs can be resumed.
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
    """The worker's process is over: the trial is done, has failed, or is to be tried again."""
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
        killed = f"its process ended {ATTEMPTS} times without a word (exit code {worker.process.exitcode})"
        progress.end(report or f"{killed}; is memory short?")


def _work(trial: Trial, threads: int, reports: Connection) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    try:
        do(trial)
    except KeyboardInterrupt:
        pass  # the parent says it once for all
    except Exception as error:
        reports.send(f"{type(error).__name__}: {error}")


def _end_with_parent() -> None:
    """When the command itself is killed, nobody else would end its processes, and the next command trains the same."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _context() -> multiprocessing.context.BaseContext:
    """Processes that are forked from one that has loaded torch start at once; where nothing forks, they load it."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hitnet.experiments.runner", "hitnet.interpret.figures", "torch._dynamo"])
    return context


# ---- one trial: its run is started, resumed or left alone, whatever it takes to have it finished


def is_done(trial: Trial) -> bool:
    """Whether the run is finished; one of other settings in its place is an error."""
    run = Run(trial.path)
    if run.exists:
        check_settings(run, trial.settings)
    return run.is_finished


def do(trial: Trial) -> None:
    """Train the trial's run to its end, from its last whole epoch if it has any."""
    if is_done(trial):
        return
    run = Run(trial.path)
    if run.exists:
        # Resuming goes by what is written there, and since then OUT may have moved with the teacher in it.
        write_json(run.settings_file, trial.settings.to_json())
        train.resume(run.path)
    else:
        train.train(trial.settings)


def check_settings(run: Run, wanted: RunSettings) -> None:
    """Refuse a run that is not what the protocol has in its place."""
    # Each of torchrun's processes normalises over its own share of a batch.
    made_with = {**_settings(run.read_settings()), "processes": run.read_environment()["processes"]}
    for name, expected in {**_settings(wanted), "processes": 1}.items():
        if made_with[name] != expected:
            raise ValueError(
                f"{run.path} was made with {name} {made_with[name]}, expected {expected}; choose another --out, "
                "or remove it"
            )


def _settings(settings: RunSettings) -> dict[str, Any]:
    """All that matters; the teacher as seen from the run, since both may have moved."""
    teacher = None if settings.teacher is None else os.path.relpath(settings.teacher, settings.out)
    values = {**settings.to_json(), "teacher": teacher}
    return {name: value for name, value in values.items() if name not in ELSEWHERE}
