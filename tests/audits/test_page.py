"""The page of an audit: which pictures are on it, and every text is put in its own place."""

from collections import Counter

import pytest

from hitnet.audits import page as page_module
from hitnet.audits.page import _filled, _shown
from hitnet.runs.audit_folder import Issue


def issue(number: int, kind: str, given: str, predicted: str) -> Issue:
    own = (kind == "wrong label", number / 1000, kind == "odd", 2.0, 0.5, 0)
    return Issue(f"{number}.png", "train", given, predicted, kind, *own, False, False, None, False, False)


def test_the_page_has_the_worst_of_each_kind_and_some_of_every_pair_of_classes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_module, "MOST_OF_A_KIND", 10)
    monkeypatch.setattr(page_module, "MOST_OF_PAIRS", 6)
    issues = [issue(number, "wrong label", "a", "b") for number in range(20)]
    issues += [issue(number, "wrong label", "b", "a") for number in range(20, 25)]
    issues += [issue(number, "fine", "a", "a") for number in range(25, 45)]
    pairs = [{"given": "a", "suggested": "b", "images": 20}, {"given": "b", "suggested": "a", "images": 5}]
    shown = _shown(issues, range(45), pairs)
    assert shown == [*range(10), *range(20, 23), *range(25, 35)]
    assert Counter(issues[index].given_label for index in shown if issues[index].is_label_issue) == {"a": 10, "b": 3}


def test_a_name_that_looks_like_a_place_of_the_page_stays_a_name():
    page = "<style>/* style */</style><script>/* content */</script><script>/* script */</script>"
    parts = {"/* style */": "p {}", "/* content */": '["/* script */", "/* style */"]', "/* script */": "show()"}
    expected = '<style>p {}</style><script>["/* script */", "/* style */"]</script><script>show()</script>'
    assert _filled(page, parts) == expected
