"""The whole way from a command to tables, figures and a report."""

import csv
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from hitnet import console
from hitnet.console.experiments import progress_table
from hitnet.experiments.cost import gpu_hours
from hitnet.experiments.protocol import SCALES, Protocol, Trial
from hitnet.experiments.reproduce import Listener, reproduce
from hitnet.experiments.runner import Progress

FIGURES = {
    "loss",
    *(f"errors-{name}" for name in ("table1", "table2", "table3", "hybrid")),
    *(
        f"{name}-{decoder}"
        for name in ("prototypes", "components", "deformations", "deformations-of-2", "hybrid")
        for decoder in ("paper", "standardised")
    ),
}


def test_everything_at_the_smallest_scale(tmp_path: Path):
    command = [sys.executable, "-m", "hitnet", "reproduce", "all", "--scale", "smoke", "--workers", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=590, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    out = tmp_path / "reproduce" / "smoke"
    trials = Protocol(SCALES["smoke"], out).trials("all")
    with open(out / "results.csv") as file:
        assert len(list(csv.DictReader(file))) == len(trials) == 28
    tables = ("claims", "table1", "table2", "table3", "table3-decrease", "hybrid", "ablations", "speed")
    assert {path.name for path in (out / "tables").iterdir()} == {
        f"{name}{suffix}" for name in tables for suffix in (".md", ".csv", ".tex")
    }
    assert {path.name for path in (out / "figures").iterdir()} == {
        f"{name}{suffix}" for name in FIGURES for suffix in (".png", ".svg")
    }
    page = (out / "report.html").read_text()
    assert page.count("<img ") == len(FIGURES)
    assert page.count("<table") == len(tables)
    assert done.stdout.count(": done, test error") == len(trials)
    assert done.stdout.splitlines()[0].startswith("28 runs, 0 of them already finished; the others take about")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runs": 0}, "runs must be at least 1, got 0"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"workers": 2, "ray": "auto"}, "choose one of them"),
    ],
)
def test_a_mistake_is_answered_before_anything_is_written(tmp_path: Path, options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        reproduce("table1", "smoke", tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_second_command_in_the_same_folder_is_refused(tmp_path: Path, monkeypatch):
    refused = []

    def start_another(*_: object) -> None:
        with pytest.raises(
            RuntimeError, match="another command is running in .*; wait for it, or choose another --out"
        ):
            reproduce("table2", "smoke", tmp_path)
        refused.append(True)

    monkeypatch.setattr("hitnet.experiments.reproduce.run_local", start_another)
    for _ in range(2):  # after the first has ended there is room again
        reproduce("table1", "smoke", tmp_path)
    assert len(refused) == 2


def test_a_failed_run_is_told_and_the_tables_hold_the_others(tmp_path: Path, monkeypatch):
    def fail(found: list[Progress], workers: int, watch: Callable) -> None:
        for progress in found:
            progress.status, progress.problem = "failed", "no luck:\nnone"

    monkeypatch.setattr("hitnet.experiments.reproduce.run_local", fail)
    told: list[str] = []

    class Hears(Listener):
        def written(self, tables, problems, path) -> None:
            told.extend(problems)
            assert tables == []

    assert reproduce("table1", "smoke", tmp_path, listener=Hears()) is False
    assert len(told) == 8
    assert "failed: n1 on mnist-mini, constant, seed 0: no luck: none</li>" in (tmp_path / "report.html").read_text()


def test_another_scale_in_the_same_folder_is_refused(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("hitnet.experiments.reproduce.run_local", lambda *_: None)
    reproduce("table1", "smoke", tmp_path)
    with pytest.raises(ValueError, match="holds experiments at scale smoke, expected laptop; choose another --out"):
        reproduce("speed", "laptop", tmp_path)


def test_a_missing_data_set_is_told_before_anything_is_trained(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HITNET_DATA", str(tmp_path))
    monkeypatch.setattr("hitnet.experiments.reproduce.run_local", lambda *_: pytest.fail("nothing is to be trained"))
    with pytest.raises(FileNotFoundError, match="mnist needs train-images"):
        reproduce("table1", "laptop", tmp_path / "out")


def test_a_folder_that_cannot_be_written_is_told_with_the_remedy(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match=r"cannot write into .*file \(File exists\); choose another --out"):
        reproduce("table1", "smoke", tmp_path / "file")


def test_a_network_that_is_elsewhere_is_not_drawn_and_everything_else_is(
    tmp_path: Path, monkeypatch, pretend: Callable
):
    monkeypatch.setattr("hitnet.experiments.reproduce.run_local", lambda *_: None)
    for trial in Protocol(SCALES["smoke"], tmp_path).trials("table1"):
        pretend(trial, 0.5)
    told: list[str] = []

    class Hears(Listener):
        def written(self, tables, problems, path) -> None:
            told.extend(problems)
            assert [table.name for table in tables] == ["claims", "table1"]

    assert reproduce("table1", "smoke", tmp_path, listener=Hears())
    assert len(told) == 1
    assert told[0].startswith("not drawn: a network with the paper's decoder: ")
    assert "errors-table1.png" in {path.name for path in (tmp_path / "figures").iterdir()}
    assert "not drawn: a network" in (tmp_path / "report.html").read_text()


def test_an_interruption_says_how_to_go_on(tmp_path: Path, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hitnet.experiments.reproduce.run_local", interrupt)
    with pytest.raises(KeyboardInterrupt, match="the same command resumes from the last epochs"):
        reproduce("table1", "smoke", tmp_path)


def many(tiny: Callable[..., Trial]) -> list[Progress]:
    """Two done, one running, one failed, six waiting."""
    found = [Progress(tiny(seed=seed)) for seed in range(10)]
    for progress in found[:3]:
        progress.rows = [{"test_error": 2.5}] * 3
        progress.end()
    found[2].status, found[2].rows = "running", [{"test_error": 7.125}]
    found[3].end("no luck")
    return found


def test_one_table_shows_what_runs_what_is_done_and_what_waits(tiny: Callable[..., Trial]):
    page = Console(width=100, record=True, file=io.StringIO())
    page.print(progress_table(many(tiny), 5400, most=6))
    text = page.export_text()
    assert "2 done, 1 running, 6 waiting, 1 failed; 1:30:00 left" in text
    rows = [line.split("│")[1:-1] for line in text.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in row] for row in rows]
    assert cells[0] == ["lenet5 on mnist-mini, tiny, seed 2", "1/3", "7.12", "running"]
    assert [row[3] for row in cells] == ["running", "failed", "done", "done", "waiting", ""], "six lines, not seven"
    assert [row[0][-1] for row in cells[2:4]] == ["1", "0"], "what ended last comes first"
    assert cells[-1][0] == "… and 5 more"


def test_on_a_narrow_terminal_a_run_is_still_one_line(tiny: Callable[..., Trial]):
    page = Console(width=50, record=True, file=io.StringIO())
    page.print(progress_table(many(tiny), 5400, most=6))
    rows = [line.split("│")[1:-1] for line in page.export_text().splitlines() if line.startswith("│")]
    assert [cell.strip() for cell in rows[0]] == ["lenet5 on m…", "1/3", "7.12", "running"]
    assert len(rows) == 6


def test_without_a_terminal_a_line_tells_what_began_and_what_ended(tiny: Callable[..., Trial], capsys):
    with console.ExperimentsView() as view:
        found = [Progress(tiny(seed=seed)) for seed in range(10)]
        view.planned(found, 60)
        view.changed(many(tiny), 5400)
        view.changed(many(tiny), 5400)
    lines = capsys.readouterr().out.splitlines()
    tail = "; 3 of 10 runs, about 1:30:00 left"
    assert lines == [
        "10 runs, 0 of them already finished; the others take about 60 s on two cores of a server",
        f"lenet5 on mnist-mini, tiny, seed 0: done, test error 2.50 %{tail}",
        f"lenet5 on mnist-mini, tiny, seed 1: done, test error 2.50 %{tail}",
        f"lenet5 on mnist-mini, tiny, seed 2: resumes after epoch 1{tail}",
        f"lenet5 on mnist-mini, tiny, seed 3: failed, no luck{tail}",
    ]


def test_the_plan_tells_the_hours_of_what_is_not_finished_yet(capsys):
    trials = Protocol(SCALES["paper"], Path("out")).trials("table1")
    finished, others = trials[:100], trials[100:]
    console.ExperimentsView().planned([*(Progress(trial, "done") for trial in finished), *map(Progress, others)], 1e6)
    assert f"12 days on two cores of a server, {gpu_hours(others):.0f} hours of a GPU" in capsys.readouterr().out
    console.ExperimentsView().planned([Progress(trial, "done") for trial in finished], 0)
    assert capsys.readouterr().out == "100 runs, 100 of them already finished\n"
