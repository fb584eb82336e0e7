"""How cheap the variation of training images is: milliseconds a batch of 128, beside a training step.

    python scripts/variation_speed.py [--out results/variation-speed] [--rounds 5]

For every recipe of `--augment` that needs no teacher, and for digits that are also bent (`--bend 0.05`). Even without
variation a batch takes time: its images are chosen and made floating point. Writes OUT.json and OUT.md. The machine
should be otherwise idle.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from record import machine, markdown, write
from speed import in_turn

from hitnet.data import Batches, ImageSet
from hitnet.data.variation import Variation
from hitnet.defaults import RECIPES
from hitnet.experiments.speed import Step

BATCH, BATCHES = 128, 20
SHAPES = {"28×28, grey": (1, 28), "32×32, colour": (3, 32)}
NETWORKS = ("hitnet-fast", "hitnet-deep")
KINDS = {name: recipe for name, recipe in RECIPES.items() if name != "hybrid"}
KINDS["digits, bent"] = {**RECIPES["digits"], "bend": 0.05}


def epoch(recipe: str, channels: int, size: int) -> Callable[[], None]:
    """All batches of a small data set, varied by a recipe."""
    images = torch.randint(256, (BATCH * BATCHES, channels, size, size), dtype=torch.uint8)
    data = ImageSet(images, torch.zeros(len(images), dtype=torch.int64))
    batches = Batches(data, BATCH, variation=Variation(fill="edge", **KINDS[recipe]), generator=torch.Generator())

    def look() -> None:
        for _ in batches.epoch(0):
            pass

    return look


def measure(channels: int, size: int, rounds: int) -> dict[str, float]:
    """Seconds of one batch by recipe, and of one training step by network."""
    varied = in_turn({name: epoch(name, channels, size) for name in KINDS}, rounds)
    steps = in_turn({name: Step(name, True, BATCH, (channels, size, size)) for name in NETWORKS}, rounds)
    return {name: seconds / BATCHES for name, seconds in varied.items()} | steps


def table(seconds: dict[str, dict[str, float]]) -> str:
    titles = ["recipe", *(title for shape in seconds for title in (f"{shape}: ms", *(f"% of {n}" for n in NETWORKS)))]
    recipes = [name for name in next(iter(seconds.values())) if name not in NETWORKS]
    return markdown(
        titles, [[name, *(cell for of in seconds.values() for cell in _cells(of, name))] for name in recipes]
    )


def _cells(seconds: dict[str, float], recipe: str) -> list[str]:
    own = seconds[recipe]
    return [f"{1000 * own:.1f}", *(f"{100 * own / seconds[network]:.1f}" for network in NETWORKS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/variation-speed"))
    parser.add_argument("--rounds", type=int, default=5, choices=range(1, 100), metavar="1..99")
    args = parser.parse_args()
    seconds = {shape: measure(*size, args.rounds) for shape, size in SHAPES.items()}
    write(args.out, {"machine": machine("none: random images"), "seconds": seconds}, table(seconds))
    print(table(seconds))


if __name__ == "__main__":
    main()
