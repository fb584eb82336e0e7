"""Damaged files of every kind, a short form of `python tests/support/fuzz.py 100000`."""

import resource

from support.fuzz import fuzz


def test_damaged_files_are_opened_or_refused_in_words_without_much_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = fuzz(3_000)
    assert not report.failures, "\n".join(report.failures[:5])
    assert min(report.inputs.values()) > 100  # of each kind
    assert all(report.refused[kind] > 0 for kind in report.inputs if kind != "records")
    assert report.slowest < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # kB
