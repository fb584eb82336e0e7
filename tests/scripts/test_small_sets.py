"""scripts/small_sets.py on a tiny folder, with a run that is already there."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import hitnet
from hitnet.runs.run import Run

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "small_sets.py"


@pytest.fixture
def shades(tmp_path: Path) -> Path:
    """A folder of two classes that are easily told apart, 15 pictures each."""
    random, folder = np.random.default_rng(0), tmp_path / "shades"
    for index, name in enumerate(("dark", "light")):
        (folder / name).mkdir(parents=True)
        for number in range(15):
            pixels = random.integers(100 * index, 100 * index + 120, (8, 8))
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")
    return folder


def test_numbers_of_steps_are_compared_by_held_out_pictures(shades: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("hitnet.runs.result.plot", lambda *_: None)
    files = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "found")]
    monkeypatch.setattr(sys, "argv", ["small_sets.py", str(shades), "--seeds", "2", "--steps", "2", "4", *files])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    [row] = json.loads((tmp_path / "found.json").read_text())["sets"]
    for seed in range(2):
        for steps, epochs in ((2, 1), (4, 2)):  # two steps an epoch: 19 pictures in batches of 16
            metrics = Run(tmp_path / "runs" / f"{steps}-steps" / "shades" / f"hitnet-fast-s{seed}").read_metrics()
            assert len(metrics) == epochs
            assert row["errors"][str(steps)][seed] == metrics[-1]["validation_error"]
    assert (tmp_path / "found.md").read_text().count("±") == 2


def test_the_table_has_the_runs_error_beside_those_of_simple_classifiers(shades: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("hitnet.runs.result.plot", lambda *_: None)
    usual = {"image_size": 32, "epochs": 2, "width": 2, "capsule_dim": 2, "finishing": 0.0}
    run = hitnet.train(hitnet.TrainConfig(data=str(shades), out=tmp_path / "runs", **usual))
    files = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "found")]
    monkeypatch.setattr(sys, "argv", ["small_sets.py", str(shades), "--seeds", "1", *files])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    [row] = json.loads((tmp_path / "found.json").read_text())["sets"]
    result = run.read_result()
    assert (row["folder"], row["train"], row["test"], row["classes"]) == ("shades", 24, 6, 2)
    assert row["runs"][0]["error"] == result["test"]["error"]
    assert row["simple"]["random forest"] == pytest.approx(result["baseline"]["error"]), "the same forest"
    cells = [cell.strip() for cell in (tmp_path / "found.md").read_text().splitlines()[2].split("|")[1:-1]]
    assert cells[0] == "shades"
    assert cells[3].strip("*") == f"{result['test']['error']:.1f}"
