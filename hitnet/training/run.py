"""A run as a folder. `result.json` is written last: where it is, the run is finished."""

import csv
import io
import os
import platform
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy
import torch

import hitnet
from hitnet.files import LEFTOVERS, read_json, read_settings, write_json, write_text
from hitnet.training.config import TrainConfig

Row = dict[str, float]


@dataclass(frozen=True)
class Run:
    """One training run on disk.

    args.json        the settings
    env.json         versions, hardware, git, data
    metrics.csv      one line an epoch
    model/           config.json, model.safetensors
    state.safetensors  what resuming needs; gone when the run is finished
    plots/           pictures
    tensorboard/     the same and more for TensorBoard, with --track
    result.json      how it ended
    calibration.json   which answers are refused, once `hitnet calibrate` has seen it
    """

    path: Path

    @classmethod
    def named(cls, config: TrainConfig, data_name: str) -> "Run":
        """Where a run with these settings belongs."""
        return cls(config.out / data_name / f"{config.model.replace('/', '-')}-s{config.seed}")

    def create(self, config: TrainConfig, environment: dict[str, Any], *, overwrite: bool = False) -> None:
        """Make the folder with its first two files; one that is there is never touched unasked."""
        if not overwrite and self.path.is_dir() and any(self.path.iterdir()):
            state = "finished" if self.is_finished else f"unfinished: go on with {self.resume_command}"
            found = f"a run ({state})" if (self.path / "args.json").is_file() else "something that is no run"
            raise FileExistsError(
                f"there is {found} in {self.path} already; "
                "choose another --seed or --out, or replace it with --overwrite"
            )
        # Removed and made under another name: a kill in between leaves no half run.
        beside = self.path.with_name(f".{self.path.name}.part")
        shutil.rmtree(beside, ignore_errors=True)
        if self.path.is_dir():
            self.path.rename(beside)
            shutil.rmtree(beside)
        write_json(beside / "env.json", environment)
        write_json(beside / "args.json", config.to_json())
        beside.rename(self.path)

    @classmethod
    def open(cls, path: str | Path) -> "Run":
        """A run that is there, finished or not."""
        run = cls(Path(path))
        if not (run.path / "args.json").is_file():
            raise FileNotFoundError(f"there is no run in {run.path}: expected args.json; `hitnet runs` lists the runs")
        return run

    def check_same(self, fingerprints: dict[str, str]) -> None:
        """Refuse to go on with another data set or teacher than the run began with."""
        environment = read_json(self.path / "env.json")
        for what, now in fingerprints.items():
            if (before := environment.get(what)) != now:
                raise ValueError(
                    f"the {what} of {self.path} changed since it began (fingerprint {before}, now {now}); "
                    f"bring the former {what} back, or start a new run"
                )

    @property
    def config(self) -> TrainConfig:
        return read_settings(self.path / "args.json", TrainConfig)

    @property
    def resume_command(self) -> str:
        """What to type to go on with this run."""
        return f"hitnet train --resume {shlex.quote(str(self.path))}"

    @property
    def is_finished(self) -> bool:
        return (self.path / "result.json").is_file()

    @property
    def result(self) -> dict[str, Any]:
        if not self.is_finished:
            raise ValueError(f"{self.path} is not finished; go on with it: {self.resume_command}")
        return read_json(self.path / "result.json")

    @property
    def metrics(self) -> list[Row]:
        """One row an epoch."""
        with open(self.path / "metrics.csv", newline="") as file:
            return [{name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)]

    def write_metrics(self, rows: list[Row]) -> None:
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text(self.path / "metrics.csv", text.getvalue())


def find_runs(folder: Path) -> list[Run]:
    """All runs below a folder, oldest first."""
    files = sorted(folder.rglob("args.json"), key=lambda file: file.stat().st_mtime)
    return [Run(file.parent) for file in files if not file.parent.match(LEFTOVERS)]


def describe_environment(
    device: torch.device, precision: torch.dtype, processes: int, fingerprints: dict[str, str]
) -> dict[str, Any]:
    """What somebody needs to know to get the same numbers again."""
    return {
        "hitnet": hitnet.__version__,
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "processes": processes,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "precision": str(precision).removeprefix("torch."),
        "git": _git_commit(),
        **fingerprints,
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def processor() -> str:
    """The name of this machine's CPU."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _git_commit() -> str | None:
    """The commit of HitNet's own source, marked where files differ from it; None outside a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
