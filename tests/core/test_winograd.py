"""The convolution by few multiplications gives what `nn.Conv2d` gives, and is it wherever that is faster."""

import copy
import io
import pickle
import warnings

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from hitnet.core.winograd import WinogradConv2d, bilinear, conv_relu_conv

TOLERANCE = 1e-5
both_axes = st.tuples


def forced(*args, **kwargs) -> WinogradConv2d:
    """A layer that uses few multiplications even where this is slower."""
    conv = WinogradConv2d(*args, **kwargs)
    conv.winograd = True
    return conv


def results(conv_input: Tensor, weight: Tensor, bias: Tensor | None, grad: Tensor, **options) -> list[Tensor]:
    """Output, and gradients of input, weight and bias, by the plain convolution in float64."""
    leaves = [t.detach().double().requires_grad_() for t in (conv_input, weight, bias) if t is not None]
    output = F.conv2d(leaves[0], leaves[1], leaves[2] if bias is not None else None, **options)
    output.backward(grad.double())
    return [output.detach(), *(leaf.grad for leaf in leaves)]


def assert_exact(conv: WinogradConv2d, x: Tensor) -> None:
    """Forward and all gradients within 1e-5 of float64.

    Relative to the largest value, or to what sums of as many random terms come to: a sum that cancels is no scale.
    """
    x.requires_grad_()
    assert conv.plan(x, x.shape) is not None
    output = conv(x)
    grad = torch.randn_like(output)
    output.backward(grad)
    options = {"stride": conv.stride, "padding": conv.padding}
    found = [output, x.grad, conv.weight.grad, *([conv.bias.grad] if conv.bias is not None else [])]
    exact = results(x, conv.weight, conv.bias, grad, **options)
    squares = results(x**2, conv.weight**2, conv.bias**2 if conv.bias is not None else None, grad**2, **options)
    for value, reference, square in zip(found, exact, squares, strict=True):
        scale = max(reference.abs().max().item(), square.max().sqrt().item())
        assert value.shape == reference.shape
        assert (value.double() - reference).abs().max().item() <= TOLERANCE * scale
    with torch.no_grad():
        assert (conv(x).double() - exact[0]).abs().max() <= TOLERANCE * max(
            exact[0].abs().max(), squares[0].max().sqrt()
        )


@given(
    kernel=both_axes(st.integers(1, 11), st.integers(1, 11)),
    stride=both_axes(st.integers(1, 4), st.integers(1, 4)),
    padding=both_axes(st.integers(0, 4), st.integers(0, 4)),
    extra=both_axes(st.integers(0, 24), st.integers(0, 24)),
    channels=st.integers(1, 9),
    filters=st.integers(1, 9),
    batch=st.integers(1, 4),
    bias=st.booleans(),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=150, deadline=None)
def test_any_shape_is_exact_forward_and_backward(kernel, stride, padding, extra, channels, filters, batch, bias, seed):
    torch.manual_seed(seed)
    size = [max(1, k - 2 * p) + e for k, p, e in zip(kernel, padding, extra, strict=True)]
    conv = forced(channels, filters, kernel, stride, padding, bias=bias)
    assert_exact(conv, torch.randn(batch, channels, *size))


@pytest.mark.parametrize("size", [(20, 20), (24, 24), (32, 32), (24, 30)])
@pytest.mark.parametrize("channels", [16, 64])
def test_the_papers_layer_is_exact(size, channels):
    torch.manual_seed(0)
    assert_exact(forced(channels, 64, 9, stride=2), torch.randn(8, channels, *size).relu())


@pytest.mark.parametrize(("taps", "outputs"), [(1, 1), (2, 3), (3, 4), (5, 6), (9, 12), (11, 16)])
def test_bilinear_map_is_a_convolution(taps, outputs):
    a, b, c = bilinear(taps, outputs, torch.float64)
    x, w = torch.randn(taps + outputs - 1, dtype=torch.float64), torch.randn(taps, dtype=torch.float64)
    torch.testing.assert_close(c @ ((a @ x) * (b @ w)), x.unfold(0, taps, 1) @ w, rtol=0, atol=1e-12)


def test_the_papers_layer_takes_441_products_where_the_direct_way_has_2916():
    conv = WinogradConv2d(256, 256, 9, stride=2)
    plan = conv.plan(torch.empty(0), (128, 256, 20, 20))
    assert plan is not None
    assert [phase.products for phase in plan.phases(torch.float32)] == [121, 110, 110, 100]


