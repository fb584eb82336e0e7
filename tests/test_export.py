"""Networks in other formats: they answer as PyTorch does, and what does not is never written."""

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import hitnet
from hitnet import errors, export
from hitnet.core.checkpoint import read_tensors, write_tensors
from hitnet.core.model import Model, create_model
from hitnet.files import write_json
from hitnet.interpret.prototypes import prototypes
from hitnet.runs.calibrate import Answers, Rejection

CLASSES = ("ant", "bee", "<cow> é")
# Every kind of capsule and of decoder, grey and in colour. Exporting to ONNX takes seconds, so not every network.
NETWORKS = {
    "hitnet": (3, 20, 24),
    "hitnet-fast": (1, 17, 28),
    "hitnet-deep": (3, 16, 20),
    "n1": (1, 28, 28),
    "capsnet": (3, 20, 24),
    "resnet18-hom": (1, 20, 20),
}


def save(folder: Path, name: str, image_shape: tuple[int, int, int] = (1, 28, 28), **options: object) -> Model:
    """A small network in a folder, its running statistics moved."""
    width = 16 if name == "capsnet" else 4
    model = create_model(name, image_shape, 3, 4, **{"width": width, "class_names": CLASSES, **options})
    for _ in range(3):
        model(torch.rand(8, *image_shape))
    model.eval()
    if name == "hitnet-fast":
        hitnet.calibrate(model, torch.rand(9, *image_shape), torch.arange(9) % 3)
    model.save(folder)
    return model


