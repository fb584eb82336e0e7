"""scripts/frontier.py: which recorded networks no other beats in both error and time."""

import runpy
import sys
from pathlib import Path
from shutil import copytree

import pytest
from frontier import Point, frontier
from PIL import Image

from hitnet.files import read_json, write_json

ROOT = Path(__file__).parent.parent.parent


def point(minutes: float, error: float) -> Point:
    return Point("mnist", "hitnet", minutes, error, 1, "float32", True)


def test_the_frontier_is_every_point_that_no_other_beats_in_both():
    points = [point(*pair) for pair in [(5, 1.0), (1, 3.0), (2, 4.0), (9, 0.5), (5, 0.8), (9, 0.5), (20, 0.6)]]
    naive = {
        one
        for one in points
        if not any((other.minutes <= one.minutes and other.error <= one.error) and (other != one) for other in points)
    }
    assert frontier(points) == sorted(naive, key=lambda each: each.minutes)


def test_the_figure_and_its_numbers_come_from_the_records(tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture):
    for seed in (0, 1, 2):
        name = f"svhn-hitnet-fast-standardised-s{seed}"
        copytree(ROOT / "results" / "hitnet-fast" / name, tmp_path / "records" / name)
    copytree(ROOT / "results" / "hitnet-fast" / name, tmp_path / "records" / "again" / name)  # counts once
    former = copytree(ROOT / "results" / "hitnet-fast" / name, tmp_path / "records" / "before" / name)  # does not count
    for file, changes in (
        ("env.json", {"started": "2001-01-01T00:00:00+00:00"}),
        ("result.json", {"processor_seconds": 1}),
    ):
        write_json(former / file, {**read_json(former / file), **changes})
    continued = copytree(ROOT / "results" / "hitnet-fast" / name, tmp_path / "records" / "continued")  # nor does this
    write_json(continued / "args.json", {**read_json(continued / "args.json"), "pretrained": "runs/hitnet-fast-s0"})
    arguments = ["frontier.py", str(tmp_path / "records"), "--out", str(tmp_path / "frontier.png")]
    monkeypatch.setattr(sys, "argv", arguments)
    runpy.run_path(str(ROOT / "scripts" / "frontier.py"), run_name="__main__")
    assert capsys.readouterr().out.split() == ["svhn", "hitnet-fast", "3.85", "%", "in", "16.1", "min", "(3", "runs)"]
    with Image.open(tmp_path / "frontier.png") as picture:
        assert picture.width > 100
