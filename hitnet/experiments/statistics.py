"""Numbers about few runs: mean, deviation, and whether one mean lies below another."""

import math
import statistics
from dataclasses import dataclass
from typing import Literal

import numpy as np

Verdict = Literal["holds", "does not hold", "not decided at this scale"]
LEVEL = 0.05


@dataclass(frozen=True)
class Sample:
    """The test errors of the runs of a cell, in %."""

    values: tuple[float, ...]

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """Between runs, with n − 1; a single run has none."""
        return statistics.stdev(self.values) if self.count > 1 else None

    def __str__(self) -> str:
        spread = "" if self.deviation is None else f" ± {self.deviation:.3f}"
        return f"{self.mean:.2f}{spread} ({self.count})"


def welch(lower: Sample, higher: Sample) -> float | None:
    """One-sided p of Welch's t test: how likely such a difference would be if `lower` were not the lower one.

    None where it cannot be asked: fewer than two runs on a side, or no spread at all to measure the difference by.
    """
    if lower.deviation is None or higher.deviation is None:
        return None
    parts = [sample.deviation**2 / sample.count for sample in (lower, higher) if sample.deviation is not None]
    if not sum(parts):
        return None
    t = (higher.mean - lower.mean) / math.sqrt(sum(parts))
    freedom = sum(parts) ** 2 / sum(
        part**2 / (sample.count - 1) for part, sample in zip(parts, (lower, higher), strict=True)
    )
    return student_tail(t, freedom)


def student_tail(t: float, freedom: float) -> float:
    """P(T > t) of Student's distribution: with T = √ν tan θ the density is that of cos(θ)^(ν−1)."""
    theta = np.linspace(-math.pi / 2, math.pi / 2, 20_001)
    density = np.cos(theta).clip(0) ** (freedom - 1)
    # Summed from the far end: 1 minus the other side would lose a small tail in rounding.
    tail = np.concatenate([np.cumsum((density[1:] + density[:-1])[::-1])[::-1], [0.0]])
    return float(np.interp(math.atan(t / math.sqrt(freedom)), theta, tail / tail[0]))


def sign_test(successes: int, trials: int) -> float:
    """How likely so many successes or more would be if each were the toss of a coin."""
    return sum(math.comb(trials, k) for k in range(successes, trials + 1)) / 2**trials


def judge(p: float | None) -> Verdict:
    """A claim holds if p is small, does not if the opposite's is, and is otherwise not decided."""
    if p is None or LEVEL <= p <= 1 - LEVEL:
        return "not decided at this scale"
    return "holds" if p < LEVEL else "does not hold"
