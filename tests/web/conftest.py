"""One small trained network for all tests of the explorer, and its server."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from starlette.testclient import TestClient
from support.browser import browser, new_page
from support.explorer_runs import fake_run, serving

from hitnet.core.model import create_model
from hitnet.runs.train import train
from hitnet.settings import TrainConfig
from hitnet.web.explorer import Explorer
from hitnet.web.server import create_app

__all__ = ["browser", "new_page"]  # fixtures of other files

QUICK = {"schedule": "one-cycle", "learning_rate": 0.004, "norm_momentum": 0.1, "threads": 1}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two finished runs: digits with prototypes, and a network without any."""
    folder = tmp_path_factory.mktemp("runs")
    digits = TrainConfig(
        model="lenet5-hom", decoder="standardised", epochs=4, train_images=3000, snapshots=True, out=folder, **QUICK
    )  # type: ignore[arg-type]
    plain = TrainConfig(model="lenet5", epochs=1, train_images=200, out=folder, **QUICK)  # type: ignore[arg-type]
    for config in (digits, plain):
        train(config)
    return folder


@pytest.fixture(scope="session")
def run(runs: Path) -> Path:
    return runs / "mnist-mini" / "lenet5-hom-s0"


@pytest.fixture(scope="session")
def explorer(run: Path) -> Explorer:
    return Explorer(run)


@pytest.fixture(scope="session")
def client(explorer: Explorer) -> TestClient:
    return TestClient(create_app(explorer), base_url="http://127.0.0.1:8421", raise_server_exceptions=False)


@pytest.fixture
def copied_run(run: Path, tmp_path: Path) -> Path:
    """The trained run where a test may change it."""
    return Path(shutil.copytree(run, tmp_path / "runs" / "mnist-mini" / "copy"))


@pytest.fixture(scope="session")
def colour_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained: 37 classes of colour images, the paper's decoder, wide capsules; its data are gone."""
    torch.manual_seed(1)
    names = tuple(f"kind number {index}" for index in range(37))
    model = create_model("lenet5-hom", (3, 24, 30), 37, 24, class_names=names, width=4)
    return fake_run(tmp_path_factory.mktemp("colour") / "pictures" / "lenet5-hom-s0", model)


@pytest.fixture(scope="session")
def address(explorer: Explorer) -> Iterator[str]:
    """The explorer on a real port."""
    with serving(explorer) as url:
        yield url


@pytest.fixture
def started(copied_run: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`hitnet explore` in a process of its own, and its port."""
    command = [sys.executable, "-m", "hitnet", "explore", str(copied_run), "--no-browser"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
    assert found, line
    yield process, int(found[1])
    process.kill()
    process.wait()
    process.stdout.close()
