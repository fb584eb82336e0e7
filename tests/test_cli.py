"""The command line, as somebody with a folder of pictures meets it."""

import errno
import json
import os
import re
import string
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from hitnet import cli, files
from hitnet.runs.run import Run

CLASSES = ("cat", "dog", "[old] fox")


class Answer(NamedTuple):
    code: int | str | None
    out: str
    err: str


@pytest.fixture
def hitnet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Type a command: hitnet("runs", "folder")."""

    def type_command(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["hitnet", *map(str, arguments)])
        code: int | str | None = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return type_command


def draw(label: int, seed: int, side: int = 32) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 60, (side, side, 3), dtype=np.uint8)
    pixels[2:10, 2 + 9 * label : 10 + 9 * label, label] += 180
    return Image.fromarray(pixels)


class Home(NamedTuple):
    """A folder in which somebody has trained a network on pictures, and what was printed meanwhile."""

    path: Path
    run: Path
    printed: str


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    path = tmp_path_factory.mktemp("home")
    for index in range(45):
        folder = path / "my pets" / CLASSES[index % 3]
        folder.mkdir(parents=True, exist_ok=True)
        draw(index % 3, index).save(folder / f"{index}.png")
    command = [sys.executable, "-m", "hitnet", "train", "--data", "my pets", "--model", "lenet5-hom", "--width", "3"]
    command += ["--epochs", "2", "--threads", "1", "--norm-momentum", "0.1"]
    done = subprocess.run(command, cwd=path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return Home(path, path / "runs" / "my pets" / "lenet5-hom-s0", done.stdout)


@pytest.fixture
def at_home(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.chdir(home.path)
    return home


def test_training_on_own_pictures_prints_one_plain_line_an_epoch_and_the_next_step(home: Home):
    lines = home.printed.splitlines()
    assert lines[0] == "lenet5-hom on my pets: 36 training and 9 test images, 3 classes, 32×32, colour"
    epochs = [line for line in lines if line.startswith("epoch")]
    assert [line.split()[1] for line in epochs] == ["1/2", "2/2"]
    assert all("train loss" in line and "test error" in line and line.endswith("%") for line in epochs)
    assert "\x1b" not in home.printed
    assert "\r" not in home.printed
    assert "next: hitnet predict 'runs/my pets/lenet5-hom-s0' PICTURE.png" in home.printed
    assert Run(home.run).is_finished


def test_eval_prints_a_table_of_the_classes_and_writes_json(hitnet, at_home: Home):
    answer = hitnet("eval", at_home.run)
    assert answer.code == 0
    content = json.loads((at_home.run / "eval-my pets.json").read_text())
    assert f"{content['mistakes']} mistakes in 9 images: {content['error']:.2f} % error" in answer.out
    assert all(f"│ {name} " in answer.out for name in CLASSES), "also a name in square brackets"
    assert [row["class"] for row in content["per_class"]] == ["[old] fox", "cat", "dog"]
    assert content["error"] == Run(at_home.run).read_result()["test"]["error"]
    assert "split into 36 training and 9 test images" in answer.out


class TestPredict:
    def test_a_folder_stands_for_the_pictures_in_it(self, hitnet, at_home: Home, tmp_path: Path):
        for name in ("b.png", "a/c.jpg"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            draw(0, 1).save(tmp_path / name)
        (tmp_path / "notes.txt").write_text("not a picture")
        (tmp_path / "._b.png").write_bytes(b"what a Mac leaves beside a picture")
        answers = json.loads(hitnet("predict", at_home.run, tmp_path, "--json").out)
        assert [Path(answer["file"]).name for answer in answers] == ["c.jpg", "b.png"]
        (tmp_path / "empty").mkdir()
        assert "there are no pictures in" in str(hitnet("predict", at_home.run, tmp_path / "empty").code)

    def test_a_run_on_a_relative_folder_is_reopened_from_anywhere(
        self, hitnet, at_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        run = at_home.run.resolve()
        monkeypatch.chdir(tmp_path)
        assert hitnet("eval", run).code == 0

    def test_other_sizes_and_colours_are_converted_and_said(self, hitnet, at_home: Home, tmp_path: Path):
        draw(0, 1, side=80).save(tmp_path / "large.jpg")
        draw(1, 2).convert("L").save(tmp_path / "grey[1].png")
        answer = hitnet("predict", at_home.run, tmp_path / "large.jpg", tmp_path / "grey[1].png", "--json")
        assert answer.code == 0
        large, grey = json.loads(answer.out)
        assert large["class_name"] in CLASSES
        assert (large["verdict"], large["radius"], large["candidates"]) == (None, None, None)
        assert "not calibrated" in hitnet("predict", at_home.run, tmp_path / "large.jpg").out
        assert large["score"] >= 0
        assert large["note"] == "32×32 from 80×80"
        assert grey["note"] == "colour from grey"
        assert large["error"] is None

    def test_a_broken_file_is_listed_and_the_others_are_answered(self, hitnet, at_home: Home, tmp_path: Path):
        (tmp_path / "broken.png").write_bytes(b"\x89PNG nothing")
        (tmp_path / "[old] photo").mkdir()
        draw(0, 1).save(tmp_path / "[old] photo" / "good.png")
        files = [tmp_path / "broken.png", tmp_path / "missing.png", tmp_path / "[old] photo" / "good.png"]
        answer = hitnet("predict", at_home.run, *files)
        assert answer.code == 1
        lines = answer.out.splitlines()
        broken, missing, good = (next(line for line in lines if str(file) in line) for file in files)
        assert "not read" in broken
        assert "does not exist" in missing
        assert any(name in good for name in CLASSES)

    def test_without_files_says_what_is_missing(self, hitnet, at_home: Home):
        assert "give picture files" in str(hitnet("predict", at_home.run).code)

    def test_without_a_model_says_where_it_looked(self, hitnet, tmp_path: Path):
        assert f"hitnet: error: there is no model in {tmp_path}" in str(hitnet("predict", tmp_path, "a.png").code)


def test_runs_lists_finished_unfinished_and_damaged_runs(hitnet, at_home: Home, tmp_path: Path):
    for name in ("b", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "b" / "args.json").write_text('{"epochs": 7}')
    (tmp_path / "c" / "args.json").write_text("{")
    os.symlink(at_home.run, tmp_path / "a")
    answer = hitnet("runs", tmp_path)
    assert answer.code == 0
    assert {"0/7", "unfinished", "damaged"} <= set(answer.out.split())
    answer = hitnet("runs")
    assert {"runs/my", "pets/lenet5-hom-s0", "finished", "2"} <= set(answer.out.split())
    assert "there are no runs in" in str(hitnet("runs", at_home.path / "my pets").code)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["trian"], "there is no verb 'trian'; did you mean 'train'"),
        (["train", "--epoch", "3"], "--epochs"),
        (["train", "--data", "mnst"], "did you mean 'mnist'"),
        (["train", "--data", "my pets", "--model", "lenet5hom"], "did you mean 'lenet5-hom'"),
        (["train", "--schedule", "decya"], "decay"),
        (["train", "--epochs", "0"], "epochs must be at least 1, got 0"),
        (["train", "--epochs", "many"], "many"),
        (["train", "--device", "gpu"], "use auto, cpu, cuda or mps"),
        (["train", "my-pictures"], "train takes its data as an option: hitnet train --data my-pictures"),
        (["train", "--lr", "0.1"], "there is no option --lr; did you mean --learning-rate?"),
        (["train", "--image-size", "32y48"], "image_size must be a side or WIDTHxHEIGHT in pixels, as in 32x48"),
        (["train", "--patience", "3", "--validation", "0"], "add --validation 0.1"),
        (["train", "--resume", "runs/my pets/lenet5-hom-s0", "--epochs", "3"], "leave out the other options"),
        (["train", "--resume", "runs/my pets/lenet5-hom-s0", "--overwrite"], "leave out the other options"),
        (["train", "--resume", "runs/my pets/lenet5-hom-s0"], "is finished, so there is nothing to resume"),
        (["train", "--resume", "nowhere"], "there is no run in nowhere"),
        (["train", "--data", "my pets", "--model", "lenet5-hom"], "choose another --seed or --out, or replace it with"),
        (["eval", "nowhere"], "there is no run in nowhere"),
        (["eval", "runs/my pets/lenet5-hom-s0", "--data", "mnist-mini"], "expects 3 classes .* got 10 classes"),
    ],
)
def test_a_mistake_is_answered_with_the_remedy_and_changes_nothing(hitnet, at_home: Home, command, message: str):
    before = {path: path.stat().st_mtime_ns for path in at_home.path.rglob("*")}
    answer = hitnet(*command)
    assert answer.code not in (0, None)
    assert re.search(message, f"{answer.code} {answer.err} {answer.out}")
    assert {path: path.stat().st_mtime_ns for path in at_home.path.rglob("*")} == before


def test_overwrite_replaces_a_run(hitnet, at_home: Home, tmp_path: Path):
    command = ["train", "--data", "my pets", "--model", "lenet5-hom", "--width", "3", "--threads", "1"]
    command += ["--decoder", "none", "--train-images", "12", "--out", tmp_path, "--epochs"]
    assert hitnet(*command, 1).code == 0
    answer = hitnet(*command, 2, "--overwrite")
    assert answer.code == 0
    run = Run(tmp_path / "my pets" / "lenet5-hom-s0")
    assert run.read_result()["epochs"] == len(run.read_metrics()) == 2


def test_a_full_disk_while_training_says_how_to_go_on(hitnet, at_home: Home, tmp_path: Path, monkeypatch):
    rename = os.replace

    def full(source: Path, target: Path) -> None:
        if target.name == "metrics.csv":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rename(source, target)

    monkeypatch.setattr(files.os, "replace", full)
    answer = hitnet(
        "train", "--data", "my pets", "--model", "lenet5-hom", "--epochs", 1, "--threads", 1, "--out", tmp_path
    )
    message = (
        "metrics.csv (No space left on device); make room, or choose another folder; resume with: hitnet train --resume"
    )
    assert message in str(answer.code)


HELP = """
import contextlib, io, json, sys
from hitnet import cli
texts = {}
for verb in ("", *cli.VERBS):
    sys.argv = ["hitnet", *([verb] if verb else []), "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        cli.main()
    texts[verb] = out.getvalue()
loaded = [name for name in ("torch", "numpy", "matplotlib") if name in sys.modules]
print(json.dumps({"texts": texts, "loaded": loaded}))
"""


def test_every_verb_has_help_with_an_example_and_none_waits_for_torch():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, timeout=60, check=True)
    answer = json.loads(done.stdout)
    assert answer["loaded"] == []
    assert set(cli.VERBS) <= set(answer["texts"][""].split()), "all verbs are listed"
    for verb in cli.VERBS:
        assert f"Example: hitnet {verb}" in answer["texts"][verb], verb


def test_the_version_is_that_of_the_installed_package(hitnet):
    assert hitnet("--version") == (0, f"hitnet {metadata.version('hitnet')}\n", "")


def test_hitnet_alone_shows_the_help(hitnet):
    answer = hitnet()
    assert answer.code == 0
    assert "usage: hitnet" in answer.out


@pytest.mark.parametrize("name", ["\x1b[2Jcat.png", "cat\x9b31m.png", "\x07.png", "gnp\u202e.png", "\udcff.png"])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_names_of_files_do_not_command_the_terminal(
    hitnet: Callable[..., Answer], home: Home, name: str, options: tuple[str, ...]
) -> None:
    strange = home.path / name
    draw(0, 1).save(strange)
    missing = home.path / f"no{name}"
    answer = hitnet("predict", home.run, strange, missing, *options)
    for letter in set(name) - set(string.printable):
        assert letter not in answer.out + answer.err
        assert f"\\u{ord(letter):04x}" in answer.out
    if options:
        assert [each["file"] for each in json.loads(answer.out)] == [str(strange), str(missing)]
    refused = hitnet("predict", home.path / name, strange)
    assert str(refused.code).isprintable()
    strange.unlink()
