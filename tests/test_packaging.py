"""What `python -m build` makes is complete, and trains the demo in an environment that never saw this folder."""

import email
import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).parent.parent


def run(*command: object, cwd: Path) -> str:
    """What a command prints, without any hint where this checkout lies."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=clean, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the source distribution, the wheel made from the latter as `build` does it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


def test_the_wheel_holds_every_file_of_the_package_and_no_other(built: dict[str, Path]):
    tracked = run("git", "ls-files", "hitnet", cwd=ROOT).split("\n") if (ROOT / ".git").exists() else []
    with zipfile.ZipFile(built["wheel"]) as wheel:
        names = {name for name in wheel.namelist() if not name.startswith("hitnet-")}
    assert {"hitnet/py.typed", "hitnet/web/static/index.html", "hitnet/data/mnist_mini/README.md"} <= names
    assert {name.split("/")[0] for name in names} == {"hitnet"}
    assert set(filter(None, tracked)) <= names, "files that git knows"


def test_the_source_distribution_brings_what_its_tests_need(built: dict[str, Path]):
    with tarfile.open(built["sdist"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    expected = {"pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "Makefile", "constraints.txt", "mkdocs.yml"}
    expected |= {"CHANGELOG.md", "CONTRIBUTING.md", "tests/conftest.py", "examples/plain_loop.py"}
    expected |= {"docs/export.md", "docs/images/prototypes.png", "scripts/outliers.py", "results/committee.md"}
    assert expected <= names
    assert built["sdist"].stat().st_size < 10e6


def test_extras_bring_what_the_core_can_do_without(built: dict[str, Path]):
    with zipfile.ZipFile(built["wheel"]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
        metadata = email.message_from_bytes(wheel.read(name))
    extras = {"onnx", "hub", "timm", "tensorboard", "explore", "sklearn", "ray"}
    assert set(metadata.get_all("Provides-Extra")) == extras | {"dev"}
    assert all(f"`{extra}`" in metadata.get_payload() for extra in extras - {"explore"}), "README names them"
    core = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    names = {line.split(">")[0] for line in core}
    assert names == {"torch", "numpy", "scipy", "safetensors", "tyro", "rich", "matplotlib", "pillow", "pooch"}


def test_pip_makes_the_same_wheel_of_the_source_distribution(built: dict[str, Path], tmp_path: Path):
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-build-isolation", "--no-deps"]
    run(*pip, "--wheel-dir", tmp_path, built["sdist"], cwd=tmp_path)
    assert contents(tmp_path / built["wheel"].name) == contents(built["wheel"])


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_it_installs_into_an_empty_environment_and_trains_there(built: dict[str, Path], tmp_path: Path):
    venv.create(tmp_path / "env", symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    (packages,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    # Only the libraries of this environment, torch above all, are borrowed: installing them takes minutes. Its own
    # .pth files, and with them an editable hitnet, do not count from here.
    (packages / "borrowed.pth").write_text(f"{Path(numpy.__file__).parent.parent}\n")
    # Without an index nothing can be fetched: all that the metadata ask for must be there.
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-build-isolation"]
    run(*pip, "--ignore-installed", "--no-deps", built["wheel"], cwd=tmp_path)
    run(*pip, built["wheel"], cwd=tmp_path)

    place = run(python, "-c", "import hitnet; print(hitnet.__file__)", cwd=tmp_path).strip()
    assert Path(place).parent == packages / "hitnet"
    assert (packages / "hitnet" / "py.typed").is_file()
    options = ["--epochs", "1", "--train-images", "100", "--capsule-dim", "4", "--finishing", "0", "--threads", "1"]
    printed = run(tmp_path / "env" / "bin" / "hitnet", "train", *options, cwd=tmp_path)
    assert "hitnet-fast on mnist-mini: 90 training, 10 held out and 1,000 test images" in printed
    result = json.loads((tmp_path / "runs" / "mnist-mini" / "hitnet-fast-s0" / "result.json").read_text())
    assert result["test"]["images"] == 1000
