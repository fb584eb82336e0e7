"""What makes a CapsNet slow: its training step beside HitNet's, with one part after the other as public code has it.

    python scripts/capsnet_speed.py [--out results/capsnet-speed] [--rounds 5]

Our CapsNet routes all images of a batch at once and lets no gradient through the coefficients of the routing. Public
code often does neither, and uses the library's own convolution. Each row of CapsNet keeps what made the row above slow.
Writes OUT.json and OUT.md. The machine should be otherwise idle.
"""

import argparse
from pathlib import Path

import torch
from record import machine, markdown, write
from speed import BATCHES, in_turn
from torch import Tensor

from hitnet.core.heads import Routing, coupling, weighted_sum
from hitnet.core.layer import squash
from hitnet.experiments.speed import Step

STEPS = {
    "HitNet": lambda batch: Step("hitnet", True, batch),
    "HitNet, direct convolution": lambda batch: Step("hitnet", False, batch),
    "CapsNet": lambda batch: Step("capsnet", True, batch),
    "CapsNet, direct convolution": lambda batch: Step("capsnet", False, batch),
    "… and gradients through the coefficients": lambda batch: public_capsnet(batch, one_at_a_time=False),
    "… and votes of one image at a time": lambda batch: public_capsnet(batch, one_at_a_time=True),
}


def public_capsnet(batch: int, one_at_a_time: bool) -> Step:
    step = Step("capsnet", False, batch)
    assert isinstance(step.model.head.layer, Routing)
    slow_down(step.model.head.layer, one_at_a_time)
    return step


def slow_down(routing: Routing, one_at_a_time: bool) -> None:
    """The same capsules, but gradients also flow through the coefficients, and votes may be of one image each."""

    def forward(features: Tensor) -> Tensor:
        votes = [routing.votes(part) for part in (features.split(1) if one_at_a_time else [features])]
        return route_with_gradients(torch.cat(votes), routing.iterations)

    routing.forward = forward  # type: ignore[method-assign]


def route_with_gradients(votes: Tensor, iterations: int) -> Tensor:
    """As `hitnet.core.heads.route`, but every step has gradients."""
    agreement = votes.new_zeros(votes.shape[:3])
    for _ in range(iterations - 1):
        capsules = squash(weighted_sum(coupling(agreement), votes))
        agreement = agreement + torch.matmul(votes, capsules.unsqueeze(3)).squeeze(3)
    return squash(weighted_sum(coupling(agreement), votes))


def table(seconds: dict[str, dict[str, float]]) -> str:
    """For each batch size, milliseconds of a training step and how many times that of HitNet's it is."""
    titles = ["training step", *(title for batch in seconds for title in (f"batch {batch}, ms", "times HitNet's"))]
    lines = [
        [name, *(cell for times in seconds.values() for cell in _cells(times[name], times["HitNet"]))] for name in STEPS
    ]
    return markdown(titles, lines)


def _cells(seconds: float, hitnet: float) -> tuple[str, str]:
    return f"{1000 * seconds:,.0f}", f"{seconds / hitnet:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/capsnet-speed"))
    parser.add_argument("--rounds", type=int, default=5, choices=range(1, 100), metavar="1..99")
    parser.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    args = parser.parse_args()
    seconds = {}
    for batch in args.batches:
        seconds[str(batch)] = in_turn({name: make(batch) for name, make in STEPS.items()}, args.rounds)
    write(args.out, {"machine": machine("none: random images"), "seconds": seconds}, table(seconds))
    print(table(seconds))


if __name__ == "__main__":
    main()
