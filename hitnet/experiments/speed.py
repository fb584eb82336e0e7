"""How much faster HitNet trains than CapsNet with routing: steps in turn, so that a busy machine slows both."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hitnet.core.encoders import PAPER_WIDTH, PaperEncoder
from hitnet.core.model import Model, create_model
from hitnet.experiments.tables import Table
from hitnet.files import read_json
from hitnet.runs.environment import processor
from hitnet.training.devices import choose_device
from hitnet.training.state import make_optimizer

# The Winograd convolution is used on CPUs only.
PATHS = {"Winograd convolution": True, "direct convolution": False}
NETWORKS = {"hitnet": "HitNet", "capsnet": "CapsNet"}
EPOCH = 60_000  # images
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Ratio:
    """How many times longer one thing takes than another, round by round."""

    values: list[float]

    @property
    def median(self) -> float:
        return float(np.median(self.values))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % bootstrap interval of the median."""
        random = np.random.default_rng(0)
        # 2,000 resamples of all rounds with replacement, and the median of each
        medians = np.median(random.choice(self.values, (2_000, len(self.values))), axis=1)
        low, high = np.quantile(medians, (0.025, 0.975))
        return float(low), float(high)


@dataclass(frozen=True)
class Speed:
    """Seconds of each step, by network and kind of large convolution."""

    seconds: dict[str, dict[str, list[float]]]
    """path -> network -> one time per round"""
    batch_size: int
    device: str
    threads: int
    width: int | None = None
    """Channels of the encoder if not the paper's."""

    @property
    def ratios(self) -> dict[str, Ratio]:
        """CapsNet's time over HitNet's, by path."""
        return {
            path: Ratio([slow / fast for slow, fast in zip(times["CapsNet"], times["HitNet"], strict=True)])
            for path, times in self.seconds.items()
        }


def measure_speed(rounds: int, batch_size: int = 128, width: int | None = None) -> Speed:
    """Time training steps on random images of MNIST's size; one round is a step of every case, after a warm-up."""
    device = choose_device("auto")
    paths = {path: winograd for path, winograd in PATHS.items() if device.type == "cpu" or not winograd}
    steps = {
        (path, title): Step(name, winograd, batch_size, device=device, width=width)
        for path, winograd in paths.items()
        for name, title in NETWORKS.items()
    }
    seconds: dict[str, dict[str, list[float]]] = {path: {title: [] for title in NETWORKS.values()} for path in paths}
    for turn in range(rounds + 1):
        for (path, title), step in steps.items():
            began = time.perf_counter()
            step()
            torch.get_device_module(device).synchronize()  # GPUs compute asynchronously
            if turn:
                seconds[path][title].append(time.perf_counter() - began)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{processor()} ({device.type})"
    return Speed(seconds, batch_size, name, torch.get_num_threads(), width)


def read_speed(path: Path) -> Speed:
    """The times that an earlier command measured."""
    try:
        return Speed(**read_json(path))
    except TypeError as error:
        raise ValueError(f"{path} holds no times ({error}); remove it to measure them again") from None


class Step:
    """One training step on random images; torch's own convolution gets the memory layout in which it is fastest."""

    def __init__(
        self,
        name: str,
        winograd: bool,
        batch_size: int,
        image_shape: tuple[int, int, int] = (1, 28, 28),
        device: torch.device = CPU,
        **options: Any,
    ) -> None:
        torch.manual_seed(0)
        self.model: Model = create_model(name, image_shape=image_shape, **options).to(device)
        self.images = torch.rand(batch_size, *image_shape, device=device)
        self.labels = torch.randint(self.model.head.num_classes, (batch_size,), device=device)
        if not winograd:
            if isinstance(self.model.encoder, PaperEncoder):
                self.model.encoder.conv2.winograd = False
            self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            self.images = self.images.to(memory_format=torch.channels_last)
        self.optimizer = make_optimizer(self.model, 0.001)

    def __call__(self) -> None:
        self.model.train()
        out = self.model(self.images, self.labels)
        self.optimizer.zero_grad(set_to_none=True)
        self.model.loss(out, self.images, self.labels).total.backward()
        self.optimizer.step()


def speed_table(speed: Speed) -> Table:
    """The time per epoch of MNIST's 60,000 training images."""
    rows, records = [], []
    epochs = EPOCH / speed.batch_size
    for path, times in speed.seconds.items():
        fast, slow = (epochs * float(np.median(times[title])) for title in ("HitNet", "CapsNet"))
        ratio = speed.ratios[path]
        low, high = ratio.interval
        rows.append([path, f"{fast:,.0f} s", f"{slow:,.0f} s", f"{ratio.median:.2f} ({low:.2f} to {high:.2f})", "≥ 10"])
        records.append({"path": path, "hitnet": fast, "capsnet": slow, "ratio": ratio.median, "low": low, "high": high})
    rounds = len(next(iter(times.values())))
    notes = [
        f"on {speed.device}, threads: {speed.threads}, float32: medians of {rounds} steps of {speed.batch_size} "
        "images, networks in turn, scaled to an epoch; the ratio is the median of the ratios of single rounds",
        "the paper compares with other authors' code; our CapsNet is a fast one: its routing is batched, and its "
        "coefficients carry no gradient",
    ]
    if speed.width is not None:
        notes.insert(
            0, f"encoders of {speed.width} channels, not the paper's {PAPER_WIDTH}: not times of the paper's networks"
        )
    headings = ["large convolution by", "HitNet", "CapsNet", "CapsNet / HitNet", "paper"]
    return Table("speed", "Time of one training epoch of MNIST", headings, rows, notes, records)
