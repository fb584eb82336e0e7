"""Statistics of a few runs: mean, deviation, and whether one mean lies below another."""

import statistics
from dataclasses import dataclass
from typing import Literal

from scipy import stats

Conclusion = Literal["holds", "does not hold", "not decided at this scale"]
LEVEL = 0.05


@dataclass(frozen=True)
class Errors:
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
        """Standard deviation between runs, with n − 1; None for a single run."""
        return statistics.stdev(self.values) if self.count > 1 else None

    def __str__(self) -> str:
        spread = "" if self.deviation is None else f" ± {self.deviation:.3f}"
        return f"{self.mean:.2f}{spread} ({self.count})"


def welch(lower: Errors, higher: Errors) -> float | None:
    """One-sided p value of Welch's t test: the probability of such a difference if `lower` were not the lower one.

    None if it is undefined: fewer than two runs on one side, or no spread on either side.
    """
    if lower.deviation is None or higher.deviation is None or not (lower.deviation or higher.deviation):
        return None
    # mean, deviation and count of one side, then of the other
    sides = (number for errors in (lower, higher) for number in (errors.mean, errors.deviation, errors.count))
    return float(stats.ttest_ind_from_stats(*sides, equal_var=False, alternative="less").pvalue)


def sign_test(successes: int, trials: int) -> float:
    """The probability of at least this many successes if each were a coin toss."""
    return float(stats.binomtest(successes, trials, alternative="greater").pvalue) if trials else 1.0


def conclude(p: float | None) -> Conclusion:
    """A claim holds if p is small, does not hold if the opposite's p is small, and is otherwise not decided."""
    if p is None or LEVEL <= p <= 1 - LEVEL:
        return "not decided at this scale"
    return "holds" if p < LEVEL else "does not hold"
