"""Thresholds for a wished error: against scipy, against all possible sequences of answers, and in a simulated world."""

from functools import cache
from itertools import product

import pytest
import torch
from scipy import stats

from hitnet.runs import bounds
from hitnet.runs.bounds import allowed_mistakes, chance_to_pass, choose_threshold, upper_bound


@pytest.mark.parametrize(("mistakes", "count"), [(0, 1), (0, 3000), (3, 10), (7, 6000), (400, 5000), (5, 5)])
def test_at_the_upper_bound_so_few_mistakes_are_as_unlikely_as_the_confidence_allows(mistakes, count):
    bound = upper_bound(mistakes, count, 0.95)
    if mistakes == count:
        assert bound == 1
    else:
        assert stats.binom.cdf(mistakes, count, bound) == pytest.approx(0.05)


def test_no_answers_bound_nothing():
    assert upper_bound(0, 0, 0.95) == 1


def naive_chance(allowed: list[int], start: int, rate: float) -> float:
    """The probability of all sequences of answers that pass, one by one."""
    chance, count = 0.0, start + len(allowed) - 1
    for sequence in product([0, 1], repeat=count):
        if any(sum(sequence[: start + place]) <= most for place, most in enumerate(allowed)):
            chance += rate ** sum(sequence) * (1 - rate) ** (count - sum(sequence))
    return chance


@pytest.mark.parametrize(
    ("start", "rate", "allowed"),
    [
        (5, 0.3, [0, 0, 1, 1, 1, 2]),
        (5, 0.9, [2, 3, 4, 5, 6, 7]),  # in the end more mistakes than there were answers at first
        (1, 0.99, [-1, 0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_the_chance_to_pass_is_the_sum_over_all_sequences_that_pass(start, rate, allowed):
    assert chance_to_pass(allowed, start, rate) == pytest.approx(naive_chance(allowed, start, rate))


@pytest.mark.parametrize(
    ("start", "count", "max_error"), [(500, 1000, 0.01), (40, 60, 0.1), (59, 59, 0.05), (150, 300, 0.9)]
)
def test_answers_at_just_the_wished_error_pass_hardly_more_seldom_than_the_risk_allows(start, count, max_error):
    chance = chance_to_pass(allowed_mistakes(start, count, max_error, 0.05), start, max_error)
    assert 0.02 < chance <= 0.05


@pytest.mark.parametrize("max_error", [0.3, 0.6, 0.9, 0.99, 0.999999])
def test_whatever_the_wished_error_is_every_number_is_tested_at_one_level_that_keeps_to_the_risk(max_error):
    start, count, risk = 6, 12, 0.2
    allowed = allowed_mistakes(start, count, max_error, risk)
    assert naive_chance(allowed, start, max_error) <= risk
    chances = [stats.binom.cdf([most, most + 1], start + place, max_error) for place, most in enumerate(allowed)]
    assert max(passed for passed, _ in chances) <= min(refused for _, refused in chances)


@pytest.mark.parametrize("max_error", [0.9, 0.99])
def test_a_large_error_may_be_wished_too(max_error):
    scores = torch.linspace(0, 1, 300)
    assert choose_threshold(scores, torch.arange(300) % 2 == 0, max_error, 0.95) == 1
    with pytest.raises(ValueError, match="150 of the 150 most certain of 300 answers are wrong"):
        choose_threshold(scores, torch.ones(300, dtype=torch.bool), max_error, 0.95)


def test_in_a_world_that_is_known_the_error_exceeds_the_wished_one_no_more_often_than_the_risk(monkeypatch):
    monkeypatch.setattr(bounds, "allowed_mistakes", cache(allowed_mistakes))  # always the same question
    # An image of score s is wrong with probability s⁴, so that answers up to t are wrong with probability t⁴/5.
    max_error, risk, worlds, broken, answered = 0.1, 0.2, 1000, 0, 0.0
    for seed in range(worlds):
        generator = torch.Generator().manual_seed(seed)
        scores = torch.rand(400, generator=generator)
        wrong = torch.rand(400, generator=generator) < scores**4
        threshold = choose_threshold(scores, wrong, max_error, 1 - risk)
        broken += threshold**4 / 5 > max_error
        answered += threshold / worlds
    assert broken / worlds <= risk
    # Somebody who knew the world would answer up to 0.5^¼ = 0.84.
    assert 0.75 < answered < 0.84


def test_an_early_mistake_does_not_end_the_search():
    scores = torch.linspace(0, 1, 1000)
    wrong = torch.zeros(1000, dtype=torch.bool)
    wrong[520] = True
    wrong[950:] = True
    threshold = choose_threshold(scores, wrong, 0.01, 0.95)
    assert int((scores <= threshold).sum()) > 900


def test_images_of_the_same_score_are_answered_together():
    scores = torch.cat([torch.zeros(60), torch.ones(40)])
    wrong = torch.zeros(100, dtype=torch.bool)
    wrong[[70, 75, 80, 85, 90, 95]] = True
    assert choose_threshold(scores, wrong, 0.06, 0.95) == 0
    assert choose_threshold(scores, wrong[torch.arange(100) % 60], 0.06, 0.95) == 1


def test_too_few_images_or_too_many_mistakes_are_answered_with_the_remedy():
    scores = torch.linspace(0, 1, 100)
    with pytest.raises(ValueError, match=r"100 images cannot show an error below 0.1 %, expected at least 2,995"):
        choose_threshold(scores, torch.zeros(100, dtype=torch.bool), 0.001, 0.95)
    with pytest.raises(ValueError, match=r"25 of the 50 most certain of 100 answers are wrong.*allow a larger one"):
        choose_threshold(scores, torch.arange(100) % 2 == 0, 0.1, 0.95)
