"""scripts/verdicts.py on a tiny calibrated run."""

import json
import runpy
import sys
from pathlib import Path

import pytest

import hitnet

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "verdicts.py"


def test_the_table_says_what_the_runs_say_of_their_test_images(settings, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("hitnet.runs.result.plot", lambda *_: None)
    runs = [hitnet.train(settings(decoder="none", validation=0.25, seed=seed)) for seed in (0, 1)]
    monkeypatch.setattr(
        sys, "argv", ["verdicts.py", *(str(run.path) for run in runs), "--out", str(tmp_path / "found")]
    )
    runpy.run_path(str(SCRIPT), run_name="__main__")
    rows = json.loads((tmp_path / "found.json").read_text())["runs"]
    for run, row in zip(runs, rows, strict=True):
        assert row["verdicts"] == run.read_result()["verdicts"]
        assert (row["data"], row["calibrated_on"], row["strange"]) == ("squares", 24, None)
    cells = [cell.strip() for cell in (tmp_path / "found.md").read_text().splitlines()[2].split("|")[1:-1]]
    sure = [100 * row["verdicts"]["sure"] / 30 for row in rows]
    assert cells[:2] == ["squares", "2"]
    assert cells[4].split(" ± ")[0] == f"{sum(sure) / 2:.2f}"
    assert cells[-1] == "–"


def test_a_run_that_is_not_calibrated_is_refused_with_the_remedy(settings, tmp_path: Path, monkeypatch):
    run = hitnet.train(settings(decoder="none", epochs=1))
    monkeypatch.setattr(sys, "argv", ["verdicts.py", str(run.path), "--out", str(tmp_path / "found")])
    with pytest.raises(ValueError, match="is not calibrated; calibrate it with: hitnet calibrate"):
        runpy.run_path(str(SCRIPT), run_name="__main__")
