"""scripts/collect.py: records to keep, without the paths of the machine that made them."""

import json
import runpy
import sys
from pathlib import Path
from shutil import copytree

import pytest

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "collect.py"


@pytest.fixture
def collect(tmp_path: Path, squares_run: Path, monkeypatch):
    """A function (changes of the settings, one by one) -> collect a run with each of them -> the folder of results.

    command: what the runs were started with.
    """

    def make(*changes: dict[str, object], command: list[str] | None = None) -> Path:
        runs = []
        for change in changes:
            run = copytree(squares_run, tmp_path / str(len(runs)) / "run")
            saved = json.loads((run / "args.json").read_text())
            (run / "args.json").write_text(json.dumps(saved | change, indent=2))
            environment = json.loads((run / "env.json").read_text())
            (run / "env.json").write_text(json.dumps(environment | ({"command": command} if command else {})))
            runs.append(str(run))
        monkeypatch.setattr(sys, "argv", ["collect.py", *runs, "--out", str(tmp_path / "results")])
        runpy.run_path(str(SCRIPT), run_name="__main__")
        return tmp_path / "results"

    return make


def test_seeds_share_a_line_and_other_settings_do_not(collect):
    results = collect({"seed": 0}, {"seed": 1}, {"seed": 2, "reconstruction_weight": 7.0})
    same, other = (results / "README.md").read_text().splitlines()[2:4]
    assert "(2)" in same
    assert "(1)" in other
    assert "reconstruction weight 7 " in other
    assert "reconstruction weight 7 " not in same


def test_what_all_runs_have_in_common_stands_below_the_table_instead_of_in_every_line(collect):
    usual = {"flip": True, "finishing": 0.25, "draw_size": None, "refresh_norm": False}
    results = collect(usual, usual | {"seed": 1, "reconstruction_weight": 7.0})
    *table, empty, below = (results / "README.md").read_text().splitlines()
    assert [line.split(" | ")[4] for line in table] == ["other settings", "---", "–", "reconstruction weight 7"]
    assert not empty
    assert below.startswith("All runs: ")
    for words in ("flip", "finishing 0.25", "no draw size", "no refresh norm"):
        assert words in below


def test_a_column_that_would_be_empty_is_left_out(collect):
    titles = (collect({"flip": True}) / "README.md").read_text().splitlines()[0]
    assert "other settings" not in titles


def test_runs_that_differ_in_a_setting_alone_are_named_by_where_they_were_written(collect, squares_run, tmp_path):
    light_out, heavy_out = str(tmp_path / "light"), str(tmp_path / "heavy")
    results = collect({"out": light_out}, {"out": heavy_out, "reconstruction_weight": 7.0})
    (light,), (heavy,) = results.glob("*-light"), results.glob("*-heavy")
    assert json.loads((heavy / "args.json").read_text())["reconstruction_weight"] == 7.0
    assert json.loads((heavy / "args.json").read_text())["out"] == "runs"
    assert (light / "metrics.csv").read_bytes() == (squares_run / "metrics.csv").read_bytes()


def test_two_runs_of_one_name_lose_nothing(collect, tmp_path):
    with pytest.raises(SystemExit):
        collect({"out": str(tmp_path / "one")}, {"out": str(tmp_path / "one")})
    assert not (tmp_path / "results").exists()


def test_classes_called_like_an_option_that_is_not_set_keep_their_name(collect, squares_run):
    result = json.loads((squares_run / "result.json").read_text())
    result["test"]["per_class"][0]["class"] = "None"
    (squares_run / "result.json").write_text(json.dumps(result))
    (kept,) = (path for path in collect({"data_dir": None}).iterdir() if path.is_dir())
    assert json.loads((kept / "result.json").read_text())["test"]["per_class"][0]["class"] == "None"


def test_own_data_and_teachers_are_named_without_their_folders_and_seeds_with_their_own_share_a_line(collect, tmp_path):
    place = tmp_path / "private"
    change = {"data": str(place / "set"), "augment": "hybrid", "cache": str(place / "cache")}
    change |= {"corrections": str(place / "corrections.csv")}
    command = ["hitnet", "train", "--data", f"{place}/set/", f"--corrections={place}/corrections.csv", "--lr=0.1"]
    each = [change | {"seed": seed, "teacher": str(place / f"hitnet-s{seed}")} for seed in (0, 1)]
    results = collect(*each, command=command)
    kept = json.loads(next(results.glob("*-s0/env.json")).read_text())["command"]
    assert kept == ["hitnet", "train", "--data", "set", "--corrections=corrections.csv", "--lr=0.1"]
    line = (results / "README.md").read_text().splitlines()[2]
    assert "(2)" in line
    assert not [file for file in results.rglob("*.*") if "private" in file.read_text()]


def test_a_frozen_network_is_named_without_its_folder(collect, tmp_path):
    pretrained = str(tmp_path / "runs" / "mnist" / "hitnet-s0")
    results = collect({"out": str(tmp_path / "runs"), "data": "squares", "pretrained": pretrained, "freeze": True})
    assert "pretrained hitnet-s0, freeze" in (results / "README.md").read_text()
    (kept,) = (path for path in results.iterdir() if path.is_dir())
    assert str(tmp_path) not in (kept / "args.json").read_text()
