"""HoM in somebody else's network."""

import copy
import pickle
from collections import OrderedDict

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hitnet import HitOrMiss, with_hit_or_miss


def plain() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, 10))


def ending_with_log_softmax() -> nn.Sequential:
    return plain().append(nn.LogSoftmax(dim=1))


class TinyResNet(nn.Module):
    """As torchvision writes it: conv1, bn1, layer1, avgpool, fc."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.layer1 = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(x + self.layer1(x))
        return self.fc(self.avgpool(x).flatten(1))


class TinyViT(nn.Module):
    """As timm writes it: patches, a class token, attention, norm, head."""

    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(1, 12, 4, stride=4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, 12))
        self.attention = nn.MultiheadAttention(12, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12))
        self.norm, self.head = nn.LayerNorm(12), nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(self.norm(x + self.mlp(x))[:, 0])


class Nested(nn.Module):
    """As MobileNet: the Linear inside `classifier`, behind dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(6, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


class TwoHeads(nn.Module):
    """A main and an auxiliary classifier of the same size."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.ReLU())
        self.main, self.auxiliary = nn.Linear(20, 10), nn.Linear(20, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.main(self.body(x))


class FunctionalSoftmax(TinyResNet):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).softmax(dim=1)


class HeadFirst(nn.Module):
    """The classifier is defined first, and a softmax weighs features after it in the file, before it in the flow."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 10)
        self.mix, self.attention = nn.Linear(64, 16), nn.Softmax(dim=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.attention(self.mix(x.flatten(1))))


class Attention(nn.Module):
    """Its softmax, defined right behind the classifier, weighs rows of pixels before it; a second one may end it."""

    def __init__(self, ending: nn.Module | None = None) -> None:
        super().__init__()
        self.ending = ending or nn.Identity()
        self.query, self.fc, self.softmax = nn.Linear(8, 16), nn.Linear(16, 10), nn.Softmax(dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.query(x[:, 0])
        return self.ending(self.fc((self.softmax(rows @ rows.mT) @ rows).mean(dim=1)))


class OneSoftmaxForAll(Attention):
    """The attention's softmax works on the classifier's output too."""

    def forward(self, x: Tensor) -> Tensor:
        return self.softmax(super().forward(x))


class Tutorial(nn.Module):
    """As many tutorials write it: F.log_softmax(self.fc(x))."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.fc = nn.Linear(64, 20), nn.Linear(20, 10)

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(self.fc(self.hidden(x.flatten(1)).relu()), dim=1)


class Reshaped(Tutorial):
    """Nothing is computed after the classifier, though another tensor comes out."""

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.hidden(x.flatten(1)).relu()).unsqueeze(2).flatten(1).float()


def named_log_softmax() -> nn.Sequential:
    last = nn.Sequential(OrderedDict(fc=nn.Linear(20, 10), end=nn.LogSoftmax(dim=1)))
    return nn.Sequential(OrderedDict(body=nn.Sequential(nn.Flatten(), nn.Linear(64, 20)), last=last))


IMAGE_SHAPE = (1, 8, 8)
MODULES = {
    "sequential": (plain, "3", 20),
    "log-softmax": (ending_with_log_softmax, "3", 20),
    "named log-softmax": (named_log_softmax, "last.fc", 20),
    "attention": (Attention, "fc", 16),
    "resnet": (TinyResNet, "fc", 8),
    "vit": (TinyViT, "head", 12),
    "nested": (Nested, "classifier.1", 6),
}
every_module = pytest.mark.parametrize("case", MODULES)


def features_of(module: nn.Module, classifier: str, images: Tensor) -> Tensor:
    """What the classifier of the untouched module is given."""
    seen: list[Tensor] = []
    hook = module.get_submodule(classifier).register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))
    module(images)
    hook.remove()
    return seen[0]


@every_module
@pytest.mark.parametrize("image_shape", [None, IMAGE_SHAPE], ids=["no decoder", "decoder"])
def test_hom_sees_what_the_classifier_saw(case, image_shape):
    make, classifier, width = MODULES[case]
    module, images = make().eval(), torch.rand(5, *IMAGE_SHAPE)
    expected = features_of(module, classifier, images)
    net = with_hit_or_miss(module, num_classes=7, capsule_dim=3, image_shape=image_shape)
    torch.testing.assert_close(net.eval().encoder(images), expected)
    assert isinstance(net.head.layer, HitOrMiss)
    assert net.head.layer.in_features == width
    out = net(images)
    assert (out.capsules.shape, out.scores.shape) == ((5, 7, 3), (5, 7))
    assert torch.equal(net.predict(images), out.scores.argmin(dim=1))
    if image_shape is None:
        assert out.reconstruction is None
        assert net.decoder is None
    else:
        assert out.reconstruction.shape == images.shape


@every_module
def test_the_loss_differentiates_into_the_backbone(case):
    net = with_hit_or_miss(MODULES[case][0](), image_shape=IMAGE_SHAPE)
    images, labels = torch.rand(6, *IMAGE_SHAPE), torch.arange(6)
    net.loss(net(images, labels), images, labels).total.backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
    assert any(parameter.grad.any() for parameter in net.encoder.parameters())


@every_module
def test_dtype_is_kept(case):
    net = with_hit_or_miss(MODULES[case][0]().double(), image_shape=IMAGE_SHAPE)
    assert {parameter.dtype for parameter in net.parameters()} == {torch.float64}
    out = net(torch.rand(2, *IMAGE_SHAPE, dtype=torch.float64))
    assert out.reconstruction.dtype == torch.float64


def test_device_is_kept():
    net = with_hit_or_miss(plain().to("meta"), num_classes=3)
    assert {parameter.device.type for parameter in net.parameters()} == {"meta"}


@pytest.mark.parametrize("image_shape", [None, IMAGE_SHAPE], ids=["no decoder", "decoder"])
@pytest.mark.parametrize("training", [True, False])
def test_the_modules_mode_is_left_alone(image_shape, training):
    module = TinyResNet().train(training)
    averages = module.bn1.running_mean.clone()
    with_hit_or_miss(module, image_shape=image_shape)
    assert {part.training for part in module.modules() if not isinstance(part, nn.Identity)} == {training}
    assert torch.equal(module.bn1.running_mean, averages)


def test_a_bare_linear_becomes_a_bare_hom():
    net = with_hit_or_miss(nn.Linear(64, 5), num_classes=5)
    assert torch.equal(net.encoder(torch.ones(2, 64)), torch.ones(2, 64))
    assert net(torch.rand(3, 64)).capsules.shape == (3, 5, 16)


@pytest.mark.parametrize(("classes", "dims"), [(2, 1), (37, 2), (1000, 16)])
def test_any_number_of_classes_and_any_capsule_size(classes, dims):
    out = with_hit_or_miss(TinyResNet(), num_classes=classes, capsule_dim=dims)(torch.rand(2, *IMAGE_SHAPE))
    assert out.capsules.shape == (2, classes, dims)


def test_options_reach_the_head_and_the_decoder_can_be_left_out():
    net = with_hit_or_miss(plain(), image_shape=[1, 8, 8], decoder="none", norm="separate", hit_radius=0.2)
    assert net.decoder is None
    assert net.head.layer.norm == "separate"
    assert net.head.centripetal.hit_radius == 0.2
    assert net(torch.rand(2, *IMAGE_SHAPE)).reconstruction is None


def test_two_heads_of_the_same_size_are_listed_and_a_name_decides():
    with pytest.raises(ValueError, match=r"cannot tell which Linear of TwoHeads.*classifier='name'") as caught:
        with_hit_or_miss(TwoHeads())
    for candidate in ("main (20→10)", "auxiliary (20→10)", "body.1 (64→20)"):
        assert candidate in str(caught.value)
    net = with_hit_or_miss(TwoHeads(), classifier="main", image_shape=IMAGE_SHAPE)
    assert net(torch.rand(2, *IMAGE_SHAPE)).scores.shape == (2, 10)


@pytest.mark.parametrize("name", ["fc2", "conv1", "fc.weight"])
def test_a_wrong_classifier_is_answered_with_those_there_are(name):
    with pytest.raises(ValueError, match=rf"must name a Linear of the module, got '{name}'; it has fc \(8→1000\)"):
        with_hit_or_miss(TinyResNet(), classifier=name)


def test_a_module_without_linear_is_answered_with_the_remedy():
    with pytest.raises(ValueError, match=r"Sequential has no Linear that HoM could replace; end it.*hitnet.HitOrMiss"):
        with_hit_or_miss(nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten()))


def unchanged(module: nn.Module, before: nn.Module) -> bool:
    images = torch.rand(2, *IMAGE_SHAPE)
    return str(module) == str(before) and torch.equal(module.eval()(images), before.eval()(images))


@pytest.mark.parametrize(
    ("module", "options", "text"),
    [
        (FunctionalSoftmax(), {}, r"computes something after 'fc' \(perhaps a softmax\); remove it"),
        (
            TwoHeads(),
            {"classifier": "auxiliary"},
            r"without 'auxiliary' the module must return features.*got \(1, 10\)",
        ),
        (OneSoftmaxForAll(), {}, r"computes something after 'fc' \(perhaps a softmax\)"),
        (HeadFirst(), {}, r"without 'mix' the module cannot process images of shape \(1, 8, 8\): .*classifier='name'"),
        (plain(), {"image_shape": (1, 9, 9)}, r"cannot process images of shape \(1, 9, 9\): .*check image_shape"),
        (plain(), {"capsule_dims": 3}, r"no model option 'capsule_dims'; did you mean 'capsule_dim'\?"),
        (plain(), {"image_shape": (8, 8)}, r"image_shape must be \(channels, height, width\).*got \(8, 8\)"),
        (plain(), {"image_shape": None, "decoder": "paper"}, "a decoder needs an image_shape, got None; give"),
    ],
)
def test_what_cannot_be_done_is_explained_and_leaves_the_module_as_it_was(module, options, text):
    before = copy.deepcopy(module)
    with pytest.raises(ValueError, match=text):
        with_hit_or_miss(module, **{"image_shape": IMAGE_SHAPE, **options})
    assert unchanged(module, before)


def test_a_wrong_module_is_found_at_the_first_images_where_no_shape_was_given():
    net = with_hit_or_miss(TwoHeads(), classifier="auxiliary")
    with pytest.raises(ValueError, match=r"features of shape \(2, 20\), got \(2, 10\); name the right Linear"):
        net(torch.rand(2, *IMAGE_SHAPE))


@pytest.mark.parametrize("module", [Tutorial(), OneSoftmaxForAll(), Attention(nn.Softmax(dim=1))])
def test_what_follows_the_classifier_is_found_at_the_first_images_where_no_shape_was_given(module):
    net = with_hit_or_miss(module)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"the module computes something after 'fc' \(perhaps a softmax\); remove"):
            net(torch.rand(2, *IMAGE_SHAPE))


def test_looking_for_what_follows_is_done_once_and_leaves_no_trace():
    module, images = TinyResNet(), torch.rand(4, *IMAGE_SHAPE)
    reference, net = with_hit_or_miss(copy.deepcopy(module), image_shape=IMAGE_SHAPE), with_hit_or_miss(module)
    reference.head.load_state_dict(net.head.state_dict())
    calls: list[int] = []
    module.conv1.register_forward_hook(lambda *_: calls.append(1))
    for passes in (2, 3):
        assert torch.equal(net(images).scores, reference(images).scores)
        assert len(calls) == passes
    assert torch.equal(module.bn1.running_mean, reference.encoder.module.bn1.running_mean)
    assert all(part.training for part in net.modules())
    assert not module.fc._forward_hooks


@pytest.mark.parametrize("looked", [False, True])
def test_a_network_is_copied_pickled_and_saved_before_and_after_it_was_looked_at(looked):
    net, images = with_hit_or_miss(TinyResNet()), torch.rand(3, *IMAGE_SHAPE)
    if looked:
        net(images)
    net.eval()
    others = [copy.deepcopy(net), pickle.loads(pickle.dumps(net)), with_hit_or_miss(TinyResNet()).eval()]
    others[-1].load_state_dict(net.state_dict())
    for other in others:
        assert torch.equal(other(images).scores, net(images).scores)


@pytest.mark.parametrize("autocast", [False, True])
def test_another_form_or_type_of_the_features_is_no_computing(autocast):
    net = with_hit_or_miss(Reshaped())
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        assert net(torch.rand(2, *IMAGE_SHAPE)).scores.shape == (2, 10)


def test_shapes_are_told_without_values():
    net = with_hit_or_miss(TinyResNet().to("meta"))
    assert net.encoder(torch.rand(2, *IMAGE_SHAPE, device="meta")).shape == (2, 8)


def test_a_softmax_that_is_no_classifiers_stays():
    module = HeadFirst()
    net = with_hit_or_miss(module, classifier="head", image_shape=IMAGE_SHAPE)
    torch.testing.assert_close(net.encoder(torch.rand(3, *IMAGE_SHAPE)).sum(dim=1), torch.ones(3))


def test_the_softmax_that_is_given_the_classifiers_output_goes_wherever_it_was_defined():
    module = Attention(nn.Softmax(dim=1))
    with_hit_or_miss(module, image_shape=IMAGE_SHAPE)
    assert isinstance(module.softmax, nn.Softmax)
    assert isinstance(module.ending, nn.Identity)


class ResNet(TinyResNet):
    """Its name is near resnet18's."""


def test_saving_is_answered_with_what_to_do_instead(tmp_path):
    net = with_hit_or_miss(ResNet(), image_shape=IMAGE_SHAPE)
    with pytest.raises(ValueError, match=r"your own ResNet cannot .* save net.state_dict\(\) and rebuild the network"):
        net.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_drawing_without_an_image_shape_is_refused_with_the_remedy():
    net = with_hit_or_miss(plain())
    with pytest.raises(ValueError, match=r"Sequential has no decoder.*image_shape=\(channels, height, width\)"):
        net.decode(torch.rand(2, 10, 16), torch.tensor([0, 1]))


def test_images_are_checked_where_their_shape_is_known():
    net = with_hit_or_miss(plain(), image_shape=IMAGE_SHAPE)
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\].*divide by 255"):
        net(torch.rand(2, *IMAGE_SHAPE) * 255)


@pytest.mark.parametrize("image_shape", [None, IMAGE_SHAPE], ids=["no decoder", "decoder"])
def test_forward_compiles_to_one_graph(image_shape):
    net, images = with_hit_or_miss(TinyResNet(), image_shape=image_shape).eval(), torch.rand(3, *IMAGE_SHAPE)
    torch.compiler.reset()
    compiled = torch.compile(net, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(images).scores, net(images).scores)


def test_a_network_of_no_shape_is_exported():
    net, images = with_hit_or_miss(TinyResNet()).eval(), torch.rand(3, *IMAGE_SHAPE)
    program = torch.export.export(net, (images,))
    torch.testing.assert_close(program.module()(images).scores, net(images).scores)