Exported = Callable[[str], tuple[list[Path], Model]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The ONNX files of a network and the network: exported("hitnet"), each made once."""

    @cache
    def make(name: str) -> tuple[list[Path], Model]:
        folder = tmp_path_factory.mktemp(name)
        model = save(folder, name, NETWORKS[name])
        return export.export_onnx(folder), model

    return make


def numbers(file: Path, **inputs: torch.Tensor) -> list[torch.Tensor]:
    session = onnxruntime.InferenceSession(file)
    found = session.run(None, {name: value.numpy() for name, value in inputs.items()})
    return [torch.from_numpy(np.asarray(value)) for value in found]


@pytest.mark.parametrize("name", NETWORKS)
def test_onnx_answers_as_pytorch_whatever_the_network_and_the_number_of_images(exported: Exported, name: str):
    files, model = exported(name)
    assert [file.name for file in files] == ["classifier.onnx", "decoder.onnx"][: 2 if model.decoder else 1]
    for count in (1, 3, 7):
        images = torch.rand(count, *NETWORKS[name])
        with torch.no_grad():
            out = model(images)
        scores, capsules = numbers(files[0], image=images)
        torch.testing.assert_close(scores, out.scores, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(capsules, out.capsules, rtol=1e-4, atol=1e-4)
        if model.decoder is not None:
            (image,) = numbers(files[1], capsules=capsules, class_index=model.predict(images))
            torch.testing.assert_close(image, out.reconstruction, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_file_is_valid_and_names_no_path_of_this_machine(exported: Exported, name: str):
    for file in exported(name)[0]:
        onnx.checker.check_model(onnx.load(file), full_check=True)
        assert str(Path(hitnet.__file__).parent).encode() not in file.read_bytes()


def test_large_convolutions_are_plain_ones_in_the_graph(exported: Exported):
    kinds = [node.op_type for node in onnx.load(exported("hitnet")[0][0]).graph.node]
    assert kinds.count("Conv") == 2
    model = create_model("hitnet", width=64).eval()
    model.encoder.conv2.winograd = True
    graph = export._trace(export.Classifier(model), {"image": torch.rand(2, 1, 28, 28)}).graph
    calls = [str(node.target) for node in graph.nodes if node.op == "call_function"]
    assert calls.count("aten.conv2d.default") == 2
    assert not [call for call in calls if "bmm" in call or "unfold" in call]


def test_the_metadata_tell_names_decision_shape_and_radii(exported: Exported):
    files, model = exported("hitnet-fast")
    for file in files:
        facts = onnxruntime.InferenceSession(file).get_modelmeta().custom_metadata_map
        assert json.loads(facts["class_names"]) == list(CLASSES)
        assert json.loads(facts["image_shape"]) == [1, 17, 28]
        assert (facts["decision"], facts["hit_radius"], facts["miss_radius"]) == ("lowest", "0.1", "0.9")
        assert (facts["model"], facts["decoder"]) == ("hitnet-fast", "PictureDecoder")
        assert (tuple(json.loads(facts["radii"])), facts["coverage"]) == (model.config.radii, "0.9")
    session = onnxruntime.InferenceSession(files[0])
    assert [(value.name, value.shape) for value in session.get_inputs()] == [("image", ["batch", 1, 17, 28])]
    assert [(value.name, value.shape) for value in session.get_outputs()] == [
        ("distances", ["batch", 3]),
        ("capsules", ["batch", 3, 4]),
    ]


def test_a_network_without_hit_zone_has_scores_and_no_radii(exported: Exported):
    session = onnxruntime.InferenceSession(exported("n1")[0][0])
    assert session.get_outputs()[0].name == "scores"
    assert session.get_modelmeta().custom_metadata_map["decision"] == "highest"
    assert not {"hit_radius", "radii"} & session.get_modelmeta().custom_metadata_map.keys()


@pytest.mark.parametrize("calibrated", [True, False])
def test_the_metadata_tell_the_threshold_of_a_calibrated_run(calibrated: bool, tmp_path: Path):
    save(tmp_path, "lenet5-hom", decoder="none")
    counts = Answers(images=120, answered=90, mistakes=3)
    found = Rejection(1 / 3, 0.02, 0.95, validation=counts, test=counts, test_bound=0.01)
    if calibrated:
        write_json(tmp_path / "calibration.json", asdict(found))
    extra = {"metadata.json": ""}
    torch.export.load(export.export_pt2(tmp_path)[0], extra_files=extra)
    for facts in (json.loads(extra["metadata.json"]), read_tensors(export.export_safetensors(tmp_path))[1]):
        told = {name: float(facts[name]) for name in ("threshold", "max_error", "confidence") if name in facts}
        assert told == ({"threshold": 1 / 3, "max_error": 0.02, "confidence": 0.95} if calibrated else {})


@pytest.mark.parametrize("name", ["hitnet-fast", "n1", "n2", "lenet5-hom"])
def test_pt2_answers_as_pytorch_and_brings_its_metadata(name: str, tmp_path: Path):
    model = save(tmp_path, name, (3, 20, 24))
    files = export.export_pt2(tmp_path, tmp_path / "out")
    extra = {"metadata.json": ""}
    classifier = torch.export.load(files[0], extra_files=extra).module()
    assert json.loads(json.loads(extra["metadata.json"])["class_names"]) == list(CLASSES)
    images = torch.rand(6, 3, 20, 24)
    with torch.no_grad():
        out = model(images)
        scores, capsules = classifier(image=images)
        torch.testing.assert_close(scores, out.scores)
        if model.decoder is not None:
            decoder = torch.export.load(files[1]).module()
            (image,) = decoder(capsules=capsules, class_index=model.predict(images))
            torch.testing.assert_close(image, out.reconstruction)


def test_weights_without_configuration_and_damaged_files_are_refused(tmp_path: Path):
    save(tmp_path, "lenet5-hom")
    with pytest.raises(ValueError, match="holds weights without a configuration; give the folder"):
        hitnet.load(tmp_path / "model.safetensors")
    (tmp_path / "broken").write_bytes(b"\x80\x04nothing")
    with pytest.raises(ValueError, match="broken is not a complete safetensors file"):
        hitnet.load(tmp_path / "broken")
    write_tensors(tmp_path / "odd", {"a": torch.ones(1)}, {"config": '{"code": "import os"}'})
    with pytest.raises(ValueError, match="odd does not hold a valid ModelConfig: unknown fields code; the fields are"):
        hitnet.load(tmp_path / "odd")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: found + 1e-3, r"got a difference of 0\.00\d+ for 1 images"),
        (lambda found: found * float("nan"), "got a difference of nan"),
        (lambda found: found[:, :2], r"got shape \(1, 2\)"),
    ],
)
def test_a_file_that_answers_otherwise_is_not_written(tmp_path: Path, monkeypatch, change, message: str):
    save(tmp_path, "lenet5-hom")
    opened = export._open_pt2

    def wrong(content: bytes) -> export.Answer:
        answer = opened(content)
        return lambda **inputs: [change(found) for found in answer(**inputs)]

    monkeypatch.setattr(export, "_open_pt2", wrong)
    with pytest.raises(
        RuntimeError, match=rf"classifier.pt2 must give the same outputs as PyTorch.*{message}.*nothing was written"
    ):
        export.export_pt2(tmp_path)
    assert not (tmp_path / "pt2").exists()


def test_missing_packages_are_named_with_the_extra(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda name: None if name == "onnxruntime" else object())
    with pytest.raises(RuntimeError, match=r"needs onnxruntime; install: pip install 'hitnet\[onnx\]'"):
        export.export_onnx(tmp_path)


def test_the_page_exports_every_format_and_draws_the_prototypes(run_examples, tmp_path: Path, capsys):
    run = tmp_path / "runs" / "mnist" / "hitnet-fast-s0"
    model = save(run / "model", "hitnet-fast")
    names = run_examples("docs/export.md", tmp_path)
    said = capsys.readouterr()
    files = [
        "onnx/classifier.onnx",
        "onnx/decoder.onnx",
        "pt2/classifier.pt2",
        "pt2/decoder.pt2",
        "network.safetensors",
    ]
    written = [line.split(" (")[0] for line in said.out.splitlines() if line.startswith("written to")]
    assert written == [f"written to {run.relative_to(tmp_path) / file}" for file in files]
    assert said.err == ""
    drawn = torch.from_numpy(names["prototypes"])
    torch.testing.assert_close(drawn, prototypes(model), rtol=1e-4, atol=1e-4)
    loaded, images = names["net"], torch.rand(2, 1, 28, 28)
    assert loaded.config == model.config
    assert torch.equal(loaded(images).scores, model(images).scores)
