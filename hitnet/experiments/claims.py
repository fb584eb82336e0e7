"""The paper's claims, each with a conclusion on what was measured: holds, does not hold, or not decided at this scale.

That one network errs less than another is asked with Welch's t test on the runs of both, one-sided, at 5 %: it suits
few runs, needs no equal spreads, and takes the errors for roughly normal. A claim *does not hold* when the test says
the opposite at 5 %. That something fell in many experiments is asked with a sign test. No test is corrected for the
number of tests.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from hitnet.experiments.outcome import ErrorTable, Failures, all_errors
from hitnet.experiments.paper import BEATEN, DECREASE, SPEED
from hitnet.experiments.protocol import CONSTANT, DATA, FALLING, HYBRID, PLAIN, Protocol
from hitnet.experiments.significance import LEVEL, Conclusion, conclude, sign_test, welch
from hitnet.experiments.speed import Speed
from hitnet.experiments.tables import Table, pairs_of

OURS = "our comparison, not the paper's claim: "
NOTES = [
    "each claim: Welch's t test on the runs of both sides, at least two each; one-sided at 5 %, not corrected for the "
    "number of claims",
    "counts of experiments: sign test, without ties; speed: the 95 % interval of the median ratio, by bootstrap",
]


@dataclass(frozen=True)
class Claim:
    """What the paper says, what was found, and whether that agrees."""

    words: str
    found: str
    p: float | None
    conclusion: Conclusion


def all_claims(protocol: Protocol, speed: Speed | None = None) -> list[Claim]:
    """Of everything that has finished runs."""
    return [
        *table1_claims(all_errors(protocol.grid("table1"))),
        *table2_claims(all_errors(protocol.grid("table2"))),
        *table3_claims(all_errors(protocol.grid("table3"))),
        *hybrid_claims(all_errors(protocol.grid("hybrid"))),
        *(speed_claims(speed) if speed is not None else ()),
    ]


def table1_claims(found: ErrorTable) -> Iterator[Claim]:
    for rate in (CONSTANT, FALLING):
        for rival in ("N1", "N2", "N2b"):
            yield from lower(found, ("HitNet", rate), (rival, rate), f"HitNet errs less than {rival} on MNIST, {rate}")
    for network in ("N1", "N2", "N2b", "HitNet"):
        words = f"{network} errs less at a falling rate than at a constant one"
        yield from lower(found, (network, FALLING), (network, CONSTANT), words)


def table2_claims(found: ErrorTable) -> Iterator[Claim]:
    for data in DATA:
        words = f"HitNet errs less than CapsNet with routing on {data}"
        yield from lower(found, ("HitNet", data), ("CapsNet", data), words if data in BEATEN else OURS + words)


def table3_claims(found: ErrorTable) -> Iterator[Claim]:
    pairs = pairs_of(found)
    for (name, data), (before, after) in pairs.items():
        if (name, data) != ("N1 → HitNet", "MNIST"):  # the same runs as in table 1, and listed there
            words = f"Hit-or-Miss lowers the error: {name}, {data}"
            p = welch(after, before)
            yield Claim(
                words if DECREASE[name][data] > 0 else OURS + words, f"{after} against {before}", p, conclude(p)
            )
    falls = [before.mean - after.mean for before, after in pairs.values()]
    if falls:
        yield counted("Hit-or-Miss lowers the mean error (paper: in 15 of 16 experiments)", falls)
    narrowings = [
        before.deviation - after.deviation
        for before, after in pairs.values()
        if before.deviation is not None and after.deviation is not None
    ]
    if narrowings:
        yield counted("Hit-or-Miss lowers the deviation between runs (paper: in 13 of 16 experiments)", narrowings)


def hybrid_claims(found: ErrorTable) -> Iterator[Claim]:
    for _, column in [place for place in found if place[0] == HYBRID]:
        words = f"Hybrid augmentation lowers HitNet's error: {column}"
        yield from lower(found, (HYBRID, column), (PLAIN, column), words)


def speed_claims(speed: Speed) -> Iterator[Claim]:
    if speed.width is not None:
        return  # narrow networks say nothing of the paper's
    for path, ratio in speed.ratios.items():
        low, high = ratio.interval
        conclusion: Conclusion = (
            "holds" if low >= SPEED else "does not hold" if high < SPEED else "not decided at this scale"
        )
        found = f"{ratio.median:.2f} times ({low:.2f} to {high:.2f})"
        yield Claim(f"HitNet trains at least {SPEED:.0f} times faster than CapsNet: {path}", found, None, conclusion)


def lower(found: ErrorTable, own: tuple[str, str], rival: tuple[str, str], words: str) -> Iterator[Claim]:
    """One claim, if there are runs of both."""
    if own in found and rival in found:
        p = welch(found[own], found[rival])
        yield Claim(words, f"{found[own]} against {found[rival]}", p, conclude(p))


def counted(words: str, decreases: list[float]) -> Claim:
    """Something fell in so many of the experiments; ties, up to rounding, say nothing either way."""
    told = [decrease > 0 for decrease in decreases if abs(decrease) > 1e-9]
    count, trials, ties = sum(told), len(told), len(decreases) - len(told)
    p, opposite = sign_test(count, trials), sign_test(trials - count, trials)
    conclusion: Conclusion = (
        "holds" if p < LEVEL else "does not hold" if opposite < LEVEL else "not decided at this scale"
    )
    return Claim(words, f"in {count} of {trials}" + (f", without {ties} ties" if ties else ""), p, conclusion)


def claims_table(claims: list[Claim], protocol: Protocol, failures: Failures) -> Table:
    rows = [[claim.words, claim.conclusion, claim.found, _p(claim.p)] for claim in claims]
    records = [
        {"claim": claim.words, "conclusion": claim.conclusion, "found": claim.found, "p": claim.p} for claim in claims
    ]
    scale = f"what holds or does not, does so at this scale ({protocol.scale.name})"
    notes = [*NOTES, scale, *protocol.scale.notes, *failures.values()]
    return Table(
        "claims", "The paper's claims", ["claim", "conclusion", "found (errors in %)", "p"], rows, notes, records
    )


def _p(p: float | None) -> str:
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
