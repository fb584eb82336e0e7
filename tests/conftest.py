"""What the tests of the core share: images that look like digits, and a few steps of training."""

import math
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from hitnet import cli
from hitnet.core.model import Model, create_model

# Tests run side by side: more threads would only wait for each other, also those of the programs that tests start.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")

pytest_plugins = ["support.ladder", "support.tiny"]

ROOT = Path(__file__).parent.parent
# What a page shows in a fence of sh or python is run; an indented command is only shown.
EXAMPLE = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# One stroke of a digit: (row, column) of its start and of its end, in a unit square.
STROKES = {
    "top": (0.1, 0.2, 0.1, 0.8),
    "middle": (0.5, 0.2, 0.5, 0.8),
    "bottom": (0.9, 0.2, 0.9, 0.8),
    "upper left": (0.1, 0.2, 0.5, 0.2),
    "upper right": (0.1, 0.8, 0.5, 0.8),
    "lower left": (0.5, 0.2, 0.9, 0.2),
    "lower right": (0.5, 0.8, 0.9, 0.8),
}

# A pocket calculator's digits.
DIGITS = [
    ("top", "bottom", "upper left", "upper right", "lower left", "lower right"),
    ("upper right", "lower right"),
    ("top", "middle", "bottom", "upper right", "lower left"),
    ("top", "middle", "bottom", "upper right", "lower right"),
    ("middle", "upper left", "upper right", "lower right"),
    ("top", "middle", "bottom", "upper left", "lower right"),
    ("top", "middle", "bottom", "upper left", "lower left", "lower right"),
    ("top", "upper right", "lower right"),
    tuple(STROKES),
    ("top", "middle", "bottom", "upper left", "upper right", "lower right"),
]


def draw_digits(count: int, side: int = 28, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Digits in soft, thick, shifted and slanted strokes: (count, 1, side, side) in [0, 1], and labels (count,)."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 10
    rows, columns = torch.meshgrid(torch.linspace(0, 1, side), torch.linspace(0, 1, side), indexing="ij")
    images = []
    for label in labels.tolist():
        slant, down, across, thickness = torch.rand(4, generator=generator).tolist()
        y = (rows - 0.5) * 1.4 + 0.5 + 0.15 * (down - 0.5)
        x = (columns - 0.5) * 1.4 + 0.5 + 0.15 * (across - 0.5) + 0.3 * (slant - 0.5) * (y - 0.5)
        ink = torch.stack([_distance_to_stroke(y, x, *STROKES[name]) for name in DIGITS[label]]).amin(dim=0)
        images.append(torch.sigmoid((0.05 + 0.03 * thickness - ink) * 60))
    return torch.stack(images).unsqueeze(1), labels


def _distance_to_stroke(y: Tensor, x: Tensor, y0: float, x0: float, y1: float, x1: float) -> Tensor:
    length = math.hypot(y1 - y0, x1 - x0)
    along = (((y - y0) * (y1 - y0) + (x - x0) * (x1 - x0)) / length**2).clamp(0, 1)
    return torch.hypot(y - y0 - along * (y1 - y0), x - x0 - along * (x1 - x0))


@pytest.fixture(scope="session")
def digits() -> tuple[Tensor, Tensor]:
    """64 images that look like digits, and their labels: (64, 1, 28, 28), (64,)."""
    return draw_digits(64)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def small_model() -> Callable[..., Model]:
    """`create_model` at a width that takes milliseconds: small_model(name, image_shape, ...)."""
    widths = {"capsnet": 16, "hitnet-fast": 4, "hitnet-deep": 4}
    widths |= {"lenet5": 3, "lenet5-hom": 3, "densenet40-12": 2, "densenet40-12-hom": 2}

    def make(name: str, image_shape: tuple[int, int, int] = (1, 28, 28), **options: object) -> Model:
        return create_model(name, image_shape, **{"width": widths.get(name, 8), **options})  # type: ignore[arg-type]

    return make


@pytest.fixture
def hitnet_says(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Call the command line; what it prints, or the SystemExit it raises."""

    def call(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["hitnet", *map(str, arguments)])
        cli.main()
        return capsys.readouterr().out

    return call


@pytest.fixture
def folder_of_pictures(tmp_path: Path) -> Path:
    """An empty folder but for what the pages take for granted: my-pictures, a folder for each class, and new.jpg."""
    random = np.random.default_rng(0)
    for index in range(21):
        folder = tmp_path / "my-pictures" / ("dark" if index % 2 else "light")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 60 if index % 2 else 255, (24, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{index}.png")
    Image.fromarray(pixels).save(tmp_path / "new.jpg")
    return tmp_path


@pytest.fixture
def run_examples(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Path], dict[str, object]]:
    """Run the commands and the Python examples of a page in a folder: (page, folder) -> the names left."""

    def run(page: str, folder: Path) -> dict[str, object]:
        monkeypatch.chdir(folder)
        examples = EXAMPLE.findall((ROOT / page).read_text())
        assert examples, f"there are examples in {page}"
        names: dict[str, object] = {"__name__": "__main__"}
        for language, text in examples:
            if language == "python":
                exec(compile(text, page, "exec"), names)
                continue
            for command in text.splitlines():
                monkeypatch.setattr(sys, "argv", shlex.split(command, comments=True))
                cli.main()
        return names

    return run
