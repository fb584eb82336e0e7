"""A model as a folder: saved, loaded, and refused where it is not what it says."""

import json
import pickle
from pathlib import Path

import pytest
import torch

import hitnet
from hitnet.core.checkpoint import read_tensors, write_tensors
from hitnet.core.model import Model, build, create_model
from hitnet.settings import ModelConfig


@pytest.fixture
def model() -> Model:
    return create_model("lenet5-hom", (1, 28, 28), 3, width=3, class_names=("ant", "bee", "[cow]"))


@pytest.fixture
def folder(model: Model, tmp_path: Path) -> Path:
    model.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("name", ["hitnet", "hitnet-fast", "n1", "n2b", "capsnet", "resnet18-hom"])
@pytest.mark.parametrize("image_shape", [(1, 28, 28), (3, 32, 24)])
def test_a_loaded_model_answers_as_the_saved_one(name: str, image_shape: tuple[int, int, int], tmp_path: Path):
    model = create_model(name, image_shape, 5, width=8, capsule_dim=4)
    images = torch.rand(4, *image_shape)
    model(images, torch.arange(4))  # in training mode: moves the running statistics
    model.eval().save(tmp_path)
    loaded = hitnet.load(tmp_path)
    assert loaded.config == model.config
    assert not loaded.training
    with torch.no_grad():
        for ours, theirs in zip(loaded(images), model(images), strict=True):
            assert (ours is None and theirs is None) or torch.equal(ours, theirs)


def test_a_folder_that_holds_model_as_a_run_does_is_loaded_too(folder: Path, model: Model):
    assert hitnet.load(folder.parent).config == model.config
    assert hitnet.load(str(folder)).config.class_names == ("ant", "bee", "[cow]")


def test_a_model_that_lies_beside_a_run_of_its_own_is_the_one_that_is_loaded(tmp_path: Path):
    create_model("lenet5-hom", num_classes=2, width=2).save(tmp_path / "model")
    create_model("lenet5-hom", num_classes=3, width=2).save(tmp_path)
    assert hitnet.load(tmp_path).head.num_classes == 3


def test_saving_again_replaces_both_files(folder: Path):
    other = create_model("n1", (3, 32, 32), 4, width=8)
    other.save(folder)
    assert hitnet.load(folder).config == other.config
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]


def test_saving_leaves_the_model_on_its_device_and_in_its_mode(model: Model, tmp_path: Path):
    model.train().save(tmp_path)
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_missing_model_is_named_with_what_was_expected(tmp_path: Path, folder: Path):
    with pytest.raises(FileNotFoundError, match=r"there is no model in .*: expected config.json and model.safetensors"):
        hitnet.load(tmp_path / "nothing")
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="model.safetensors is missing"):
        hitnet.load(folder)


@pytest.mark.parametrize("kept", [0, 4, 100, 3000, -1])
def test_truncated_weights_are_refused(kept: int, folder: Path):
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:kept])
    with pytest.raises(ValueError, match=r"model.safetensors is not a complete safetensors file .*truncated"):
        hitnet.load(folder)


