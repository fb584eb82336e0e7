"""Experiments that take seconds: a protocol of small networks on few images."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hitnet.experiments.protocol import SCALES, Protocol, Trial
from hitnet.files import write_json
from hitnet.runs.run import Run
from hitnet.settings import TrainConfig


@pytest.fixture
def smoke(tmp_path: Path) -> Protocol:
    return Protocol(SCALES["smoke"], tmp_path / "out")


@pytest.fixture
def pretend() -> Callable[..., Run]:
    """Write a finished run without training it: pretend(trial, error=0.5)."""

    def write(trial: Trial, error: float, epochs: int = 2) -> Run:
        run = Run(trial.path)
        run.create(trial.settings, {"processor": "abacus", "cores": 2, "device": "cpu", "torch": "2", "processes": 1})
        run.write_metrics([{"epoch": epoch + 1, "test_error": error + epochs - epoch - 1} for epoch in range(epochs)])
        test = {"error": error, "mistakes": round(100 * error), "images": 10_000}
        write_json(run.path / "result.json", {"test": test, "epochs": epochs, "seconds": 1.5, "parameters": 7})
        return run

    return write


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., Trial]:
    """A run that takes a second: tiny(seed=1, epochs=3, ...)."""

    def make(out: Path = tmp_path / "out", **options: object) -> Trial:
        usual = {"model": "lenet5", "width": 3, "train_images": 200, "batch_size": 50, "epochs": 3, "out": out}
        return Trial("tiny", TrainConfig(**{**usual, **options}).resolve())  # type: ignore[arg-type]

    return make


@pytest.fixture
def lasting() -> Callable[[Trial], dict[str, bytes]]:
    """What a run must come to, bit for bit, whatever happened on the way."""
    names = ("metrics.csv", "model/config.json", "model/model.safetensors")
    return lambda trial: {name: (trial.path / name).read_bytes() for name in names}
