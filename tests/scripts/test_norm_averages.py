"""scripts/norm_averages.py on a tiny run whose averages are spoilt."""

import json
import runpy
import sys
from pathlib import Path
from shutil import copytree

import hitnet
from hitnet.core.checkpoint import write_checkpoint

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "norm_averages.py"


def test_averages_computed_anew_undo_stale_ones(squares_run: Path, tmp_path: Path, monkeypatch):
    run = copytree(squares_run, tmp_path / "run")
    errors = {}
    for name, shift in (("good", 0.0), ("stale", 3.0)):
        model = hitnet.load(squares_run)
        model.head.layer.batch_norm.running_mean += shift * model.head.layer.batch_norm.running_var.sqrt()
        write_checkpoint(run / "model", model.config, model.state_dict())
        monkeypatch.setattr(sys, "argv", ["norm_averages.py", str(run), "--out", str(tmp_path / name)])
        runpy.run_path(str(SCRIPT), run_name="__main__")
        (errors[name],) = json.loads((tmp_path / f"{name}.json").read_text())["runs"]
    assert errors["stale"]["as_saved"] > errors["good"]["as_saved"]
    assert errors["stale"]["anew"] == errors["good"]["anew"]
    saved = json.loads((squares_run / "result.json").read_text())["test"]["error"]
    assert errors["good"]["as_saved"] == saved
    cells = (tmp_path / "good.md").read_text().splitlines()[2].split(" | ")
    assert cells[-2] == f"{saved:.2f}"
