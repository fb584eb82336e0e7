"""How many answers a network may give so that few are wrong, and how sure one can be of that.

Images are answered in the order of their outlier score, the least unusual one first. Of a single number of answers an
exact binomial test says whether so few mistakes show an error below the wished one. Trying all numbers and keeping the
largest that passes would be looking until one is lucky, so each is tested at a stricter level, at which answers that
are wrong at just the wished rate pass anywhere with no more than the risk allowed. This takes for granted that more
unusual images are no less often wrong.
"""

import math

import numpy as np
import torch
from scipy import stats
from torch import Tensor


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
        allowed = _unlikely(start, count, max_error, middle)
        low, high = (middle, high) if chance_to_pass(allowed, start, max_error) <= risk else (low, middle)
    return _unlikely(start, count, max_error, low)


def chance_to_pass(allowed: list[int], start: int, rate: float) -> float:
    """The probability that answers, each wrong at this rate, have no more mistakes than allowed at any number."""
    # not_yet[k]: k mistakes, and never few enough so far. More than are ever allowed need not be followed.
    not_yet = stats.binom.pmf(np.arange(allowed[-1] + 1), start, rate)
    passed = 0.0
    for most in allowed:
        passed += float(not_yet[: most + 1].sum())
        not_yet[: most + 1] = 0
        not_yet[1:] = not_yet[1:] * (1 - rate) + not_yet[:-1] * rate
        not_yet[:1] *= 1 - rate
    return passed


def upper_bound(mistakes: int, count: int, confidence: float) -> float:
    """The largest rate of mistakes at which so few of them are not yet too unlikely (Clopper–Pearson)."""
    return float(stats.beta.ppf(confidence, mistakes + 1, count - mistakes)) if mistakes < count else 1.0


def _unlikely(start: int, count: int, rate: float, level: float) -> list[int]:
    """The most mistakes that have at most the probability `level`, they or fewer, for each number of answers."""
    answers = np.arange(start, count + 1)
    most = stats.binom.ppf(level, answers, rate)  # the fewest that reach the level
    return np.where(stats.binom.cdf(most, answers, rate) <= level, most, most - 1).astype(int).tolist()
