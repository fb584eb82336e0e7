"""A run, a model folder and an exported file made by version 0.1 still load, evaluate, explain and draw as they did.

`former/run-0.1.tar.xz` holds the run folder (hitnet-fast of width 4, two epochs of mnist-mini, most weights of the
decoder set to zero to keep the file small) and `expected.json`, what version 0.1 said of five test images.
"""

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch

import hitnet
from hitnet.data import load_dataset, to_float
from hitnet.interpret.quality import Quality
from hitnet.runs.evaluate import evaluate_run
from hitnet.runs.run import Run

ARCHIVE = Path(__file__).parent / "former" / "run-0.1.tar.xz"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("former")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def run(unpacked: Path, tmp_path: Path) -> Path:
    """The run folder where a test may write."""
    return Path(shutil.copytree(unpacked / "hitnet-fast-s0", tmp_path / "hitnet-fast-s0"))


@pytest.fixture
def expected(unpacked: Path) -> dict[str, Any]:
    return json.loads((unpacked / "expected.json").read_text())


@pytest.mark.parametrize("place", [".", "model", "network.safetensors"])
def test_the_run_its_model_folder_and_its_exported_file_say_and_draw_what_they_did(run, expected, place):
    model = hitnet.load(run / place)
    images = to_float(load_dataset("mnist-mini").test.images[:5])
    torch.testing.assert_close(model.scores(images), torch.tensor(expected["scores"]), rtol=1e-4, atol=1e-5)
    means = hitnet.prototypes(model).mean((1, 2, 3))
    torch.testing.assert_close(means, torch.tensor(expected["prototype_means"]), rtol=1e-4, atol=1e-5)
    explanation, before = hitnet.explain(model, images[0]).to_json(), expected["explanation"]
    assert explanation["class"] == before["class"]
    assert explanation["rival"] == before["rival"]
    strongest, former = explanation["deformations"][0], before["deformations"][0]
    assert strongest["component"] == former["feature"]  # as version 0.1 called it
    assert strongest["units"] == pytest.approx(former["units"], rel=1e-3)


def test_its_settings_result_and_metrics_are_read(run):
    former = Run.open(run)
    assert former.is_finished
    settings = former.read_settings()
    assert (settings.model, settings.width, settings.learning_rate, settings.schedule) == (
        *("hitnet-fast", 4, 0.004, "one-cycle"),
    )
    assert len(former.read_metrics()) == 2
    assert Quality.from_json(former.read_result()["quality"]).images == 1000


def test_it_is_evaluated_to_the_same_mistakes(run):
    former = json.loads((run / "eval-mnist-mini.json").read_text())
    content, _ = evaluate_run(run)
    assert content["confusion"] == former["confusion"]


def test_every_verb_takes_it(run, hitnet_says, tmp_path):
    from PIL import Image

    Image.fromarray(load_dataset("mnist-mini").test.images[0, 0].numpy()).save(tmp_path / "digit.png")
    assert "accepted" in hitnet_says("predict", run, tmp_path / "digit.png"), "its calibration is kept to"
    assert "digit-card.png" in hitnet_says("explain", run, tmp_path / "digit.png")
    assert "evolution.gif" in hitnet_says("prototypes", run, "--evolution")
    assert "answered" in hitnet_says("calibrate", run, "--max-error", "0.9")
    hitnet_says("export", run, "--format", "html")
    assert "slant" in (run / "explorer.html").read_text(), "names of components are kept"
