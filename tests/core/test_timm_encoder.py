"""HoM in the networks of timm, by hand and by name."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import hitnet
from hitnet import cli, errors
from hitnet.core.timm_encoder import load_timm
from hitnet.runs.run import Run

FAMILIES = {
    "resnet18": {},
    "densenet121": {},
    "efficientnet_b0": {},
    "mobilenetv3_small_050": {},
    "convnext_atto": {},
    "vit_tiny_patch16_224": {"img_size": 32, "depth": 4},
    "swin_tiny_patch4_window7_224": {"img_size": 32, "depths": (1, 1, 1, 1)},
    "regnetx_002": {},
}


@pytest.fixture(scope="module")
def timm() -> ModuleType:
    return load_timm()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", FAMILIES)
def test_hom_trains_and_draws_in_every_family(timm: ModuleType, name: str, channels: int):
    backbone = timm.create_model(name, in_chans=channels, num_classes=7, **FAMILIES[name])
    net = hitnet.with_hit_or_miss(backbone, num_classes=5, capsule_dim=4, image_shape=(channels, 32, 32))
    images, labels = torch.rand(4, channels, 32, 32), torch.arange(4)
    out = net(images, labels)
    assert (out.capsules.shape, out.scores.shape) == ((4, 5, 4), (4, 5))
    net.loss(out, images, labels).total.backward()
    for place, parameter in net.named_parameters():
        assert parameter.grad is not None, place
        assert torch.isfinite(parameter.grad).all(), place
    assert any(parameter.grad.any() for parameter in net.encoder.parameters())
    drawn = hitnet.prototypes(net)
    assert drawn.shape == (5, channels, 32, 32)
    assert 0 <= drawn.min() <= drawn.max() <= 1


@pytest.mark.parametrize("name", ["resnet18", "mobilenetv3_small_050", "vit_tiny_patch16_224"])
def test_a_network_by_name_is_the_transplanted_one_and_its_folder_is_enough_to_load_it(name: str, tmp_path: Path):
    net = hitnet.create_model(f"timm/{name}", (3, 32, 32), 5, capsule_dim=4).eval()
    net.save(tmp_path)
    loaded = hitnet.load(tmp_path)
    images = torch.rand(2, 3, 32, 32)
    assert loaded.config == net.config
    assert torch.equal(loaded(images).scores, net(images).scores)
    assert net.head.layer.in_features == net.encoder(images).shape[1]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "timm/resnet81",
            {},
            r"there is no model 'timm/resnet81'; did you mean 'timm/\w*resnet\w*'\? timm.list_models",
        ),
        ("timm/hf-hub:somebody/something", {}, "there is no model 'timm/hf-hub:somebody/something'"),
        (
            "timm/densenet121",
            {"image_shape": (1, 8, 8)},
            r"timm/densenet121 cannot process images of shape \(1, 8, 8\)",
        ),
        ("timm/resnet18", {"width": 8}, "timm/resnet18 has a fixed width, got 8"),
        (
            "timm/vit_tiny_patch16_224",
            {"image_shape": (1, 32, 40)},
            r"patches of 16 pixels leave the last 8 of 40 unseen; the nearest side that fits is 48\); .*--image-size",
        ),
        ("timm/vit_tiny_patch16_224", {"image_shape": (1, 28, 28)}, "last 12 of 28 unseen.* fits is 32"),
        ("timm/eva02_tiny_patch14_224", {"image_shape": (3, 32, 32)}, "last 4 of 32 unseen.* fits is 28"),
        ("timm/pit_ti_224", {"image_shape": (1, 28, 28)}, "patches of 16 pixels leave the last 4 of 28.* fits is 32"),
        ("timm/convnext_atto", {"image_shape": (1, 33, 33)}, "patches of 4 pixels leave the last 1 of 33.* fits is 32"),
    ],
)
def test_what_cannot_be_made_is_explained(name: str, options: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        hitnet.create_model(name, **options)


@pytest.mark.parametrize(
    ("name", "side"),
    [("vit_tiny_patch16_224", 32), ("eva02_tiny_patch14_224", 28), ("pit_ti_224", 24), ("pvt_v2_b0", 30)],
)
def test_patches_that_fill_the_image_see_every_pixel(name: str, side: int):
    net = hitnet.create_model(f"timm/{name}", (1, side, side), decoder="none").eval()
    images = torch.rand(2, 1, side, side, requires_grad=True)
    net(images).scores.sum().backward()
    assert images.grad.any(dim=0).all()


def test_a_missing_timm_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"a timm network needs timm; install: pip install 'hitnet\[timm\]'"):
        hitnet.create_model("timm/resnet18")


def test_a_timm_that_cannot_be_loaded_is_explained_and_breaks_nothing_else(tmp_path: Path):
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    code = "import hitnet; hitnet.create_model('lenet5-hom'); from hitnet import cli; cli.main()"
    command = [sys.executable, "-c", code, "train", "--model", "timm/resnet18", "--out", str(tmp_path / "runs")]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("hitnet: error: timm is installed but cannot be imported (operator torchvision::nms")
    assert "install the matching one" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_the_page_trains_on_the_command_line_and_every_verb_takes_the_run(
    tmp_path: Path, folder_of_pictures: Path, run_examples, capsys
):
    names = run_examples("docs/pytorch.md", tmp_path)
    assert names["net"].config.class_names == ("dark", "light")
    assert names["pictures"].shape == (10, 1, 28, 28)
    assert torch.equal(hitnet.prototypes(names["again"]), names["pictures"])
    assert names["finished"].config.decoder == "picture"
    assert names["drawn"].shape == (10, 1, 28, 28)
    assert list((tmp_path / "runs" / "mnist-mini" / "lenet5-hom-s0" / "tensorboard").glob("*.epoch-0002"))

    run = Run.open(tmp_path / "runs" / "my-pictures" / "timm-resnet18-s0")
    assert (run.read_result()["model"], run.read_result()["decoder"]) == ("timm/resnet18", "PaperDecoder")
    assert (run.path / "plots" / "atlas" / "1-light.png").is_file()
    said = capsys.readouterr().out
    assert "mistakes in 4 images" in said
    cli.predict(run.path, (tmp_path / "my-pictures" / "dark" / "19.png",))
    assert re.search(r"19\.png │ (dark|light) ", capsys.readouterr().out)
    cli.export(run.path, "pt2")
    assert "decoder.pt2" in capsys.readouterr().out