class Payload:
    """Unpickled, it makes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.target,))


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
@pytest.mark.parametrize("wrap", [pickle.dumps, None], ids=["pickle", "torch.save"])
def test_a_pickle_in_place_of_a_file_is_refused_and_never_executed(file: str, wrap, folder: Path, tmp_path: Path):
    payload = Payload(tmp_path / "owned")
    if wrap is None:
        torch.save({"weights": payload}, folder / file)
    else:
        (folder / file).write_bytes(wrap(payload))
    with pytest.raises(ValueError, match=file):
        hitnet.load(folder)
    assert not (tmp_path / "owned").exists()
    pickle.loads(pickle.dumps(payload))
    assert (tmp_path / "owned").exists(), "the payload works, it only was not run"


def test_the_weights_of_another_model_are_refused_by_name(folder: Path, tmp_path: Path):
    create_model("lenet5-hom", (1, 28, 28), 4, width=3).save(tmp_path / "other")
    (tmp_path / "other" / "model.safetensors").replace(folder / "model.safetensors")
    with pytest.raises(
        ValueError, match=r"holds the weights of another model: \d+ of \d+ differ, the first is decoder"
    ):
        hitnet.load(folder)


def test_weights_that_are_missing_or_too_many_are_refused_by_name(folder: Path):
    tensors, _ = read_tensors(folder / "model.safetensors")
    first = sorted(tensors)[0]
    missing = {name: value for name, value in tensors.items() if name != first}
    for wrong, complaint in (
        (missing, f"{first}: expected .*, got none"),
        ({**tensors, "a": torch.ones(1)}, "a: expected none"),
    ):
        write_tensors(folder / "model.safetensors", wrong)
        with pytest.raises(ValueError, match=complaint):
            hitnet.load(folder)


def test_weights_cut_to_whole_numbers_are_refused_and_other_precisions_are_not(folder: Path, model: Model):
    tensors, _ = read_tensors(folder / "model.safetensors")
    write_tensors(folder / "model.safetensors", {name: value.int() for name, value in tensors.items()})
    with pytest.raises(ValueError, match=r"first is decoder\S+: expected \(\d+,\) of float32, got \(\d+,\) of int32"):
        hitnet.load(folder)
    for precise in (torch.float16, torch.float64):
        model.to(precise).save(folder)
        assert torch.equal(hitnet.load(folder).head.layer.linear.weight, model.head.layer.linear.weight.float())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "hitnt"}, "there is no model 'hitnt'; did you mean 'hitnet'"),
        ({"num_classes": "three"}, "num_classes must be int, got 'three'"),
        ({"num_classes": 1}, "num_classes must be at least 2"),
        ({"num_classes": 10**9, "class_names": []}, "num_classes must be at most 100,000, got 1e\\+09"),
        ({"capsule_dim": 10**400}, "capsule_dim must be at most 10,000"),
        ({"routing_iterations": 10**9}, "routing_iterations must be at most 100"),
        ({"image_shape": [1, 28, 10**9]}, "image_shape must be at most 10,000"),
        ({"image_shape": [28, 28]}, "image_shape must be"),
        ({"image_shape": "28x28"}, "image_shape must be"),
        ({"class_names": ["a"]}, "class_names must hold 3 names, got 1"),
        ({"width": "wide"}, "width must be .*, got 'wide'"),
        ({"decoder": "pickle"}, "decoder must be .*, got 'pickle'"),
        ({"code": "import os"}, "unknown fields code; the fields are"),
    ],
)
def test_a_config_that_describes_no_model_is_refused(change: dict[str, object], message: str, folder: Path):
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, **change}))
    with pytest.raises(ValueError, match=message):
        hitnet.load(folder)


@pytest.mark.parametrize(
    "change", [{"capsule_dim": 10_000}, {"width": 10_000}, {"image_shape": [3, 10_000, 10_000]}, {"decoder": "picture"}]
)
def test_a_config_of_a_larger_model_than_the_weights_takes_no_memory(
    change: dict[str, object], folder: Path, monkeypatch: pytest.MonkeyPatch
):
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, **change}))
    built = []

    def build_and_tell(config: ModelConfig) -> Model:
        built.append(build(config))
        return built[-1]

    monkeypatch.setattr("hitnet.core.model.build", build_and_tell)
    with pytest.raises(ValueError, match="holds the weights of another model"):
        hitnet.load(folder)
    assert all(weight.is_meta for model in built for weight in model.parameters())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_by_name(folder: Path, value: float):
    tensors, _ = read_tensors(folder / "model.safetensors")
    tensors["head.layer.linear.weight"][0, 0] = value
    write_tensors(folder / "model.safetensors", tensors)
    with pytest.raises(ValueError, match="must hold finite weights, got 1 in head.layer.linear.weight"):
        hitnet.load(folder)


def test_a_config_of_an_earlier_version_takes_the_defaults_of_newer_fields(folder: Path, model: Model):
    content = json.loads((folder / "config.json").read_text())
    assert content.pop("norm_eps") == ModelConfig().norm_eps
    (folder / "config.json").write_text(json.dumps(content))
    assert hitnet.load(folder).config == model.config


def test_tensors_and_their_metadata_come_back(tmp_path: Path):
    tensors = {"a": torch.rand(2, 3).t(), "b": torch.arange(4), "empty": torch.zeros(0)}
    write_tensors(tmp_path / "file", tensors, {"note": "ü"})
    back, metadata = read_tensors(tmp_path / "file")
    assert metadata == {"note": "ü"}
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)
