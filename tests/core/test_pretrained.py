"""Encoders that start with trained weights: from a file, from another run, with the normalisation they want."""

import re
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

import hitnet
from hitnet.core.checkpoint import write_tensors
from hitnet.core.model import Model
from hitnet.core.pretrained import TIMM, load_pretrained
from hitnet.core.timm_encoder import load_timm

NAME = "mobilenetv3_small_050"


@pytest.fixture(scope="module")
def timm() -> ModuleType:
    return load_timm()


@pytest.fixture(scope="module")
def trained(timm: ModuleType) -> torch.nn.Module:
    """Stands for a network that was trained on 7 classes of colour images."""
    torch.manual_seed(1)
    return timm.create_model(NAME, num_classes=7).eval()


def new(name: str = NAME, channels: int = 3) -> Model:
    return hitnet.create_model(f"timm/{name}", (channels, 32, 32), 5, capsule_dim=4, normalised=True)


def features(timm: ModuleType, trained: torch.nn.Module, images: Tensor) -> Tensor:
    """What timm itself computes from images in [0, 1]."""
    config = timm.get_pretrained_cfg(NAME)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (config.mean, config.std))
    return trained.forward_head(trained.forward_features((images - mean) / std), pre_logits=True)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth", ".bin"])
@torch.no_grad()
def test_a_file_of_another_number_of_classes_gives_timms_own_features(timm, trained, tmp_path: Path, suffix: str):
    file = tmp_path / f"weights{suffix}"
    if suffix == ".safetensors":
        write_tensors(file, trained.state_dict())
    else:
        torch.save({"state_dict": {f"module.{name}": value for name, value in trained.state_dict().items()}}, file)
    model = new()
    load_pretrained(model, str(file))
    images = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(model.eval().features(images), features(timm, trained, images))


@torch.no_grad()
def test_grey_images_are_seen_as_colour_images_without_colour(timm, trained, tmp_path: Path):
    write_tensors(tmp_path / "w.safetensors", trained.state_dict())
    model = new(channels=1)
    load_pretrained(model, str(tmp_path / "w.safetensors"))
    grey = torch.rand(2, 1, 32, 32)
    expected = features(timm, trained, grey.expand(-1, 3, -1, -1))
    torch.testing.assert_close(model.eval().features(grey), expected)


def test_the_saved_model_needs_no_download_and_keeps_its_normalisation(tmp_path: Path):
    model = new().eval()
    model.encoder.mean.fill_(0.25)  # as if timm's own changed later
    model.save(tmp_path)
    images = torch.rand(2, 3, 32, 32)
    loaded = hitnet.load(tmp_path)
    assert loaded.config.normalised
    assert torch.equal(loaded.scores(images), model.scores(images))


def test_weights_of_another_network_are_told_apart_by_their_tensors(trained, tmp_path: Path):
    write_tensors(tmp_path / "w.safetensors", trained.state_dict())
    model = new("mobilenetv3_small_075")
    with pytest.raises(
        ValueError, match=r"another network than timm/mobilenetv3_small_075.*have another shape"
    ) as error:
        load_pretrained(model, str(tmp_path / "w.safetensors"))
    assert re.search(r"expected \(\d+,.*got \(\d+,", str(error.value))
    resnet = hitnet.create_model("timm/resnet18", (3, 32, 32), 5, normalised=True)
    with pytest.raises(ValueError, match=r"are missing, the first conv1.weight.*are unknown to it.*--model"):
        load_pretrained(resnet, str(tmp_path / "w.safetensors"))


def test_a_file_that_lacks_some_weights_is_refused(trained, tmp_path: Path):
    most = {name: value for name, value in trained.state_dict().items() if not name.startswith("blocks.1.")}
    write_tensors(tmp_path / "w.safetensors", most)
    with pytest.raises(ValueError, match=r"are missing, the first blocks\.1\."):
        load_pretrained(new(), str(tmp_path / "w.safetensors"))


def test_code_in_a_file_is_not_run(tmp_path: Path):
    class Harmful:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "harmed",))

    torch.save({"weights": Harmful()}, tmp_path / "w.pth")
    with pytest.raises(ValueError, match="cannot be read as weights alone"):
        load_pretrained(new(), str(tmp_path / "w.pth"))
    assert not (tmp_path / "harmed").exists()


def test_a_missing_file_and_a_network_without_weights_to_download_say_what_to_do(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="there are no weights in"):
        load_pretrained(new(), str(tmp_path / "nowhere.pth"))
    with pytest.raises(ValueError, match="only timm networks have weights to download"):
        load_pretrained(hitnet.create_model("hitnet-fast", (1, 16, 16), 3), TIMM)


def test_without_a_network_the_error_names_the_file_as_a_remedy(timm, monkeypatch: pytest.MonkeyPatch):
    def offline(*_: object, **options: object) -> None:
        raise OSError("no route to host")

    model = new()
    monkeypatch.setattr(timm, "create_model", offline)
    with pytest.raises(RuntimeError, match=r"no route to host.*--pretrained FILE"):
        load_pretrained(model, TIMM)


@pytest.mark.parametrize(("before", "after"), [(1, 1), (3, 1), (1, 3)])
@torch.no_grad()
def test_another_model_of_this_package_lends_its_encoder_also_across_colours(tmp_path: Path, before: int, after: int):
    lender = hitnet.create_model("hitnet-fast", (before, 16, 16), 7, width=4).eval()
    lender.save(tmp_path)
    model = hitnet.create_model("hitnet-fast", (after, 16, 16), 3, width=4).eval()
    load_pretrained(model, str(tmp_path))
    grey = torch.rand(2, 1, 16, 16)
    seen = [each.features(grey.expand(-1, each.config.image_shape[0], -1, -1)) for each in (lender, model)]
    torch.testing.assert_close(*seen)


def test_any_other_network_of_this_package_is_refused_in_words(tmp_path: Path):
    hitnet.create_model("lenet5-hom", (1, 28, 28), 5).save(tmp_path)
    with pytest.raises(ValueError, match="holds the weights of another network than hitnet-fast"):
        load_pretrained(hitnet.create_model("hitnet-fast", (1, 28, 28), 5), str(tmp_path))


def test_a_run_of_timms_network_that_began_from_scratch_has_other_inputs(tmp_path: Path):
    hitnet.create_model(f"timm/{NAME}", (3, 32, 32), 5, capsule_dim=4).save(tmp_path)
    with pytest.raises(ValueError, match="trained from scratch, on images that were not normalised"):
        load_pretrained(new(), str(tmp_path))


def test_filters_that_the_lenders_convolutions_were_trained_with_are_kept(tmp_path: Path):
    lender, borrower = (hitnet.create_model("hitnet-deep", (1, 8, 8), 3, width=4) for _ in range(2))
    lender.save(tmp_path / "lender")  # trained in a loop that did not prepare it
    load_pretrained(borrower, str(tmp_path / "lender"))
    borrower.encoder.prepare(torch.rand(9, 1, 8, 8))
    assert torch.equal(borrower.encoder.whitening, lender.encoder.whitening)


def test_the_deep_network_is_not_lent_across_colours(tmp_path: Path):
    hitnet.create_model("hitnet-deep", (3, 16, 16), 5, width=4).save(tmp_path / "colour")
    grey = hitnet.create_model("hitnet-deep", (1, 16, 16), 5, width=4)
    with pytest.raises(ValueError, match="trained on images with 3 channels, these have 1; hitnet-deep is"):
        load_pretrained(grey, str(tmp_path / "colour"))
