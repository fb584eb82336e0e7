"""The whole registry: shapes, gradients, decisions, copies, compilation, sizes and learning."""

import copy
import re

import pytest
import torch

from hitnet import create_model, list_models
from hitnet.core.model import build
from hitnet.settings import ModelConfig

NAMES = list_models()
PLAIN = {"n1", "lenet5", "resnet18", "densenet40-12"}
SHAPES = [(1, 28, 28), (3, 32, 32), (1, 17, 20), (2, 40, 24)]

every_model = pytest.mark.parametrize("name", NAMES)
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_all_models_are_listed_and_patterns_choose_among_them():
    promised = ["hitnet", "n1", "n2", "n2b", "capsnet", "lenet5", "resnet18", "densenet40-12"]
    with_hom = ["lenet5-hom", "resnet18-hom", "densenet40-12-hom"]
    assert {*promised, *with_hom} <= set(list_models())
    assert list_models("*-hom") == with_hom
    assert list_models("n2*") == ["n2", "n2b"]
    assert list_models("vgg*") == []


# ---- over the whole registry


@every_model
@every_shape
def test_output_shapes_finite_values_and_a_gradient_for_every_parameter(small_model, name, shape):
    net = small_model(name, shape, num_classes=5, capsule_dim=6)
    # Enough images that the decoder of hitnet-fast drops something in one of them.
    images, labels = torch.rand(24, *shape), torch.arange(24) % 5
    out = net(images, labels)
    assert out.capsules.shape == (24, 5, 1 if name in PLAIN else 6)
    assert out.scores.shape == (24, 5)
    loss = net.loss(out, images, labels)
    assert loss.total.shape == loss.classification.shape == ()
    if name in PLAIN:
        assert out.reconstruction is None
        assert loss.reconstruction is None
        assert torch.equal(loss.total, loss.classification)
    else:
        assert out.reconstruction.shape == images.shape
        assert ((out.reconstruction >= 0) & (out.reconstruction <= 1)).all()
        torch.testing.assert_close(loss.reconstruction, (out.reconstruction - images).square().mean())
        weight = {"hitnet-fast": 3.0, "hitnet-deep": 10.0}.get(name, 0.392)
        torch.testing.assert_close(loss.total, loss.classification + weight * loss.reconstruction)
    for part in out:
        assert part is None or torch.isfinite(part).all()
    loss.total.backward()
    for parameter_name, parameter in net.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert torch.isfinite(parameter.grad).all(), parameter_name
        assert parameter.grad.any(), parameter_name


@every_model
def test_predict_agrees_with_the_scores_and_leaves_the_mode_alone(small_model, name):
    net, images = small_model(name), torch.rand(7, 1, 28, 28)
    net(images)
    assert net.training
    predicted = net.predict(images)
    assert net.training
    assert not predicted.requires_grad
    scores = net.eval()(images).scores.tolist()
    pick = min if name.endswith("-hom") or name.startswith("hitnet") else max
    assert predicted.tolist() == [row.index(pick(row)) for row in scores]
    assert torch.equal(net.predict(images, batch_size=3), predicted)


@every_model
def test_evaluation_is_deterministic_and_sees_each_image_alone(small_model, name):
    net, images = small_model(name), torch.rand(5, 1, 28, 28)
    net(images)
    net.eval()
    together, again = net(images), net(images)
    alone = [net(image.unsqueeze(0)) for image in images]
    for index, part in enumerate(together):
        if part is not None:
            assert torch.equal(part, again[index])
            torch.testing.assert_close(part, torch.cat([out[index] for out in alone]), rtol=1e-4, atol=1e-5)


@every_model
def test_weights_go_from_one_model_to_another_and_copies_are_their_own(small_model, name):
    net, images = small_model(name), torch.rand(3, 1, 28, 28)
    net(images)
    other = small_model(name)
    other.load_state_dict(net.state_dict())
    twin = copy.deepcopy(net)
    expected = net.eval()(images).scores
    assert torch.equal(other.eval()(images).scores, expected)
    assert torch.equal(twin.eval()(images).scores, expected)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1)
    assert torch.equal(net(images).scores, expected)


