"""What it takes to reproduce a run's numbers: versions, hardware, git commit, data."""

import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy
import torch

import hitnet


def describe_environment(
    device: torch.device, precision: torch.dtype, processes: int, fingerprints: dict[str, str]
) -> dict[str, Any]:
    """Versions, hardware, git, the command, and the fingerprints of the inputs."""
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
    """The commit of HitNet's own source, with -dirty if files differ from it; None outside a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
