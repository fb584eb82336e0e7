"""scripts/variation_speed.py: every recipe beside a training step."""

import pytest
import variation_speed

from hitnet.defaults import RECIPES


def test_every_recipe_without_a_teacher_is_timed_beside_a_step(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(variation_speed, "BATCH", 4)
    monkeypatch.setattr(variation_speed, "NETWORKS", ("hitnet-fast",))
    seconds = variation_speed.measure(3, 12, rounds=1)
    assert seconds.keys() == {*RECIPES.keys() - {"hybrid"}, "digits, bent", "hitnet-fast"}
    assert all(value > 0 for value in seconds.values())


def test_the_table_gives_shares_of_the_step_of_the_same_images():
    times = {"none": 0.001, "digits": 0.004, "hitnet-fast": 0.1, "hitnet-deep": 0.4}
    lines = variation_speed.table(
        {"grey": times, "colour": {name: 2 * value for name, value in times.items()}}
    ).splitlines()
    assert lines[0].count("% of hitnet-deep") == 2
    assert lines[3] == "| digits | 4.0 | 4.0 | 1.0 | 8.0 | 4.0 | 1.0 |"
    assert len(lines) == 4