@every_model
def test_forward_compiles_to_one_graph(small_model, name):
    net, images = small_model(name), torch.rand(3, 1, 28, 28)
    labels = torch.tensor([1, 2, 3])
    torch.compiler.reset()
    compiled = torch.compile(copy.deepcopy(net), fullgraph=True, backend="eager")
    outputs = []
    for network in (compiled, net):
        torch.manual_seed(1)  # a decoder may drop inputs at random
        outputs.append(network(images, labels))
    for got, expected in zip(*outputs, strict=True):
        if expected is not None:
            torch.testing.assert_close(got, expected)


@every_model
@pytest.mark.parametrize(("classes", "dims"), [(2, 1), (37, 2)])
def test_any_number_of_classes_and_any_capsule_size(small_model, name, classes, dims):
    net = small_model(name, num_classes=classes, capsule_dim=dims)
    images, labels = torch.rand(2, 1, 28, 28), torch.tensor([0, classes - 1])
    out = net(images, labels)
    assert out.scores.shape == (2, classes)
    net.loss(out, images, labels).total.backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in net.parameters())
    assert net.predict(images).max() < classes


@every_model
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_two_blank_images_give_finite_gradients(small_model, name, value):
    net, images = small_model(name), torch.full((2, 1, 28, 28), value)
    labels = torch.tensor([0, 9])
    net.loss(net(images, labels), images, labels).total.backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in net.parameters())


@pytest.mark.parametrize("name", [name for name in NAMES if name not in PLAIN])
def test_one_image_is_enough_to_train_with_shared_statistics(small_model, name):
    net, images, labels = small_model(name), torch.rand(1, 1, 28, 28), torch.tensor([3])
    loss = net.loss(net(images, labels), images, labels).total
    loss.backward()
    assert torch.isfinite(loss)


@pytest.mark.parametrize(("name", "options"), [("hitnet", {"norm": "separate"}), ("n1", {})])
def test_one_image_is_too_few_to_train_with_separate_statistics(small_model, name, options):
    with pytest.raises(ValueError, match="needs at least 2 images per batch, got 1: BatchNorm cannot estimate"):
        small_model(name, **options)(torch.rand(1, 1, 28, 28))


@every_model
def test_a_model_computes_in_double_precision_too(small_model, name):
    net, images = small_model(name).double(), torch.rand(2, 1, 28, 28, dtype=torch.float64)
    assert all(part is None or part.dtype == torch.float64 for part in net(images))


# ---- sizes


def test_parameter_counts_of_the_papers_networks():
    encoder = (9 * 9 * 1 * 256 + 256) + (9 * 9 * 256 * 256 + 256)
    decoder = (160 * 512 + 512) + (512 * 1024 + 1024) + (1024 * 784 + 784)
    hit_or_miss = (6 * 6 * 256) * 160 + 160 + 2 * 16
    routing = (32 * 6 * 6) * 8 * 160
    assert encoder + routing == 6_804_224
    assert parameters(create_model("capsnet", decoder="none")) == encoder + routing
    assert parameters(create_model("capsnet")) == encoder + routing + decoder == 8_215_568
    assert parameters(create_model("hitnet")) == encoder + hit_or_miss + decoder == 8_215_760
    assert parameters(create_model("n1")) == encoder + 9216 * 10 + 2 * 10
    separate = 9216 * 160 + 2 * 160
    assert parameters(create_model("hitnet", norm="separate")) == encoder + separate + decoder


@pytest.mark.parametrize(
    ("name", "shape", "count"),
    [
        ("lenet5", (1, 28, 28), 61_706),
        ("resnet18", (3, 32, 32), 11_173_962),
        ("densenet40-12", (3, 32, 32), 1_019_722),
    ],
)
def test_parameter_counts_of_the_other_networks_are_the_published_ones(name, shape, count):
    net = create_model(name, shape)
    assert parameters(net) == count
    assert net(torch.rand(2, *shape)).scores.shape == (2, 10)


