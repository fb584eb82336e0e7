"""From the command line to a page that answers, and what is said when that cannot be."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.explorer_runs import fake_run
from support.hammer import hammer, memory

from hitnet import cli, errors
from hitnet.core.model import create_model
from hitnet.files import write_json
from hitnet.runs.run import Run
from hitnet.web import comparison, launch


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="memory is read from /proc")
def test_two_hundred_people_at_once_get_answers_and_ctrl_c_ends_it(
    started: tuple[subprocess.Popen[str], int],
) -> None:
    process, port = started
    asyncio.run(hammer(port, 1, connections=20))
    before = memory(process.pid)
    statuses = asyncio.run(hammer(port, 3))
    assert sum(statuses.values()) > 200
    assert set(statuses) <= {200, 400, 404}, statuses
    assert memory(process.pid) - before < 200
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    assert process.stdout is not None
    assert "Traceback" not in process.stdout.read()


def test_the_newest_finished_run_with_prototypes_is_explored(runs: Path, run: Path, tmp_path: Path) -> None:
    # The run that was finished last has no prototypes to look at.
    assert launch.newest_run(runs) == run
    assert launch.newest_run(tmp_path) is None
    fake_run(tmp_path / "data" / "unfinished", create_model("lenet5-hom", width=2))
    assert launch.newest_run(tmp_path) is None


def test_a_run_whose_package_is_missing_is_passed_over_and_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_without_timm(path: Path) -> None:
        raise RuntimeError("networks of timm need timm")

    path = fake_run(tmp_path / "data" / "timm", create_model("lenet5-hom", width=2))
    write_json(path / "result.json", {})
    assert launch.newest_run(tmp_path) == path
    monkeypatch.setattr("hitnet.runs.run.load", load_without_timm)
    assert launch.newest_run(tmp_path) is None
    monkeypatch.setattr(comparison, "load", load_without_timm)
    with pytest.raises(ValueError, match="need timm"):  # which the page shows
        comparison.describe_run(Run(path))


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_cannot_be_is_refused(port: int) -> None:
    with pytest.raises(ValueError, match=rf"--port must lie in 0\.\.65535 .* got {port}"):
        launch.bind("127.0.0.1", port)


def test_without_any_run_the_demo_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115 - pytest closes it
    with pytest.raises(FileNotFoundError, match="make one with: hitnet train"):
        cli.explore(no_browser=True)
    sys.stdin.close()


def test_the_demo_is_trained_when_the_person_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: "y")
    # Nobody asked to replace anything: the run that lies where others go stays.
    monkeypatch.setattr("hitnet.runs.train.train", lambda config, watcher: Run.named(config, config.data))
    served = []
    monkeypatch.setattr(launch, "serve", lambda *arguments: served.append(arguments[0]))
    cli.explore(no_browser=True)
    assert served == [Path("runs/demo/mnist-mini/hitnet-fast-s0")]


def test_export_writes_one_file_and_says_how_large_it_is(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.export(run, out=tmp_path / "page.html")
    assert re.search(r"page\.html \(\d\.\d MB\)", capsys.readouterr().out.replace("\n", ""))
    assert "<script src" not in (tmp_path / "page.html").read_text()


def test_a_missing_package_is_named_with_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"pip install 'hitnet\[explore\]'"):
        launch.require_server()


def test_a_taken_port_is_avoided_or_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"port {port}.*choose another with --port"):
            launch.bind("127.0.0.1", port)
    with pytest.raises(ValueError, match="no address"):
        launch.bind("no.such.host.invalid", None)


def test_only_another_host_than_this_machine_brings_a_warning(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: None)
    said: list[str] = []
    launch.serve(run, "127.0.0.1", None, False, said.append)
    assert len(said) == 1
    assert "127.0.0.1" in said[0]
    launch.serve(run, "0.0.0.0", None, False, said.append)
    assert any("warning" in line and "no password" in line for line in said[1:])
