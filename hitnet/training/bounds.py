"""How many answers a network may give so that few are wrong, and how sure one can be of that.

Images are answered in the order of their outlier score, the least unusual one first. Of a single number of answers an
exact binomial test says whether so few mistakes show an error below the wished one. Trying all numbers and keeping the
largest that passes would be looking until one is lucky, so each is tested at a stricter level, at which answers that
are wrong at just the wished rate pass anywhere with no more than the risk allowed. This takes for granted that more
unusual images are no less often wrong.
"""

import math
from functools import cache

import numpy as np
import torch
from torch import Tensor

Numbers = np.ndarray[tuple[int], np.dtype[np.float64]]


def choose_threshold(scores: Tensor, wrong: Tensor, max_error: float, confidence: float) -> float:
    """The largest outlier score up to which answers are shown to be good enough: (count,), (count,) -> number."""
    count, risk = len(scores), 1 - confidence
    # So many answers without a single mistake are the least that shows anything.
    least = math.ceil(math.log(risk) / math.log1p(-max_error))
    if count < least:
        raise ValueError(
            f"{count:,} images cannot show an error below {100 * max_error:g} %, it takes {least:,} at least; "
            "hold out more images for validation, or allow a larger error"
        )
    # Where the tests begin must not depend on mistakes. Fewer than half of the images is not worth weaker tests.
    start = max(least, count // 2)
    allowed = torch.tensor(allowed_mistakes(start, count, max_error, risk))
    order = scores.cpu().argsort()
    ranked, mistakes = scores.cpu()[order], wrong.cpu()[order].cumsum(0)
    # Images of the same score are answered together or not at all.
    is_last = torch.cat([ranked[:-1] < ranked[1:], torch.tensor([True])])
    passed = ((mistakes[start - 1 :] <= allowed) & is_last[start - 1 :]).nonzero()
    if not len(passed):
        raise ValueError(
            f"{int(mistakes[start - 1]):,} of the {start:,} surest of {count:,} answers are wrong, too many to show an "
            f"error below {100 * max_error:g} %; allow a larger one, hold out more images, or train a better network"
        )
    return float(ranked[start - 1 + int(passed[-1])])


def allowed_mistakes(start: int, count: int, max_error: float, risk: float) -> list[int]:
    """For each number of answers from `start` to `count`, how many mistakes still pass; −1 where none does."""
    low, high = 0.0, risk
    for _ in range(12):
        middle = (low + high) / 2
        found = _unlikely(start, count, max_error, middle)
        low, high = (middle, high) if chance_to_pass(found, start, max_error) <= risk else (low, middle)
    return _unlikely(start, count, max_error, low)


def chance_to_pass(allowed: list[int], start: int, rate: float) -> float:
    """The probability that answers, each wrong at this rate, have no more mistakes than allowed at any number."""
    # not_yet[k]: k mistakes, and never few enough so far. More than are ever allowed need not be followed.
    at_first = np.exp(_log_binomial(allowed[-1], start, rate))
    not_yet = np.pad(at_first, (0, allowed[-1] + 1 - len(at_first)))
    passed = 0.0
    for most in allowed:
        passed += float(not_yet[: most + 1].sum())
        not_yet[: most + 1] = 0
        not_yet[1:] = not_yet[1:] * (1 - rate) + not_yet[:-1] * rate
        not_yet[:1] *= 1 - rate
    return passed


def upper_bound(mistakes: int, count: int, confidence: float) -> float:
    """The largest rate of mistakes at which so few of them are not yet too unlikely (Clopper–Pearson)."""
    low, high = (mistakes / count, 1.0) if count else (1.0, 1.0)
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if at_most(mistakes, count, middle) > 1 - confidence else (low, middle)
    return high


def at_most(mistakes: int, count: int, rate: float) -> float:
    """The probability of so many mistakes or fewer in `count` answers, each wrong with probability `rate`."""
    return float(np.exp(_log_binomial(mistakes, count, rate)).sum())


def _unlikely(start: int, count: int, rate: float, level: float) -> list[int]:
    """The most mistakes that have at most the probability `level`, they or fewer, for each number of answers."""
    allowed, most = [], -1
    for answers in range(start, count + 1):
        while at_most(most + 1, answers, rate) <= level:
            most += 1
        allowed.append(most)
    return allowed


def _log_binomial(most: int, count: int, rate: float) -> Numbers:
    """Log-probabilities of 0, 1, …, `most` mistakes in `count` answers, which cannot hold more than `count`."""
    wrong = np.arange(min(most, count) + 1)
    # A table serves all counts up to the next power of two: one for each would take quadratic time.
    factorials = _log_factorials(1 << count.bit_length())
    ways = factorials[count] - factorials[wrong] - factorials[count - wrong]
    return ways + wrong * math.log(rate) + (count - wrong) * math.log1p(-rate)


@cache
def _log_factorials(size: int) -> Numbers:
    """log 0!, log 1!, …: (size,)."""
    return np.cumsum(np.log(np.maximum(1, np.arange(size))))
