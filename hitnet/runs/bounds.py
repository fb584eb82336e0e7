"""Which answers to accept so that few of them are wrong, with a statistical guarantee.

Images are sorted by outlier score, the least unusual first, and the first k of them are answered. For one fixed k, an
exact binomial test decides whether the number of mistakes shows an error rate below the requested one. Trying every k
and keeping the largest that passes would be multiple testing. So each k is tested at a stricter level, chosen such that
a network whose error rate is exactly the requested one passes for any k with at most the allowed risk. This assumes
that more unusual images are misclassified at least as often.
"""

import math

import numpy as np
import torch
from scipy import stats
from torch import Tensor


def choose_threshold(scores: Tensor, wrong: Tensor, max_error: float, confidence: float) -> float:
    """The largest outlier score up to which answers are accepted: (count,), (count,) -> number."""
    count, risk = len(scores), 1 - confidence
    # With fewer answers than this, even zero mistakes would not pass the test.
    least = math.ceil(math.log(risk) / math.log1p(-max_error))
    if count < least:
        raise ValueError(
            f"{count:,} images cannot show an error below {100 * max_error:g} %, expected at least {least:,}; "
            "hold out more images for validation, or allow a larger error"
        )
    # Where the tests start must not depend on the mistakes. Starting below half of the images would weaken every test.
    start = max(least, count // 2)
    allowed = torch.tensor(allowed_mistakes(start, count, max_error, risk))
    order = scores.cpu().argsort()
    ranked, mistakes = scores.cpu()[order], wrong.cpu()[order].cumsum(0)
    # Images with the same score are answered together or not at all.
    is_last = torch.cat([ranked[:-1] < ranked[1:], torch.tensor([True])])
    passed = ((mistakes[start - 1 :] <= allowed) & is_last[start - 1 :]).nonzero()
    if not len(passed):
        raise ValueError(
            f"{int(mistakes[start - 1]):,} of the {start:,} most certain of {count:,} answers are wrong, too many to "
            f"show an error below {100 * max_error:g} %; allow a larger one, hold out more images, or train a better "
            "network"
        )
    return float(ranked[start - 1 + int(passed[-1])])


def allowed_mistakes(start: int, count: int, max_error: float, risk: float) -> list[int]:
    """For each number of answers from `start` to `count`, the most mistakes that pass; −1 if not even 0 does."""
    low, high = 0.0, risk
    for _ in range(12):
        middle = (low + high) / 2
        allowed = _unlikely(start, count, max_error, middle)
        low, high = (middle, high) if chance_to_pass(allowed, start, max_error) <= risk else (low, middle)
    return _unlikely(start, count, max_error, low)


def chance_to_pass(allowed: list[int], start: int, rate: float) -> float:
    """The probability that answers with this error rate pass for at least one number of answers."""
    # not_yet[k]: probability of k mistakes and no pass so far. More mistakes than are ever allowed can be ignored.
    not_yet = stats.binom.pmf(np.arange(allowed[-1] + 1), start, rate)
    passed = 0.0
    for most in allowed:
        passed += float(not_yet[: most + 1].sum())
        not_yet[: most + 1] = 0
        not_yet[1:] = not_yet[1:] * (1 - rate) + not_yet[:-1] * rate
        not_yet[:1] *= 1 - rate
    return passed


def upper_bound(mistakes: int, count: int, confidence: float) -> float:
    """The upper confidence bound on the error rate (Clopper–Pearson, one-sided)."""
    return float(stats.beta.ppf(confidence, mistakes + 1, count - mistakes)) if mistakes < count else 1.0


def _unlikely(start: int, count: int, rate: float, level: float) -> list[int]:
    """For each number of answers, the largest k with P(at most k mistakes) <= `level`."""
    answers = np.arange(start, count + 1)
    most = stats.binom.ppf(level, answers, rate)  # the smallest k that reaches the level
    return np.where(stats.binom.cdf(most, answers, rate) <= level, most, most - 1).astype(int).tolist()
