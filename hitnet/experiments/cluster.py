"""Many runs on many machines: one Ray task per run, retried when a worker dies.

A task trains in the folder OUT of its node. If all nodes share that folder, a run whose worker died resumes from its
last epoch on any node. If they do not, it resumes on the same node and starts over on another. Either way the task
returns the finished run, which is written to OUT where it is missing.
"""

import socket
from pathlib import Path
from types import ModuleType
from typing import Any

from hitnet.errors import require
from hitnet.experiments import runner
from hitnet.experiments.protocol import Trial
from hitnet.experiments.runner import Progress, Watch, next_trial
from hitnet.files import write_bytes
from hitnet.runs.run import Run

RETRIES = 10  # for a task whose worker or node died

Files = dict[str, bytes]
"""Path inside a run folder -> content"""


def run_on_ray(all_progress: list[Progress], address: str, watch: Watch, pause: float = 0.2) -> None:
    """Finish all trials on a Ray cluster: one at a time per GPU or, if it has none, per CPU."""
    ray = _import_ray()
    _join(ray, address)
    try:
        busy: dict[Any, Progress] = {}
        while True:
            resources = ray.cluster_resources()
            kind = "GPU" if resources.get("GPU") else "CPU"
            task = ray.remote(num_cpus=1, num_gpus=1 if kind == "GPU" else 0, max_retries=RETRIES)(train_on_node)
            # Asked in every round: nodes come and go.
            while len(busy) < resources.get(kind, 0) and (chosen := next_trial(all_progress)) is not None:
                chosen.status = "running"
                teacher = chosen.trial.teacher
                busy[task.remote(chosen.trial, {} if teacher is None else pack(teacher.path))] = chosen
            watch(all_progress)
            if not busy:
                if next_trial(all_progress) is None:
                    return
                raise RuntimeError(
                    f"the Ray cluster at {address} has neither CPU nor GPU, expected at least one; start nodes with: "
                    f"ray start --address {address}, then run the same command again"
                )
            ended, _ = ray.wait(list(busy), timeout=pause)
            for reference in ended:
                _end(busy.pop(reference), reference, ray)
            for progress in busy.values():
                progress.look()
    finally:
        ray.shutdown()


def train_on_node(trial: Trial, teacher: Files) -> Files:
    """On a node: train the run to its end and return its files."""
    if trial.teacher is not None:
        unpack(teacher, trial.teacher.path)
    runner.do(trial)
    return pack(trial.path)


def _end(progress: Progress, reference: Any, ray: ModuleType) -> None:
    try:
        unpack(ray.get(reference), progress.trial.path)
        progress.end()
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        progress.end(f"{type(cause).__name__}: {cause}")
    progress.look()


def pack(folder: Path) -> Files:
    """A finished run as a dictionary of files."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def unpack(files: Files, folder: Path) -> None:
    """Write a finished run, result.json last; one that is already finished is left alone."""
    if Run(folder).is_finished:
        return
    for name in sorted(files, key=lambda name: name == Run(folder).result_file.name):
        write_bytes(folder / name, files[name])


def _join(ray: ModuleType, address: str) -> None:
    """Connect to Ray. Checked first: Ray itself would try for minutes and then suggest unrelated options."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if port.isdecimal():
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address=address, log_to_driver=False, ignore_reinit_error=True)
    except OSError as error:
        raise RuntimeError(
            f"there is no Ray cluster at {address} ({error}); start one with: ray start --head --port 6379"
        ) from None


def _import_ray() -> Any:
    require("--ray", ["ray"], "ray")
    import ray

    return ray