@pytest.mark.parametrize("size", [20, 24, 32])
def test_few_multiplications_are_chosen_for_the_papers_layer(size):
    conv = WinogradConv2d(256, 256, 9, stride=2)
    assert conv.plan(torch.empty(0), (128, 256, size, size)) is not None


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"kernel_size": 1}, (128, 256, 20, 20)),
        ({"kernel_size": 3, "padding": 1}, (128, 256, 20, 20)),
        ({"kernel_size": 3, "padding": 1, "stride": 2}, (128, 256, 20, 20)),
        ({"kernel_size": 9, "stride": 2}, (1, 256, 20, 20)),
    ],
)
def test_the_plain_convolution_is_chosen_for_small_kernels_and_single_images(options, shape):
    assert WinogradConv2d(256, 256, **options).plan(torch.empty(0), shape) is None


@pytest.mark.parametrize(
    "options",
    [{"groups": 2}, {"dilation": 2}, {"padding": 2, "padding_mode": "reflect"}, {"padding": "same"}],
    ids=lambda options: next(iter(options)),
)
def test_what_cannot_be_done_by_few_multiplications_is_a_plain_convolution(options):
    conv = forced(4, 6, 5, **options)
    plain = nn.Conv2d(4, 6, 5, **options)
    plain.load_state_dict(conv.state_dict())
    x = torch.randn(2, 4, 16, 16)
    assert torch.equal(conv(x), plain(x))


def test_unbatched_images_and_wrong_channels_behave_as_in_a_plain_convolution():
    conv = forced(4, 6, 5)
    x = torch.randn(4, 16, 16)
    torch.testing.assert_close(conv(x), conv(x[None])[0])
    assert conv(x[None][:0]).shape == (0, 6, 12, 12)
    with pytest.raises(RuntimeError, match="channels"):
        conv(torch.randn(2, 3, 16, 16))
    with pytest.raises(RuntimeError, match="size"):
        conv(torch.randn(2, 4, 3, 3))


def test_state_is_that_of_a_plain_convolution_and_loads_both_ways():
    conv, plain = WinogradConv2d(3, 5, 9, stride=2), nn.Conv2d(3, 5, 9, stride=2)
    assert [(k, v.shape) for k, v in conv.state_dict().items()] == [(k, v.shape) for k, v in plain.state_dict().items()]
    conv.load_state_dict(plain.state_dict())
    assert torch.equal(conv.weight, plain.weight)
    plain.load_state_dict(WinogradConv2d(3, 5, 9, stride=2).state_dict())


def halve(conv: WinogradConv2d) -> None:
    with torch.no_grad():
        conv.weight.mul_(0.5)


def halve_behind_the_version_counter(conv: WinogradConv2d) -> None:
    conv.weight.data.mul_(0.5)


def halve_by_loading(conv: WinogradConv2d) -> None:
    conv.load_state_dict({k: v / 2 for k, v in conv.state_dict().items()})


def halve_by_replacing(conv: WinogradConv2d) -> None:
    conv.weight = nn.Parameter(conv.weight.detach() / 2)


def train_a_step(conv: WinogradConv2d) -> None:
    optimizer = torch.optim.Adam(conv.parameters(), lr=0.1, fused=True)
    conv(torch.randn(2, 3, 20, 20)).square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize(
    "change", [halve, halve_behind_the_version_counter, halve_by_loading, halve_by_replacing, train_a_step]
)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_remembered_transform_is_never_stale(change, mode):
    conv = forced(3, 5, 9, stride=2)
    x = torch.randn(2, 3, 20, 20)
    with mode():
        before = conv(x)
        assert conv._cache is not None
        assert torch.equal(conv(x), before)
    change(conv)
    with mode():
        after = conv(x)
        expected = F.conv2d(x, conv.weight, conv.bias, stride=2)
    assert (after - before).abs().max() > 0.01
    torch.testing.assert_close(after, expected, rtol=0, atol=1e-5)


def test_the_remembered_transform_follows_size_and_dtype():
    conv = forced(3, 5, 9, stride=2)
    for size, dtype in [(20, torch.float32), (24, torch.float32), (20, torch.float64)]:
        x = torch.randn(2, 3, size, size, dtype=dtype)
        with torch.no_grad():
            torch.testing.assert_close(conv.to(dtype)(x), F.conv2d(x, conv.weight, conv.bias, 2), rtol=0, atol=1e-5)


