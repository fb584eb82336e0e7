"""Drawings smaller than the images: what is compared is made equally large, and what is read is made large enough."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import hitnet
from hitnet.core.model import Model
from hitnet.core.resizing import resized
from hitnet.data import HybridAugmentation, ImageSet
from hitnet.interpret.quality import measure
from hitnet.settings import ModelConfig, read_model_config
from hitnet.training.finishing import Finishing
from hitnet.web.bundle import describe_model


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(0)
    return hitnet.create_model("hitnet-fast", (3, 24, 32), 3, capsule_dim=4, width=4, draw_size=8).eval()


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.rand(12, 3, 24, 32, generator=torch.Generator().manual_seed(1))


LABELS = torch.arange(12) % 3


@pytest.mark.parametrize(
    ("image", "draw", "expected"),
    [((1, 28, 28), 64, (28, 28)), ((3, 128, 128), 64, (64, 64)), ((3, 96, 224), 64, (27, 64)), ((1, 90, 1), 9, (9, 1)),
     ((3, 128, 96), None, (128, 96))],
)  # fmt: skip
def test_the_longest_side_is_limited_and_the_proportions_stay(image, draw, expected):
    assert ModelConfig(image_shape=image, draw_size=draw).drawing_shape == (image[0], *expected)


def test_large_images_are_drawn_at_64_pixels_unless_the_file_is_older(tmp_path: Path):
    model = hitnet.create_model("hitnet-fast", (1, 70, 70), 3, width=2)
    assert hitnet.prototypes(model).shape == (3, 1, 64, 64)
    model.save(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(file.read_text().replace('"draw_size": 64,', ""))
    assert read_model_config(file).drawing_shape == (1, 70, 70)


def test_a_shrunk_picture_holds_the_means_of_what_its_pixels_cover():
    # Pixels that each cover a block of equal ones; a picture of one block's size would otherwise miss most of them.
    blocks = torch.rand(1, 1, 4, 4)
    smooth = F.interpolate(blocks, (32, 32), mode="bilinear", antialias=True)
    striped = smooth + 0.5 * (torch.arange(32) % 2 - 0.5)
    torch.testing.assert_close(resized(striped, (4, 4)), resized(smooth, (4, 4)), atol=0.02, rtol=0)


def test_the_loss_compares_drawings_with_shrunk_images(model, images):
    out = model(images, LABELS)
    small = F.interpolate(images, (6, 8), mode="bilinear", antialias=True)
    assert out.reconstruction.shape == small.shape
    expected = ((out.reconstruction - small) ** 2).mean()
    torch.testing.assert_close(model.loss(out, images, LABELS).reconstruction, expected)


def test_sizes_that_agree_change_nothing(images):
    model = hitnet.create_model("hitnet-fast", (3, 24, 32), 3, width=4)
    assert model.shrink(images) is images
    assert model.enlarge(images) is images


def test_a_new_image_keeps_its_size_and_its_details(model, images):
    made = HybridAugmentation(model, 0.3).make(images, LABELS, torch.Generator().manual_seed(0))
    change = F.interpolate(made.modified - made.reconstruction, (24, 32), mode="bilinear")
    torch.testing.assert_close(made.images, (images + change).clamp(0, 1))
    assert torch.equal(HybridAugmentation(model, 0.0)(images, LABELS), images)


def test_drawings_are_measured_finished_and_explained(model, images):
    data = ImageSet((255 * images).round().byte(), LABELS)
    measured = measure(model, data).quality
    assert measured.images == 12
    assert torch.isfinite(torch.tensor([measured.r2, *measured.read_back, measured.edge_energy])).all()
    explanation = hitnet.explain(model, images[0])
    assert explanation.image.shape == (3, 24, 32)
    torch.testing.assert_close(explanation.residual, model.shrink(images[:1])[0] - explanation.reconstruction)
    assert explanation.what_if.frames.shape[1:] == (3, 6, 8)
    assert describe_model(model)["shape"] == [3, 24, 32]
    assert describe_model(model)["drawing"] == [3, 6, 8]


def test_finishing_lets_the_network_read_its_drawings_at_the_size_of_images(images):
    model = hitnet.create_model("hitnet-fast", (3, 24, 32), 3, capsule_dim=4, width=4, draw_size=8)
    phase = Finishing(model, ImageSet((255 * images).round().byte(), LABELS), steps=2)
    read: list[tuple[int, ...]] = []
    model.encoder.register_forward_pre_hook(lambda _, inputs: read.append(tuple(inputs[0].shape[1:])))
    before = {name: value.clone() for name, value in phase.decoder.state_dict().items()}
    phase.step()
    assert read == [(3, 24, 32)]
    assert phase.finished_decoder().sizes[-1] == [6, 8]
    assert any(not torch.equal(value, before[name]) for name, value in phase.decoder.state_dict().items())
