"""How fast HitNet is on this machine: cases run in turn in one process, and the median of several rounds counts.

    python scripts/speed.py [--out results/benchmark] [--rounds 5]

Writes OUT.json and OUT.png and prints tables. The machine should be otherwise idle.
"""

import argparse
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from record import machine
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from hitnet.experiments.speed import Step
from hitnet.files import write_json
from hitnet.interpret.figures import save

console = Console()

CASES = {
    "HitNet": ("hitnet", True),
    "HitNet, direct": ("hitnet", False),
    "N1": ("n1", True),
    "CapsNet": ("capsnet", True),
    "CapsNet, direct": ("capsnet", False),
    "hitnet-fast": ("hitnet-fast", True),
}
BATCHES, SIZES, CLASSES, DIMS = (32, 128, 512), (28, 32, 40), (10, 30, 100, 300, 1000), (4, 8, 16, 32, 64)


@torch.inference_mode()
def classify(step: Step) -> None:
    """Classify the images of a training step."""
    step.model.eval()
    step.model.head.decide(step.model.head.score(step.model.capsules(step.images)))


def in_turn(actions: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each action; each round runs every action once, after two warm-up rounds."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(rounds + 2):
        for name, action in actions.items():
            began = time.perf_counter()
            action()
            if turn >= 2:
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def sgemm_gflops(rounds: int) -> float:
    """The machine's own rate, for reference: a product of two 2048×2048 matrices in float32."""
    a, b = torch.rand(2048, 2048), torch.rand(2048, 2048)
    return 2 * 2048**3 / in_turn({"sgemm": lambda: a @ b}, 3 * rounds)["sgemm"] / 1e9


def multiply_adds(net: nn.Module, images: Tensor) -> int:
    """Multiply-adds of a training step with direct convolutions: forward, gradients of weights and hidden inputs."""
    total = 0

    def count(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total
        forward = output.numel() * layer.weight[0].numel()  # type: ignore[index]
        total += forward * (2 if inputs[0] is images else 3)

    hooks = [layer.register_forward_hook(count) for layer in net.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    net.eval()
    with torch.no_grad():
        net(images)
    for hook in hooks:
        hook.remove()
    return total


def peak_memory(name: str) -> float:
    """Peak memory in MB of a separate process that trains for a few steps."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_train_and_weigh, name).result()


def _train_and_weigh(name: str) -> float:
    step = Step(*CASES[name], 128)
    for _ in range(3):
        step()
    # Not getrusage: its maximum is inherited from the process that started this one.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def start_up(rounds: int) -> dict[str, float]:
    """Seconds that a user waits for a fresh process to do this."""
    command = str(Path(sys.executable).parent / "hitnet")
    lines = {
        "import torch": [sys.executable, "-c", "import torch"],
        "import hitnet": [sys.executable, "-c", "import hitnet; hitnet.create_model"],
        "hitnet --help": [command, "--help"],
    }
    run = partial(subprocess.run, check=True, stdout=subprocess.DEVNULL)
    return in_turn({name: partial(run, line) for name, line in lines.items()}, rounds)


def measure(rounds: int) -> dict[str, Any]:
    """All measurements, in seconds unless the name says otherwise."""
    console.print("start-up …")
    numbers: dict[str, Any] = {"start_up": start_up(rounds), "sgemm_gflops": sgemm_gflops(rounds)}
    grid = [(batch, 28) for batch in BATCHES] + [(128, size) for size in SIZES[1:]]
    numbers["train"], numbers["classify"] = {}, {}
    for batch, size in grid:
        console.print(f"batch {batch}, {size}×{size} …")
        steps = {name: Step(*case, batch, (1, size, size)) for name, case in CASES.items()}
        key = f"{batch}x{size}"
        numbers["train"][key] = in_turn(steps, rounds)
        numbers["classify"][key] = in_turn({name: partial(classify, step) for name, step in steps.items()}, rounds)
    console.print("classes and capsule sizes …")
    numbers["classes"] = grow("num_classes", CLASSES, rounds)
    numbers["capsule_dim"] = grow("capsule_dim", DIMS, rounds)
    numbers["peak_memory_mb"] = {name: peak_memory(name) for name in CASES}
    direct = Step(*CASES["HitNet, direct"], 128)
    numbers["multiply_adds"] = multiply_adds(direct.model, direct.images)
    return numbers


def grow(option: str, values: tuple[int, ...], rounds: int) -> dict[str, float]:
    """Seconds of HitNet's training step, batch 128, for each value of one option."""
    seconds = {}
    for value in values:  # one at a time: the largest needs gigabytes
        options: dict[str, Any] = {option: value}
        seconds[str(value)] = in_turn({"step": Step("hitnet", True, 128, **options)}, rounds)["step"]
    return seconds


def ratios(numbers: dict[str, Any]) -> list[tuple[str, float]]:
    """(name, ratio)."""
    train, classify, start = numbers["train"]["128x28"], numbers["classify"]["512x28"], numbers["start_up"]
    effective = 2 * numbers["multiply_adds"] / train["HitNet"] / 1e9
    return [
        ("training step: direct convolution / HitNet", train["HitNet, direct"] / train["HitNet"]),
        ("effective GFLOP/s of the step / sgemm's", effective / numbers["sgemm_gflops"]),
        ("training step: CapsNet, direct / HitNet", train["CapsNet, direct"] / train["HitNet"]),
        ("training step: CapsNet / HitNet, both fast", train["CapsNet"] / train["HitNet"]),
        ("training step: HitNet / hitnet-fast", train["HitNet"] / train["hitnet-fast"]),
        ("classifying 512: direct / HitNet", classify["HitNet, direct"] / classify["HitNet"]),
        ("start: import hitnet / import torch", start["import hitnet"] / start["import torch"]),
        ("start: hitnet --help / import torch", start["hitnet --help"] / start["import torch"]),
    ]


def show(numbers: dict[str, Any]) -> None:
    for kind, title in (("train", "training step, ms"), ("classify", "classifying a batch, ms")):
        table = Table("batch × size", *CASES, title=title)
        for key, times in numbers[kind].items():
            table.add_row(key.replace("x", " × "), *(f"{1000 * times[name]:,.0f}" for name in CASES))
        console.print(table)
    table = Table("ratio", "measured")
    for name, ratio in numbers["ratios"]:
        table.add_row(name, f"{ratio:.2f}")
    console.print(table)


def plot(numbers: dict[str, Any]) -> Figure:
    """Time of a training step against batch size, image size, classes and capsule size, both axes logarithmic."""
    figure = Figure(figsize=(12, 4), layout="constrained")
    panels = figure.subplots(1, 4, sharey=True)
    sweeps = [
        ("batch size", "images of 28×28", BATCHES, [f"{b}x28" for b in BATCHES]),
        ("image height and width", "batches of 128", SIZES, [f"128x{s}" for s in SIZES]),
    ]
    for axes, (label, title, values, keys) in zip(panels, sweeps, strict=False):
        for name in CASES:
            axes.plot(values, [1000 * numbers["train"][key][name] for key in keys], marker="o", label=name)
        axes.set_xlabel(label)
        axes.set_title(title, fontsize=9)
    for axes, option, label in (
        (panels[2], "classes", "classes"),
        (panels[3], "capsule_dim", "components of a capsule"),
    ):
        axes.plot([int(v) for v in numbers[option]], [1000 * t for t in numbers[option].values()], marker="o")
        axes.set_xlabel(label)
        axes.set_title("HitNet, 28×28, batches of 128", fontsize=9)
    for axes in panels:
        axes.set(xscale="log", yscale="log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("training step, ms")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(CASES), frameon=False)
    for axes, ticks in zip(panels, (BATCHES, SIZES, CLASSES, DIMS), strict=True):
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/benchmark"))
    parser.add_argument("--rounds", type=int, default=5, choices=range(1, 100), metavar="1..99")
    args = parser.parse_args()
    numbers = {"machine": machine("none: random images"), **measure(args.rounds)}
    numbers["ratios"] = ratios(numbers)
    show(numbers)
    write_json(args.out.with_name(f"{args.out.name}.json"), numbers)
    save(plot(numbers), args.out.with_name(f"{args.out.name}.png"))
    console.print(f"written to {args.out}.json and {args.out}.png")


if __name__ == "__main__":
    main()
