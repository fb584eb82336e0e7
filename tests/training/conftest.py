"""Settings of runs that take a fraction of a second."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from tiny import write_squares

from hitnet.training.config import TrainConfig


@pytest.fixture
def squares(tmp_path: Path) -> Path:
    """An .npz of 96 training and 30 test images in 3 classes."""
    return write_squares(tmp_path / "squares.npz")


@pytest.fixture
def settings(squares: Path, tmp_path: Path) -> Callable[..., TrainConfig]:
    """Settings of a run that takes a fraction of a second: settings(epochs=5, ...)."""

    def make(**options: object) -> TrainConfig:
        usual = {
            "data": str(squares),
            "model": "lenet5-hom",
            "width": 3,
            "epochs": 3,
            "batch_size": 32,
            "out": tmp_path / "runs",
            "threads": 1,
            "device": "cpu",
        }
        return TrainConfig(**{**usual, **options})  # type: ignore[arg-type]

    return make


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finish runs without drawing, which takes longer than training on so few images."""
    monkeypatch.setattr("hitnet.training.finish.draw", lambda *_: None)
