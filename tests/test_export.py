"""Networks in other formats: they answer as PyTorch does, and what does not is never written."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import hitnet
from hitnet import cli, export
from hitnet.interpret.prototypes import prototypes
from hitnet.model import Model

CLASSES = ("ant", "bee", "<cow> é")
# Every encoder, and every kind of capsule, some in colour. Exporting takes seconds, so the other pairs are left out.
NETWORKS = {
    "hitnet": (3, 20, 24),
    "hitnet-fast": (3, 17, 28),
    "n1": (1, 28, 28),
    "capsnet": (3, 20, 24),
    "lenet5": (1, 28, 28),
    "resnet18-hom": (1, 20, 20),
    "densenet40-12-hom": (3, 16, 16),
}


@pytest.fixture
def saved(small_model, tmp_path: Path):
    """A network as a folder, its running statistics moved, and its images: saved(name, image_shape, ...)."""

    def make(name: str, image_shape: tuple[int, int, int] = (1, 28, 28), **options: object) -> tuple[Path, Model]:
        model = small_model(name, image_shape, num_classes=3, capsule_dim=4, class_names=CLASSES, **options)
        for _ in range(3):
            model(torch.rand(8, *image_shape))
        model.eval().save(tmp_path / "net" / "model")
        return tmp_path / "net", model

    return make


def numbers(session: onnxruntime.InferenceSession, **inputs: torch.Tensor) -> list[torch.Tensor]:
    found = session.run(None, {name: value.numpy() for name, value in inputs.items()})
    return [torch.from_numpy(np.asarray(value)) for value in found]


@pytest.mark.parametrize("name", NETWORKS)
def test_onnx_answers_as_pytorch_whatever_the_network_and_the_number_of_images(saved, name: str):
    shape = NETWORKS[name]
    path, model = saved(name, shape)
    files = export.export_onnx(path)
    assert [file.name for file in files] == ["classifier.onnx", "decoder.onnx"][: 2 if model.decoder else 1]
    classifier = onnxruntime.InferenceSession(files[0])
    for count in (1, 3, 7):
        images = torch.rand(count, *shape)
        with torch.no_grad():
            out = model(images)
        scores, capsules = numbers(classifier, image=images)
        torch.testing.assert_close(scores, out.scores, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(capsules, out.capsules, rtol=1e-4, atol=1e-4)
        if model.decoder is not None:
            decoder = onnxruntime.InferenceSession(files[1])
            (image,) = numbers(decoder, capsules=capsules, class_index=model.predict(images))
            torch.testing.assert_close(image, out.reconstruction, rtol=1e-4, atol=1e-4)


def test_large_convolutions_are_plain_ones_in_the_graph_and_no_path_of_this_machine_is_in_the_file(saved):
    path, _ = saved("hitnet", width=64)
    classifier, decoder = export.export_onnx(path)
    kinds = [node.op_type for node in onnx.load(classifier).graph.node]
    assert kinds.count("Conv") == 2
    assert kinds.count("MatMul") + kinds.count("Gemm") == 1, "the fully connected layer of the capsules"
    for file in (classifier, decoder):
        onnx.checker.check_model(onnx.load(file), full_check=True)
        assert str(Path(hitnet.__file__).parent).encode() not in file.read_bytes()


def test_the_metadata_tell_names_decision_shape_and_radii(saved):
    path, _ = saved("lenet5-hom", hit_radius=0.2)
    for file in export.export_onnx(path):
        facts = onnxruntime.InferenceSession(file).get_modelmeta().custom_metadata_map
        assert json.loads(facts["class_names"]) == list(CLASSES)
        assert json.loads(facts["image_shape"]) == [1, 28, 28]
        assert (facts["decision"], facts["hit_radius"], facts["miss_radius"]) == ("lowest", "0.2", "0.9")
        assert (facts["model"], facts["decoder"]) == ("lenet5-hom", "PaperDecoder")
    session = onnxruntime.InferenceSession(file.with_name("classifier.onnx"))
    assert [(value.name, value.shape) for value in session.get_inputs()] == [("image", ["batch", 1, 28, 28])]
    assert [(value.name, value.shape) for value in session.get_outputs()] == [
        ("distances", ["batch", 3]),
        ("capsules", ["batch", 3, 4]),
    ]


def test_a_network_without_hit_zone_has_scores_and_no_radii(saved):
    path, _ = saved("n1")
    (file,) = export.export_onnx(path)
    session = onnxruntime.InferenceSession(file)
    assert session.get_outputs()[0].name == "scores"
    assert session.get_modelmeta().custom_metadata_map["decision"] == "highest"
    assert "hit_radius" not in session.get_modelmeta().custom_metadata_map


@pytest.mark.parametrize("name", ["hitnet", "hitnet-fast", "n1"])
def test_pt2_answers_as_pytorch_and_brings_its_metadata(saved, name: str, tmp_path: Path):
    path, model = saved(name, (3, 20, 24))
    files = export.export_pt2(path, tmp_path / "out")
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


def test_one_safetensors_file_is_the_whole_model(saved):
    path, model = saved("hitnet-fast")
    file = export.export_safetensors(path)
    loaded = hitnet.load(file)
    assert loaded.config == model.config
    images = torch.rand(2, 1, 28, 28)
    assert torch.equal(loaded(images).scores, model(images).scores)
    assert not loaded.training


def test_weights_without_configuration_and_damaged_files_are_refused(saved, tmp_path: Path):
    path, _ = saved("lenet5-hom")
    with pytest.raises(ValueError, match="holds weights without a configuration; give the folder"):
        hitnet.load(path / "model" / "model.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"\x80\x04nothing")
    with pytest.raises(ValueError, match="broken.safetensors is not a whole safetensors file"):
        hitnet.load(tmp_path / "broken.safetensors")
    hitnet.checkpoint.write_tensors(tmp_path / "odd", {"a": torch.ones(1)}, {"config": '{"code": "import os"}'})
    with pytest.raises(ValueError, match="odd has no valid ModelConfig: there is no code; the fields are"):
        hitnet.load(tmp_path / "odd")


@pytest.mark.parametrize(("wrong", "text"), [(1e-3, "got a difference of"), (float("nan"), "got a difference of nan")])
def test_a_file_that_answers_otherwise_is_not_written(saved, monkeypatch, wrong: float, text: str):
    path, _ = saved("lenet5-hom")
    original = export._open_onnx

    def slightly_wrong(content: bytes) -> export.Answer:
        answer = original(content)
        return lambda **inputs: [found + wrong for found in answer(**inputs)]

    monkeypatch.setattr(export, "_open_onnx", slightly_wrong)
    with pytest.raises(
        RuntimeError, match=rf"classifier.onnx must answer as PyTorch does.*{text}.*nothing was written"
    ):
        export.export_onnx(path)
    assert not (path / "onnx").exists()


def test_missing_packages_are_named_with_the_extra(saved, monkeypatch):
    path, _ = saved("lenet5-hom")
    monkeypatch.setattr(export, "find_spec", lambda name: None if name == "onnxruntime" else object())
    with pytest.raises(RuntimeError, match=r"needs onnxruntime; install: pip install 'hitnet\[onnx\]'"):
        export.export_onnx(path)


def test_the_verb_writes_every_format_and_says_where(saved, monkeypatch, capsys):
    path, _ = saved("lenet5-hom")
    for format, names in {
        "onnx": ["onnx/classifier.onnx", "onnx/decoder.onnx"],
        "pt2": ["pt2/classifier.pt2", "pt2/decoder.pt2"],
        "safetensors": ["network.safetensors"],
    }.items():
        monkeypatch.setattr(sys, "argv", ["hitnet", "export", str(path), "--format", format])
        cli.main()
        said = capsys.readouterr()
        assert [line.split(" (")[0] for line in said.out.splitlines()] == [
            f"written to {path / name}" for name in names
        ]
        assert said.err == ""
        assert all((path / name).is_file() for name in names)


def test_the_examples_of_the_page_run_and_draw_the_prototypes(saved, run_examples, tmp_path: Path):
    path, model = saved("hitnet-fast")
    (tmp_path / "runs" / "mnist").mkdir(parents=True)
    path.rename(tmp_path / "runs" / "mnist" / "hitnet-fast-s0")
    names = run_examples("export.md", tmp_path)
    drawn = torch.from_numpy(names["prototypes"])
    torch.testing.assert_close(drawn, prototypes(model), rtol=1e-4, atol=1e-4)
    assert names["net"].config == model.config