def test_copies_and_pickles_leave_the_remembered_transform_behind():
    conv = forced(8, 8, 9, stride=2)
    x = torch.randn(2, 8, 20, 20)
    fresh = len(pickle.dumps(conv))
    with torch.no_grad():
        y = conv(x)
        copied = copy.deepcopy(conv)
        assert copied._cache is None
        assert len(pickle.dumps(conv)) == fresh
        assert set(conv.state_dict()) == {"weight", "bias"}
        halve(copied)
        assert torch.equal(conv(x), y)
        assert not torch.equal(copied(x), y)
        assert torch.equal(pickle.loads(pickle.dumps(conv))(x), y)


def test_a_model_tried_in_inference_mode_can_be_trained():
    conv = forced(3, 5, 9, stride=2)
    x = torch.randn(2, 3, 20, 20)
    with torch.inference_mode():
        conv(x)
    assert_exact(conv, x)


def test_float64_is_exact_to_float64():
    conv = forced(3, 5, 9, stride=2).double()
    x = torch.randn(2, 3, 20, 20, dtype=torch.float64)
    torch.testing.assert_close(conv(x), F.conv2d(x, conv.weight, conv.bias, 2), rtol=0, atol=1e-12)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_memory_formats_give_the_same(memory_format):
    conv = forced(3, 5, 9, stride=2)
    x = torch.randn(2, 3, 20, 20)
    expected = conv(x)
    conv = conv.to(memory_format=memory_format)
    torch.testing.assert_close(conv(x.to(memory_format=memory_format)), expected)


def test_half_precision_and_autocast_take_the_plain_path():
    conv = forced(3, 5, 9, stride=2)
    x = torch.randn(2, 3, 20, 20)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert conv.plan(x, x.shape) is None
    assert conv.bfloat16().plan(x.bfloat16(), x.shape) is None


def test_gradients_only_for_what_wants_them():
    conv = forced(3, 5, 9, stride=2)
    x = torch.randn(2, 3, 20, 20)
    conv(x).sum().backward()
    assert x.grad is None
    conv.requires_grad_(False)
    x.requires_grad_()
    conv(x).sum().backward()
    expected = F.conv_transpose2d(torch.ones(2, 5, 6, 6), conv.weight, stride=2, output_padding=1)
    torch.testing.assert_close(x.grad, expected, rtol=0, atol=1e-5)


def test_a_graph_can_be_kept_and_used_again():
    conv = forced(3, 5, 9, stride=2)
    loss = conv(torch.randn(2, 3, 20, 20)).square().sum()
    loss.backward(retain_graph=True)
    once = conv.weight.grad.clone()
    loss.backward()
    torch.testing.assert_close(conv.weight.grad, 2 * once)


def test_exported_models_hold_the_plain_convolution():
    conv = forced(3, 5, 9, stride=2).eval()
    x = torch.randn(2, 3, 20, 20)
    program = torch.export.export(conv, (x,))
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert names == {"aten.conv2d.default"}
    torch.testing.assert_close(program.module()(x), conv(x), rtol=0, atol=1e-5)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)


def test_compiled_models_hold_the_plain_convolution():
    conv = forced(3, 5, 9, stride=2)
    x = torch.randn(2, 3, 20, 20)
    graphs = []

    def backend(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(conv, backend=backend, fullgraph=True)
    assert torch.equal(compiled(x), nn.Conv2d.forward(conv, x))
    assert len(graphs) == 1


def test_function_transforms_take_the_plain_path():
    conv = forced(3, 5, 9, stride=2)
    x = torch.randn(2, 3, 20, 20)
    state = dict(conv.named_parameters())
    grads = torch.func.grad(lambda params: torch.func.functional_call(conv, params, (x,)).sum())(state)
    conv(x).sum().backward()
    torch.testing.assert_close(grads["weight"], conv.weight.grad, rtol=0, atol=1e-3)


def test_traced_models_hold_the_plain_convolution():
    conv = forced(3, 5, 9, stride=2).eval()
    x = torch.randn(2, 3, 20, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        traced = torch.jit.trace(conv, x)
    assert "aten::_convolution" in str(traced.inlined_graph)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(28, 28), (32, 32), (25, 30)])