@every_model
def test_too_small_an_image_is_answered_with_the_smallest_size_and_that_size_works(small_model, name):
    smallest = 1
    try:
        small_model(name, (1, 1, 1))
    except ValueError as error:
        smallest = int(re.search(r"at least (\d+)×\1 for this network, got 1×1; resize", str(error)).group(1))
        with pytest.raises(ValueError, match=f"got {smallest}×{smallest - 1}"):
            small_model(name, (1, smallest, smallest - 1))
    expected = {"lenet5": 1, "resnet18": 1, "densenet40-12": 4, "hitnet-fast": 4, "hitnet-deep": 4}
    assert smallest == expected.get(name.removesuffix("-hom"), 17)
    images, labels = torch.rand(2, 1, smallest, smallest), torch.tensor([0, 1])
    net = small_model(name, images.shape[1:])
    assert torch.isfinite(net.loss(net(images, labels), images, labels).total)


def test_predicting_leaves_a_frozen_part_frozen(small_model):
    net = small_model("resnet18-hom")
    net.encoder.eval()
    net.predict(torch.rand(2, 1, 28, 28))
    assert net.training
    assert not any(part.training for part in net.encoder.modules())


def test_the_mode_comes_back_after_an_error(small_model):
    net = small_model("hitnet")
    with pytest.raises(ValueError, match="empty batch"):
        net.predict(torch.rand(0, 1, 28, 28))
    assert net.training


def test_images_may_carry_a_gradient_of_their_own(small_model):
    images = torch.rand(2, 1, 28, 28, requires_grad=True)
    small_model("hitnet")(images).scores.sum().backward()
    assert images.grad.any()


def test_reduced_precision_under_autocast_takes_the_same_images(small_model):
    net, images = small_model("hitnet"), torch.rand(2, 1, 28, 28)
    with torch.autocast("cpu", enabled=True, dtype=torch.float16):
        assert torch.isfinite(net(images).scores).all()


def test_capsules_and_scores_are_in_full_precision_under_autocast():
    net = create_model("hitnet", width=8)
    with torch.autocast("cpu", torch.bfloat16):
        out = net(torch.rand(2, 1, 28, 28))
    assert out.capsules.dtype == out.scores.dtype == torch.float32


# ---- learning


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hitnet", {"width": 16}),
        ("n1", {"width": 16}),
        # With shared statistics and so narrow an encoder N2 may shrink all capsules to zero and stay there.
        ("n2", {"width": 16, "norm": "separate"}),
        ("n2b", {"width": 16}),
        ("capsnet", {"width": 16}),
        ("lenet5", {}),
        ("lenet5-hom", {}),
        ("hitnet-fast", {"width": 8}),
    ],
)
def test_every_head_overfits_64_digits_to_zero_errors(digits, name, options):
    images, labels = digits
    # Averages that follow in a few steps: Keras' 0.01 would need hundreds.
    net = create_model(name, norm_momentum=0.1, **options)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, eps=1e-7)
    errors = []
    for step in range(200):
        if step % 20 == 0:
            errors.append(int((net.predict(images) != labels).sum()))
            if errors[-1] == 0:
                break
        optimizer.zero_grad()
        net.loss(net(images, labels), images, labels).total.backward()
        optimizer.step()
    assert errors[0] > 32
    assert errors[-1] == 0


def test_a_configuration_builds_its_network_again_also_from_lists():
    net = create_model("hitnet", [1, 20, 20], num_classes=3, capsule_dim=5, width=8)
    assert net.config.image_shape == (1, 20, 20)
    twin = build(net.config)
    twin.load_state_dict(net.state_dict())
    images = torch.rand(2, 1, 20, 20)
    assert torch.equal(twin.eval()(images).scores, net.eval()(images).scores)
    with pytest.raises(ValueError, match=r"did you mean 'hitnet'\?"):
        build(ModelConfig.from_options(name="hit-net"))
