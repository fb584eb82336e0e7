"""A data set of squares that a network learns in a second, settings of such runs, a look at all files of a folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from hitnet.settings import TrainConfig


def write_squares(path: Path, *, train: int = 96, test: int = 30, classes: int = 3, test_seed: int = 1) -> Path:
    """Noisy 28×28 images with a bright square at a place that tells the class."""

    def draw(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng(seed)
        labels = np.arange(count) % classes
        images = random.integers(0, 60, (count, 28, 28))
        for image, label in zip(images, labels, strict=True):
            image[2 : 2 + 8, 3 + 7 * label : 10 + 7 * label] += 180
        return images.astype(np.uint8), labels

    x_train, y_train = draw(train, seed=0)
    x_test, y_test = draw(test, test_seed)
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    return path


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder and its content."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


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


@pytest.fixture(scope="session")
def squares_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with the paper's decoder and snapshots; copy it before writing into it."""
    from hitnet.runs.train import train

    folder = tmp_path_factory.mktemp("squares")
    options = {"model": "lenet5-hom", "width": 3, "capsule_dim": 4, "epochs": 2, "batch_size": 32, "snapshots": True}
    data = write_squares(folder / "squares.npz")
    return train(TrainConfig(data=str(data), out=folder, threads=1, **options)).path  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finish runs without drawing, which takes longer than training on so few images."""
    for module in ("result", "finish"):
        monkeypatch.setattr(f"hitnet.runs.{module}.plot", lambda *_: None)
    monkeypatch.setattr("hitnet.runs.train.write_inputs", lambda *_: None)
