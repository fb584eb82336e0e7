"""Means of few runs and what may be said of them, against scipy and by hand."""

import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hitnet.experiments.claims import counted, lower, table2_claims, table3_claims
from hitnet.experiments.protocol import DATA
from hitnet.experiments.significance import Errors, conclude, sign_test, welch
from hitnet.experiments.speed import Ratio

errors = st.lists(st.integers(0, 10_000), min_size=2, max_size=20).map(lambda counts: tuple(n / 100 for n in counts))


def test_a_sample_says_mean_deviation_and_number_of_runs():
    sample = Errors((0.38, 0.42, 0.40))
    assert sample.mean == pytest.approx(0.40)
    assert sample.deviation == pytest.approx(statistics.stdev([0.38, 0.42, 0.40])) == pytest.approx(0.02)
    assert str(sample) == "0.40 ± 0.020 (3)"
    assert str(Errors((0.4,))) == "0.40 (1)"


@pytest.mark.filterwarnings("ignore:Precision loss")  # scipy's, where all errors of one side are the same
@settings(deadline=None, max_examples=100)
@given(errors, errors)
def test_welchs_test_is_scipys(own, rival):
    p = welch(Errors(own), Errors(rival))
    if len(set(own)) == len(set(rival)) == 1:
        assert p is None
    else:
        expected = stats.ttest_ind(own, rival, equal_var=False, alternative="less").pvalue
        assert p == pytest.approx(expected, abs=1e-4)


def test_the_sign_test_is_the_binomial_one():
    for trials in range(1, 17):
        for count in range(trials + 1):
            assert sign_test(count, trials) == pytest.approx(stats.binom.sf(count - 1, trials, 0.5))


@pytest.mark.parametrize(
    ("p", "conclusion"),
    [
        (0.001, "holds"),
        (0.999, "does not hold"),
        (0.05, "not decided at this scale"),
        (0.5, "not decided at this scale"),
        (None, "not decided at this scale"),
    ],
)
def test_a_conclusion_needs_5_percent(p, conclusion):
    assert conclude(p) == conclusion


def test_one_run_or_no_spread_decides_nothing():
    assert welch(Errors((0.1,)), Errors((0.9, 0.91))) is None
    assert welch(Errors((0.1, 0.1)), Errors((0.9, 0.9))) is None


def test_a_claim_about_cells_that_were_not_run_is_not_made():
    found = {("HitNet", "MNIST"): Errors((0.3, 0.4))}
    assert list(lower(found, ("HitNet", "MNIST"), ("N1", "MNIST"), "")) == []


@pytest.mark.parametrize(
    ("successes", "conclusion"), [(13, "holds"), (3, "does not hold"), (10, "not decided at this scale")]
)
def test_counts_of_experiments_are_judged_by_tosses_of_a_coin(successes, conclusion):
    assert counted("", [0.1] * successes + [-0.1] * (16 - successes)).conclusion == conclusion


def test_ties_are_no_tosses():
    claim = counted("", [0.1] * 5 + [0.0, 0.1 + 0.2 - 0.3])
    assert (claim.measured, claim.conclusion) == ("in 5 of 5, without 2 ties", "holds")
    assert claim.p == pytest.approx(1 / 32)
    assert counted("", [0.0]).conclusion == "not decided at this scale"


def test_hit_or_miss_is_judged_by_network_and_in_all():
    found = {
        ("N1", "MNIST"): Errors((0.52, 0.50, 0.54)),
        ("HitNet", "MNIST"): Errors((0.38, 0.37, 0.39)),
        ("LeNet-5", "SVHN"): Errors((11.0, 12.0)),
        ("LeNet-5, HoM", "SVHN"): Errors((11.5, 11.6)),
        ("ResNet-18", "MNIST"): Errors((0.5,)),
    }
    claims = list(table3_claims(found))
    assert [claim.words for claim in claims[:-2]] == ["Hit-or-Miss lowers the error: LeNet-5, SVHN"]
    assert claims[0].conclusion == "not decided at this scale"
    assert [claim.measured for claim in claims[-2:]] == ["in 1 of 2", "in 2 of 2"]


def test_where_the_papers_error_rose_a_lower_one_is_not_its_claim():
    words = "DenseNet-40-12"
    found = {
        (network, data): Errors((1.0, 2.0)) for network in (words, f"{words}, HoM") for data in ("CIFAR-10", "SVHN")
    }
    first, second = [claim.words for claim in table3_claims(found)][:2]
    assert first == "our comparison, not the paper's claim: Hit-or-Miss lowers the error: DenseNet-40-12, CIFAR-10"
    assert second == "Hit-or-Miss lowers the error: DenseNet-40-12, SVHN"


def test_only_what_the_paper_says_of_capsnet_is_called_its_claim():
    found = {(network, data): Errors((1.0, 2.0)) for network in ("HitNet", "CapsNet") for data in DATA}
    claims = table2_claims(found, dict.fromkeys(found, 4))
    claimed = [claim.words.split(" on ")[1] for claim in claims if not claim.words.startswith("our comp")]
    assert claimed == ["CIFAR-10", "affNIST"]


def test_networks_with_unequal_epochs_decide_no_claim_of_the_paper_and_both_numbers_are_told():
    found = {(network, "CIFAR-10"): Errors((1.0, 2.0)) for network in ("HitNet", "CapsNet")}
    (claim,) = table2_claims(found, {("HitNet", "CIFAR-10"): 15, ("CapsNet", "CIFAR-10"): 7})
    assert claim.words.startswith("our comparison, not the paper's claim: ")
    assert claim.words.endswith("on CIFAR-10, after 15 and 7 epochs")


def test_the_interval_of_a_ratio_holds_its_median():
    ratio = Ratio([1.4, 1.5, 1.6, 1.7, 9.0])
    low, high = ratio.interval
    assert ratio.median == 1.6
    assert 1.4 <= low < 1.6 < high <= 9.0
    assert ratio.interval == ratio.interval
    assert math.isclose(Ratio([2.0, 2.0]).interval[0], 2)
