"""A run with style, from training to its exports: all that a verb shows or writes counts only the capsule itself."""

import json
from pathlib import Path

import onnxruntime
import pytest
import torch
from PIL import Image

import hitnet
from hitnet.interpret.components import true_capsules
from hitnet.interpret.figures.card import decision_card
from hitnet.runs.reopen import reopen


@pytest.fixture(scope="module")
def styled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from support.tiny import write_squares

    folder = tmp_path_factory.mktemp("styled")
    data = write_squares(folder / "squares.npz")
    options = {"width": 2, "capsule_dim": 3, "style_dim": 2, "epochs": 2, "batch_size": 32, "validation": 0.25}
    return hitnet.train(
        hitnet.TrainConfig(data=str(data), out=folder, threads=1, finishing=0.0, **options)  # type: ignore[arg-type]
    ).path


def test_components_are_summed_up_without_style(styled: Path):
    opened = reopen(styled, "cpu")
    test = opened.load_data().test
    own = true_capsules(opened.model, test.pixels().float() / 255, test.labels)
    found = opened.run.read_result()["components"]
    assert found["deviation"] == pytest.approx(float(own[:, :3].std(correction=0)), rel=1e-4)
    assert len(opened.run.read_result()["quality"]["read_back"]) == 5


def test_the_rings_of_a_card_end_where_the_capsule_does_and_style_is_named(styled: Path):
    model = hitnet.load(styled)
    explanation = hitnet.explain(model, torch.rand(model.config.image_shape))
    figure = decision_card(explanation)
    words = " ".join(text.get_text() for text in figure.findobj(lambda part: hasattr(part, "get_text")))
    assert "style c3" in words
    assert "style c4" in words
    assert "miss ≥ 0.9" not in words, "a capsule of three components cannot be 0.9 from the centre"


def test_verbs_work(styled: Path, tmp_path: Path, hitnet_says):
    Image.new("L", (12, 12), 99).save(tmp_path / "new.png")
    assert "3 steps" in hitnet_says("finish", styled, "--steps", "3")
    assert "hitnet-fast" in hitnet_says("prototypes", styled)
    assert "from its centre" in hitnet_says("explain", styled, tmp_path / "new.png")
    hitnet_says("export", styled, "--format", "onnx", "--out", tmp_path)
    session = onnxruntime.InferenceSession(tmp_path / "classifier.onnx")
    facts = session.get_modelmeta().custom_metadata_map
    shape = json.loads(facts["image_shape"])
    distances, capsules = map(torch.from_numpy, session.run(None, {"image": torch.rand(4, *shape).numpy()}))
    counted = capsules[..., : int(facts["counted_dim"])]
    torch.testing.assert_close(distances, (counted - 0.5).norm(dim=2), atol=1e-5, rtol=0)
    assert capsules.shape[2] == 5