@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_two_convolutions_at_once_equal_one_after_the_other(channels, size, padding, bias):
    torch.manual_seed(0)
    first = nn.Conv2d(channels, 256, 9, padding=padding, bias=bias)
    second = forced(256, 16, 9, stride=2, bias=bias)
    images = torch.rand(3, channels, *size, requires_grad=True)
    leaves = [images, *first.parameters(), *second.parameters()]
    found = conv_relu_conv(images, first, second)
    grad = torch.randn_like(found)
    double = [leaf.detach().double().requires_grad_() for leaf in leaves]
    w1, *b1 = double[1 : 3 if bias else 2]
    w2, *b2 = double[3 if bias else 2 :]
    expected = F.conv2d(F.conv2d(double[0], w1, *b1, padding=padding).relu(), w2, *b2, stride=2)
    assert found.shape == expected.shape
    gradients = torch.autograd.grad(found, leaves, grad)
    exact = torch.autograd.grad(expected, double, grad.double())
    for value, reference in zip([found, *gradients], [expected, *exact], strict=True):
        assert (value.double() - reference).abs().max() <= TOLERANCE * reference.abs().max()
    with torch.inference_mode():
        found = conv_relu_conv(images, first, second)
    assert (found.double() - expected).abs().max() <= TOLERANCE * expected.abs().max()


def test_many_images_without_gradients_equal_those_images_one_part_at_a_time():
    first, second = nn.Conv2d(1, 32, 5), forced(32, 4, 9, stride=2)
    images = torch.rand(300, 1, 24, 24)
    with torch.no_grad():
        expected = F.conv2d(first(images).relu(), second.weight, second.bias, 2)
        torch.testing.assert_close(conv_relu_conv(images, first, second), expected, rtol=0, atol=1e-5)
        torch.testing.assert_close(second(first(images).relu()), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (nn.Conv2d(1, 4, 5), forced(4, 4, 5)),
        (nn.Conv2d(1, 32, 5), forced(32, 4, 5, padding=1)),
        (nn.Conv2d(1, 32, 5, padding=2, padding_mode="reflect"), forced(32, 4, 5)),
    ],
    ids=["patches too large", "padding between", "reflected"],
)
def test_other_pairs_of_convolutions_run_one_after_the_other(first, second):
    images = torch.rand(2, 1, 20, 20)
    assert torch.equal(conv_relu_conv(images, first, second), second(first(images).relu()))


def test_hooks_see_both_convolutions():
    first, second = nn.Conv2d(1, 32, 5), forced(32, 4, 5)
    seen = []
    for conv in (first, second):
        conv.register_forward_hook(lambda module, inputs, output: seen.append(module))
    conv_relu_conv(torch.rand(2, 1, 20, 20), first, second)
    assert seen == [first, second]


def test_hooks_on_all_modules_see_both_convolutions():
    first, second = nn.Conv2d(1, 32, 5), forced(32, 4, 5)
    seen = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, inputs, output: seen.append(module))
    try:
        conv_relu_conv(torch.rand(2, 1, 20, 20), first, second)
    finally:
        handle.remove()
    assert seen == [first, second]


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own forward mode uses it
def test_forward_mode_derivatives_are_those_of_the_plain_convolution():
    conv, x, tangent = forced(3, 4, 5), torch.rand(2, 3, 12, 12), torch.rand(2, 3, 12, 12)
    with torch.autograd.forward_ad.dual_level():
        found = conv(torch.autograd.forward_ad.make_dual(x, tangent))
        derivative = torch.autograd.forward_ad.unpack_dual(found).tangent
    torch.testing.assert_close(derivative, F.conv2d(tangent, conv.weight))


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (torch.nn.modules.module, "_has_any_global_hook"),
        (torch._C, "_are_functorch_transforms_active"),
        (torch.autograd.forward_ad, "_current_level"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_torch_without_its_private_names_costs_the_fast_path_and_no_more(place, name, monkeypatch):
    first, second, x = nn.Conv2d(1, 32, 5), forced(32, 4, 5), torch.rand(2, 1, 20, 20)
    calls, plain = [], first.forward
    monkeypatch.setattr(first, "forward", lambda images: calls.append(1) or plain(images))
    fast = conv_relu_conv(x, first, second)
    assert not calls, "the fast path takes both convolutions at once"
    monkeypatch.delattr(place, name)
    torch.testing.assert_close(conv_relu_conv(x, first, second), fast, rtol=1e-4, atol=1e-5)
    assert calls
