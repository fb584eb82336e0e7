"""What networks refuse: expected, got and remedy are in every answer."""

from functools import partial

import pytest
import torch

import hitnet
from hitnet import create_model

WRONG_IMAGES = {
    "bytes": (torch.zeros(2, 1, 28, 28, dtype=torch.uint8), TypeError, r"got torch.uint8; use images.float\(\) / 255"),
    "integers": (
        torch.zeros(2, 1, 28, 28, dtype=torch.long),
        TypeError,
        r"floating point in \[0, 1\], got torch.int64",
    ),
    "doubles": (torch.rand(2, 1, 28, 28).double(), TypeError, r"must be torch.float32 like.*got torch.float64; use"),
    "numpy": (torch.rand(2, 1, 28, 28).numpy(), TypeError, r"must be a tensor, got ndarray; use torch.as_tensor"),
    "0 to 255": (torch.rand(2, 1, 28, 28) * 255, ValueError, r"must lie in \[0, 1\], got values from .* divide by 255"),
    "a little too bright": (torch.rand(2, 1, 28, 28) + 0.02, ValueError, r"got values from .*; undo any normalisation"),
    "normalised": (torch.linspace(-2, 2, 1568).view(2, 1, 28, 28), ValueError, r"from -2 to 2; undo any normalisation"),
    "NaN": (
        torch.full((2, 1, 28, 28), torch.nan),
        ValueError,
        r"must be numbers in \[0, 1\], got NaN; look for broken",
    ),
    "one NaN": (
        torch.zeros(2, 1, 28, 28).index_fill_(3, torch.tensor([5]), torch.nan),
        ValueError,
        r"must be numbers in \[0, 1\], got NaN",
    ),
    "infinite": (
        torch.full((2, 1, 28, 28), torch.inf),
        ValueError,
        r"must lie in \[0, 1\], got values from inf to inf",
    ),
    "empty batch": (torch.rand(0, 1, 28, 28), ValueError, r"at least one image, got an empty batch; skip empty"),
    "no channels": (torch.rand(2, 28, 28), ValueError, r"shape \(batch, 1, 28, 28\), got \(2, 28, 28\); reshape"),
    "one image": (torch.rand(1, 28, 28), ValueError, r"shape \(batch, 1, 28, 28\), got \(1, 28, 28\); reshape"),
    "channels last": (torch.rand(2, 28, 28, 1), ValueError, r"got \(2, 28, 28, 1\); reshape them, or create the model"),
    "another size": (torch.rand(2, 1, 32, 32), ValueError, r"got \(2, 1, 32, 32\); .* another image_shape"),
    "colour": (torch.rand(2, 3, 28, 28), ValueError, r"got \(2, 3, 28, 28\)"),
}


@pytest.mark.parametrize("case", WRONG_IMAGES)
def test_wrong_images_are_answered_with_expected_got_and_remedy(small_model, case):
    images, error, text = WRONG_IMAGES[case]
    net = small_model("hitnet")
    for ask in (net, net.predict, partial(hitnet.verdicts, net), partial(hitnet.outlier_score, net)):
        with pytest.raises(error, match=text):
            ask(images)


@pytest.mark.parametrize(
    ("labels", "error", "text"),
    [
        (torch.tensor([0, 10]), ValueError, r"labels must lie in 0..9, got 10; check num_classes"),
        (torch.tensor([-1, 3]), ValueError, r"labels must lie in 0..9, got -1; check num_classes"),
        (torch.tensor([0.0, 1.0]), TypeError, r"labels must be integers, got torch.float32; use labels.long\(\)"),
        (torch.eye(10)[:2].long(), ValueError, r"shape \(2,\).*got \(2, 10\).*argmax"),
        (torch.tensor([0, 1, 2]), ValueError, r"shape \(2,\).*got \(3,\)"),
    ],
)
def test_wrong_labels_are_answered_with_expected_got_and_remedy(small_model, labels, error, text):
    net, images = small_model("hitnet"), torch.rand(2, 1, 28, 28)
    with pytest.raises(error, match=text):
        net(images, labels)
    with pytest.raises(error, match=text):
        net.loss(net(images), images, labels)
    with pytest.raises(error, match=text):
        net.decode(torch.rand(2, 10, 16), labels)


@pytest.mark.parametrize("shape", [(2, 10, 15), (2, 9, 16), (10, 16), (2, 160)])
def test_wrong_capsules_are_answered_with_expected_got_and_remedy(small_model, shape):
    with pytest.raises(ValueError, match=rf"shape \(batch, 10, 16\), got \({', '.join(map(str, shape))}\); a single"):
        small_model("hitnet").decode(torch.rand(shape), torch.zeros(shape[0], dtype=torch.long))


def test_decoding_nothing_is_refused(small_model):
    with pytest.raises(ValueError, match="at least one class index, got an empty batch; skip empty batches"):
        small_model("hitnet").decode(torch.rand(0, 10, 16), torch.zeros(0, dtype=torch.long))


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("hitnett", {}, r"no model 'hitnett'; did you mean 'hitnet'\?"),
        ("resnet-18", {}, r"no model 'resnet-18'; did you mean 'resnet18'\?"),
        ("vgg", {}, r"no model 'vgg'; known: hitnet, "),
        ("hitnet", {"capsule_dims": 8}, r"no model option 'capsule_dims'; did you mean 'capsule_dim'\?"),
        ("hitnet", {"with": 8}, r"no model option 'with'; did you mean 'width'\?"),
        ("hitnet", {"num_classes": 1}, "num_classes must be at least 2, got 1; one class leaves nothing to choose"),
        ("hitnet", {"capsule_dim": 0}, "capsule_dim must be at least 1, got 0; the paper uses 16"),
        ("capsnet", {"capsule_dim": 0}, "capsule_dim must be at least 1, got 0; the paper uses 16"),
        ("hitnet", {"norm": "batch"}, "norm must be 'shared' or 'separate', got 'batch'"),
        ("hitnet", {"width": 0}, "width must be at least 1, got 0; leave it out"),
        ("hitnet", {"decoder": "papr"}, "decoder must be .*, got 'papr'"),
        ("hitnet", {"hit_radius": 0.9, "miss_radius": 0.1}, "hit_radius < miss_radius must hold, got 0.9 and 0.1"),
        ("capsnet", {"routing_iterations": 0}, "routing_iterations must be at least 1, got 0; the paper uses 3"),
        ("hitnet", {"image_shape": (28, 28)}, r"\(channels, height, width\), all at least 1, got \(28, 28\); grey"),
        ("hitnet", {"image_shape": (0, 28, 28)}, r"all at least 1, got \(0, 28, 28\); grey images have 1 channel"),
        ("hitnet", {"image_shape": (1, 28.5, 28)}, r"\(channels, height, width\), all at least 1, got \(1, 28.5, 28\)"),
        ("hitnet", {"image_shape": None}, r"hitnet needs an image_shape, got None; give \(channels, height, width\)"),
    ],
)
def test_a_model_that_cannot_be_is_answered_with_expected_got_and_remedy(name, options, text):
    with pytest.raises(ValueError, match=text):
        create_model(name, **options)
