"""The paper's claims, each with a conclusion from our runs: holds, does not hold, or not decided at this scale.

Whether one network has a lower error than another is decided by Welch's t test on the runs of both, one-sided at 5 %.
The test works with few runs, does not need equal variances, and assumes roughly normal errors. A claim *does not hold*
when the test shows the opposite at 5 %. Whether something fell in many experiments is decided by a sign test. No test
is corrected for multiple testing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from hitnet.experiments.outcome import ErrorTable, Failures, all_errors
from hitnet.experiments.paper import BEATEN, DECREASE, SPEED
from hitnet.experiments.protocol import CONSTANT, DATA, FALLING, HYBRID, PLAIN, Grid, Protocol
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
    """What the paper says, what was measured, and whether they agree."""

    words: str
    measured: str
    p: float | None
    conclusion: Conclusion


def all_claims(protocol: Protocol, speed: Speed | None = None) -> list[Claim]:
    """The claims that have finished runs."""
    return [
        *table1_claims(all_errors(protocol.grid("table1"))),
        *table2_claims(all_errors(protocol.grid("table2")), epochs_of(protocol.grid("table2"))),
        *table3_claims(all_errors(protocol.grid("table3"))),
        *hybrid_claims(all_errors(protocol.grid("hybrid"))),
        *(speed_claims(speed) if speed is not None else ()),
    ]


def table1_claims(errors: ErrorTable) -> Iterator[Claim]:
    for rate in (CONSTANT, FALLING):
        for rival in ("N1", "N2", "N2b"):
            yield from lower(
                errors, ("HitNet", rate), (rival, rate), f"HitNet has a lower error than {rival} on MNIST, {rate}"
            )
    for network in ("N1", "N2", "N2b", "HitNet"):
        words = f"{network} has a lower error at a falling rate than at a constant one"
        yield from lower(errors, (network, FALLING), (network, CONSTANT), words)


def epochs_of(grid: Grid) -> dict[tuple[str, str], int]:
    return {place: cell.trials[0].settings.epochs for place, cell in grid.items() if cell.trials}


def table2_claims(errors: ErrorTable, epochs: dict[tuple[str, str], int]) -> Iterator[Claim]:
    for data in DATA:
        own, rival = ("HitNet", data), ("CapsNet", data)
        if own not in errors or rival not in errors:
            continue
        words = f"HitNet has a lower error than CapsNet with routing on {data}"
        if epochs[own] == epochs[rival]:
            yield from lower(errors, own, rival, words if data in BEATEN else OURS + words)
        else:
            words += f", after {epochs[own]} and {epochs[rival]} epochs"
            yield from lower(errors, own, rival, OURS + words)


def table3_claims(errors: ErrorTable) -> Iterator[Claim]:
    pairs = pairs_of(errors)
    for (name, data), (before, after) in pairs.items():
        if (name, data) != ("N1 → HitNet", "MNIST"):  # the same runs as in table 1, listed there
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


def hybrid_claims(errors: ErrorTable) -> Iterator[Claim]:
    for _, column in [place for place in errors if place[0] == HYBRID]:
        words = f"Hybrid augmentation lowers HitNet's error: {column}"
        yield from lower(errors, (HYBRID, column), (PLAIN, column), words)


def speed_claims(speed: Speed) -> Iterator[Claim]:
    if speed.width is not None:
        return  # narrow networks say nothing about the paper's
    for path, ratio in speed.ratios.items():
        low, high = ratio.interval
        conclusion: Conclusion = (
            "holds" if low >= SPEED else "does not hold" if high < SPEED else "not decided at this scale"
        )
        measured = f"{ratio.median:.2f} times ({low:.2f} to {high:.2f})"
        yield Claim(f"HitNet trains at least {SPEED:.0f} times faster than CapsNet: {path}", measured, None, conclusion)


def lower(errors: ErrorTable, own: tuple[str, str], rival: tuple[str, str], words: str) -> Iterator[Claim]:
    """The claim that `own` has a lower error than `rival`, if there are runs of both."""
    if own in errors and rival in errors:
        p = welch(errors[own], errors[rival])
        yield Claim(words, f"{errors[own]} against {errors[rival]}", p, conclude(p))


def counted(words: str, decreases: list[float]) -> Claim:
    """The claim that something fell in most experiments; ties (up to rounding) are left out."""
    fell = [decrease > 0 for decrease in decreases if abs(decrease) > 1e-9]
    count, trials, ties = sum(fell), len(fell), len(decreases) - len(fell)
    p, opposite = sign_test(count, trials), sign_test(trials - count, trials)
    conclusion: Conclusion = (
        "holds" if p < LEVEL else "does not hold" if opposite < LEVEL else "not decided at this scale"
    )
    return Claim(words, f"in {count} of {trials}" + (f", without {ties} ties" if ties else ""), p, conclusion)


def claims_table(claims: list[Claim], protocol: Protocol, failures: Failures) -> Table:
    rows = [[claim.words, claim.conclusion, claim.measured, _p(claim.p)] for claim in claims]
    records = [
        {"claim": claim.words, "conclusion": claim.conclusion, "found": claim.measured, "p": claim.p}
        for claim in claims
    ]
    scale = f"every conclusion is for this scale only ({protocol.scale.name})"
    notes = [*NOTES, scale, *protocol.scale.notes, *failures.values()]
    return Table(
        "claims", "The paper's claims", ["claim", "conclusion", "found (errors in %)", "p"], rows, notes, records
    )


def _p(p: float | None) -> str:
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
