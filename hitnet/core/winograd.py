"""Large-kernel convolution by minimal filtering (Winograd, Toom–Cook) at real and complex points: the CPU's fast path.

Nearly all of HitNet's time goes into one layer: 9×9, 256 -> 256 channels, stride 2, from 20×20 to 6×6. Done directly
it takes 36 outputs · 81 taps = 2,916 multiplications per image and pair of channels. Here it takes 441.

**Strides become phases.** The even and odd rows and columns of the input are four images of 10×10, those of the kernel
four kernels of 5×5, 4×5, 5×4 and 4×4, and the output is the sum of four convolutions without stride.

**A convolution is a product of polynomials.** Take 5 taps and 6 more numbers as coefficients of polynomials u and w:
their product has 10 coefficients, and ten values u(z)·w(z) determine it. A real point z costs one multiplication (good
ones are 1, −1, 0, ½, −2, 2, −½, and ∞, which stands for the leading coefficient), a pair of complex points three
(Gauss). Real points are cheap, complex ones on the unit circle exact (all of them: the Fourier transform). Eight real
points and ±i take 11 multiplications instead of 30, with errors around 3·10⁻⁶ in float32. All steps are linear in each
factor, and the transpose of multiplying by w is convolving with w: `y = C [(A x) ∘ (B w)]` with three small matrices.

**Rows, then columns:** 11·11 = 121 products for the 5×5 phase. A phase with one tap fewer has no leading coefficient
and needs no product at ∞, which leaves 110, 110 and 100 for the others. Together 441.

With channels each product becomes a matrix product, (images × channels) · (channels × filters), and all of them one
batched multiplication; the transforms are matrix products as well. For this, pixels come first and channels last in
memory: (row, column, image, channel). Large images are cut into overlapping tiles, which count as extra images.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

__all__ = ["WinogradConv2d", "conv_relu_conv"]

# The real points except ∞: numbers with their negative inverses, so that large and small powers balance.
REAL_POINTS = (1.0, -1.0, 0.0, 0.5, -2.0, 2.0, -0.5)
LARGEST_TILE = 16
# Without gradients, larger batches are split so that intermediate results stay in the processor's cache.
LARGEST_BATCH = 128


def real_points(size: int) -> int:
    """How many of `size` points are real, including ∞: the most that keep measured float32 errors well below 1e-5."""
    if size <= 6:
        return size
    return (6 if size < 10 else 8 if size <= 20 else 4) - size % 2


def multiplications(size: int) -> int:
    """One per real point, three per pair of complex points."""
    return size + (size - real_points(size)) // 2


@lru_cache(maxsize=256)
def bilinear(taps: int, outputs: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """A, B, C with `y = C [(A x) ∘ (B w)]` for y[i] = Σ_j x[i+j] w[j]; the last product belongs to the point ∞."""
    size = taps + outputs - 1
    real = REAL_POINTS[: real_points(size) - 1]
    pairs = (size - 1 - len(real)) // 2
    upper = [np.exp(1j * np.pi * t / (pairs + 1)) for t in range(1, pairs + 1)]
    finite = np.array([*upper, *np.conj(upper), *real])

    def evaluate(count: int) -> Any:
        """Coefficients -> values; a complex value counts as real part, imaginary part and their sum."""
        values = [z ** np.arange(count) for z in upper]
        parts = [part for v in values for part in (v.real, v.imag, v.real + v.imag)]
        return np.array([*parts, *(z ** np.arange(count) for z in real), np.eye(count)[-1]])

    def vanishing(points: Any) -> Any:
        """Coefficients of Π (x − z), lowest first; each next z is far from those before, or rounding errors grow."""
        left: list[complex] = list(points)
        ordered: list[complex] = []
        while left:
            # The point whose distances to those already ordered have the largest product (Leja ordering).
            ordered.append(left.pop(int(np.argmax([np.prod([abs(z - o) for o in ordered]) for z in left]))))
        return np.append(np.atleast_1d(np.poly(ordered))[::-1], np.zeros(size - 1 - len(points)))

    # Values -> coefficients, by Lagrange interpolation.
    # Products p = ac, q = bd and r = (a+b)(c+d) give the complex value (p−q) + i(r−p−q).
    interpolate = []
    for i, z in enumerate(finite):
        others = np.delete(finite, i)
        basis = vanishing(others) / np.prod(z - others)
        if i < pairs:  # twice the real part, as the conjugate contributes the same
            interpolate += [2 * (basis.real + basis.imag), 2 * (basis.imag - basis.real), -2 * basis.imag]
        elif i >= 2 * pairs:
            interpolate.append(basis.real)
    interpolate.append(vanishing(finite).real)
    a, b, c = np.array(interpolate), evaluate(taps), evaluate(outputs).T.copy()
    return tuple(torch.tensor(m, dtype=dtype, device="cpu") for m in (a, b, c))  # type: ignore[return-value]


class Axis(NamedTuple):
    """One axis of a convolution: every phase is cut into `tiles`, and each tile gives `outputs` values."""

    kernel: int
    stride: int
    outputs: int
    tiles: int

    @property
    def taps(self) -> int:
        """The taps of the largest phase."""
        return -(-self.kernel // self.stride)

    @property
    def size(self) -> int:
        """The input values of a tile."""
        return self.taps + self.outputs - 1

    @property
    def span(self) -> int:
        """The input values of all tiles and phases together."""
        return self.stride * ((self.tiles - 1) * self.outputs + self.size)

    def phases(self, dtype: torch.dtype) -> list[tuple[Tensor, Tensor]]:
        """A and B of each phase, without the product at ∞ where a phase has one tap fewer."""
        a, b, _ = bilinear(self.taps, self.outputs, dtype)
        counts = [-(-(self.kernel - start) // self.stride) for start in range(min(self.stride, self.kernel))]
        return [(a, b) if taps == self.taps else (a[:-1], b[:-1, :taps]) for taps in counts]


@lru_cache(maxsize=1024)
def best_axis(outputs: int, kernel: int, stride: int) -> Axis:
    """The tiling that takes the fewest multiplications."""
    options = [Axis(kernel, stride, n, -(-outputs // n)) for n in range(1, min(outputs, LARGEST_TILE) + 1)]
    return min(options, key=lambda option: (option.tiles * multiplications(option.size), option.size))


class Phase(NamedTuple):
    """Where a phase starts, and its matrices A and B for rows and columns."""

    row: int
    column: int
    input: tuple[Tensor, Tensor]
    kernel: tuple[Tensor, Tensor]

    @property
    def products(self) -> int:
        return len(self.input[0]) * len(self.input[1])


class Plan(NamedTuple):
    """How one convolution is computed."""

    rows: Axis
    columns: Axis

    def phases(self, dtype: torch.dtype) -> list[Phase]:
        """Column by column; the first phase of a column has all of its products, the next ones may have fewer."""
        return [
            Phase(row, column, (a1, a2), (b1, b2))
            for column, (a2, b2) in enumerate(self.columns.phases(dtype))
            for row, (a1, b1) in enumerate(self.rows.phases(dtype))
        ]

    def output(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """C for rows and columns, the same for all phases."""
        first, second = (bilinear(axis.taps, axis.outputs, dtype)[2] for axis in self)
        return first, second

    def cost(self, batch: int, channels: int, filters: int) -> int:
        """A plain convolution is slower if it needs more multiplications than this. Fitted cautiously to measurements:
        besides products it counts transforming and loading the weights, and rearranging the pixels."""
        images = batch * self.rows.tiles * self.columns.tiles
        phases = self.phases(torch.float32)
        products = sum(phase.products for phase in phases) * channels * filters
        pixels = len(phases) * self.rows.size * self.columns.size * channels
        outputs = self.rows.outputs * self.columns.outputs * filters
        return products * (2 * images + 30) + 600 * (pixels + outputs) * images


def transform(matrices: tuple[Tensor, Tensor], x: Tensor) -> Tensor:
    """One matrix along the first axis, one along the second: (h, w, ...) -> (r, c, ...)."""
    rows, columns = matrices
    half = torch.mm(rows, x.reshape(x.shape[0], -1)).view(len(rows), x.shape[1], -1)
    return torch.bmm(columns.expand(len(rows), -1, -1), half).view(len(rows), len(columns), *x.shape[2:])


def transposed(matrices: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return matrices[0].T, matrices[1].T


def transform_weight(plan: Plan, weight: Tensor) -> list[Tensor]:
    """(filters, channels, kernel, kernel) -> for each phase (products, channels, filters)."""
    taps = weight.permute(2, 3, 1, 0).contiguous()
    return [
        transform(phase.kernel, taps[phase.row :: plan.rows.stride, phase.column :: plan.columns.stride]).flatten(0, 1)
        for phase in plan.phases(weight.dtype)
    ]


def multiply(plan: Plan, inputs: Sequence[Tensor], kernels: Sequence[Tensor], kept: list[Tensor] | None) -> Tensor:
    """For each phase (size, size, images, channels) -> (outputs, outputs, images, filters).

    `kept`, if given, collects the transformed inputs.
    """
    dtype = inputs[0].dtype
    sums: list[Tensor] = []
    for phase, x, kernel in zip(plan.phases(dtype), inputs, kernels, strict=True):
        spectrum = transform(phase.input, x).flatten(0, 1)
        if phase.row == 0:
            sums.append(torch.bmm(spectrum, kernel))
        else:
            sums[-1][: phase.products].baddbmm_(spectrum, kernel)
        if kept is not None:
            kept.append(spectrum)
    output = plan.output(dtype)
    total, *others = (column.unflatten(0, (output[0].shape[1], -1)) for column in sums)
    for other in others:
        total[:, : other.shape[1]] += other
    return transform(output, total)


class _Multiply(torch.autograd.Function):
    """`multiply`, and its gradient: the same products, transposed."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, weight: Tensor, *inputs: Tensor) -> Tensor:
        spectra: list[Tensor] = []
        kernels = transform_weight(plan, weight)
        result = multiply(plan, inputs, kernels, spectra)
        ctx.plan, ctx.weight_shape = plan, weight.shape
        ctx.save_for_backward(*spectra, *kernels)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        plan, dtype = ctx.plan, grad_output.dtype
        half = len(ctx.saved_tensors) // 2
        spectra, kernels = ctx.saved_tensors[:half], ctx.saved_tensors[half:]
        wants_weight, wants_input = ctx.needs_input_grad[1], any(ctx.needs_input_grad[2:])
        filters, channels, *kernel_size = ctx.weight_shape
        grad_taps = grad_output.new_empty(*kernel_size, filters, channels)
        grad_inputs: list[Tensor | None] = []
        grad = transform(transposed(plan.output(dtype)), grad_output)
        for phase, spectrum, kernel in zip(plan.phases(dtype), spectra, kernels, strict=True):
            grid = len(phase.input[0]), len(phase.input[1])
            if phase.row == 0:
                grad_column = grad[:, : grid[1]].flatten(0, 1)
            grad_products = grad_column[: phase.products]
            if wants_weight:
                grad_kernel = torch.bmm(grad_products.mT, spectrum).unflatten(0, grid)
                taps = grad_taps[phase.row :: plan.rows.stride, phase.column :: plan.columns.stride]
                taps.copy_(transform(transposed(phase.kernel), grad_kernel))
            if wants_input:
                grad_spectrum = torch.bmm(grad_products, kernel.mT).unflatten(0, grid)
                grad_inputs.append(transform(transposed(phase.input), grad_spectrum))
            else:
                grad_inputs.append(None)
        # Transposing a matrix is faster than permuting four axes.
        grad_weight = grad_taps.flatten(0, 1).flatten(1).T.contiguous().view(ctx.weight_shape)
        return None, grad_weight if wants_weight else None, *grad_inputs


def windows(plan: Plan, x: Tensor) -> list[Tensor]:
    """(batch, channels, height, width, ...) -> for each phase (size, size, tiles · batch, channels · ...)."""
    phases = []
    for phase in plan.phases(torch.float32):
        tiles = x[:, :, phase.row :: plan.rows.stride, phase.column :: plan.columns.stride]
        for dim, axis in ((2, plan.rows), (3, plan.columns)):
            tiles = tiles.unfold(dim, axis.size, axis.outputs)
        pixels_first = tiles.permute(-2, -1, 2, 3, 0, 1, *range(4, x.dim()))
        phases.append(pixels_first.flatten(5).flatten(2, 4))
    return phases


def pad(x: Tensor, conv: nn.Conv2d, height: int, width: int) -> Tensor:
    """Zeros before x as `conv` requires, and after it up to this size; anything beyond is cut off."""
    top, left = map(int, conv.padding)
    room = (left, width - left - x.shape[3], top, height - top - x.shape[2])
    return F.pad(x, room) if any(room) else x


def output_size(conv: nn.Conv2d, shape: Sequence[int]) -> tuple[int, int] | None:
    """Height and width of the output; None if `conv` uses more than kernel, stride and zero padding."""
    simple = conv.groups == 1 and conv.dilation == (1, 1) and conv.padding_mode == "zeros"
    if not simple or isinstance(conv.padding, str) or len(shape) != 4 or shape[1] != conv.in_channels:
        return None
    height, width = (
        (length + 2 * border - kernel) // stride + 1
        for length, border, kernel, stride in zip(shape[2:], conv.padding, conv.kernel_size, conv.stride, strict=True)
    )
    return (height, width) if shape[0] and height > 0 and width > 0 else None


def is_traced() -> bool:
    """Whether the calls are recorded, transformed or cast by something that should see the plain convolution."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or torch.is_autocast_enabled("cpu"):  # type: ignore[attr-defined]
        return True
    try:
        return torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0
    except AttributeError:  # private names: a torch without them only loses the fast path
        return True


def has_hooks(module: nn.Module) -> bool:
    """Whether any hook observes or changes the inputs or outputs."""
    try:
        from torch.nn.modules.module import _has_any_global_hook

        kinds = ("forward", "forward_pre", "backward", "backward_pre")
        return bool(_has_any_global_hook()) or any(getattr(module, f"_{kind}_hooks") for kind in kinds)
    except (ImportError, AttributeError):  # private names, likewise
        return True


class Cache(NamedTuple):
    """A transformed weight, and what it was made from."""

    plan: Plan
    weight: Tensor
    kernels: list[Tensor]


class WinogradConv2d(nn.Conv2d):
    """`nn.Conv2d` with fewer multiplications where this is faster: on a CPU, with a large kernel and many channels.

    Parameters, state and results are those of `nn.Conv2d`, which does the rest itself: groups, dilation, padding other
    than zeros, half precision, other devices, exported and compiled models. Second derivatives raise an error.
    """

    winograd: bool | None = None
    """None: minimal filtering where it is faster. True: wherever possible. False: never."""

    _cache: Cache | None = None

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width) -> (batch, filters, height, width)."""
        plan = self.plan(x, x.shape)
        if plan is None:
            return super().forward(x)
        if len(x) > LARGEST_BATCH and not torch.is_grad_enabled():
            return torch.cat([self.forward(part) for part in x.split(LARGEST_BATCH)])
        inputs = windows(plan, pad(x, self, plan.rows.span, plan.columns.span))
        return self.multiply(plan, inputs, x.shape).contiguous()

    def plan(self, like: Tensor, shape: Sequence[int]) -> Plan | None:
        """How to convolve inputs of this shape and of the type of `like`; None: by the plain convolution."""
        if self.winograd is False or like.device.type != "cpu" or is_traced():
            return None
        outputs = output_size(self, shape)
        if outputs is None or like.dtype not in (torch.float32, torch.float64) or like.dtype != self.weight.dtype:
            return None
        plan = Plan(*map(best_axis, outputs, self.kernel_size, self.stride))
        direct = shape[0] * outputs[0] * outputs[1] * self.weight.numel()
        worth_it = plan.cost(shape[0], self.in_channels, self.out_channels) < direct
        return plan if self.winograd or worth_it else None

    def multiply(self, plan: Plan, inputs: list[Tensor], shape: Sequence[int]) -> Tensor:
        """The windows of an input of this shape -> (batch, filters, height, width), pixels first in memory."""
        if torch.is_grad_enabled() and any(t.requires_grad for t in (self.weight, *inputs)):
            self._cache = None
            y: Tensor = _Multiply.apply(plan, self.weight, *inputs)
        else:
            y = multiply(plan, inputs, self.transformed_weight(plan), None)
        if self.bias is not None:
            y = y + self.bias
        # Put the tiles back in their places, and cut off what extends over the edge.
        y = y.unflatten(2, (plan.rows.tiles, plan.columns.tiles, shape[0])).permute(4, 5, 2, 0, 3, 1)
        height, width = output_size(self, shape) or (0, 0)
        return y.flatten(4).flatten(2, 3)[:, :, :height, :width]

    def transformed_weight(self, plan: Plan) -> list[Tensor]:
        """`transform_weight`, cached until the weight's values change; torch's own tracking misses some changes."""
        cache, weight = self._cache, self.weight.detach()
        if cache is None or cache.plan != plan or cache.weight.dtype != weight.dtype or not cache.weight.equal(weight):
            with torch.inference_mode(False), torch.no_grad():
                self._cache = cache = Cache(plan, weight.clone(), transform_weight(plan, weight))
        return cache.kernels

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": None}


def conv_relu_conv(images: Tensor, first: nn.Conv2d, second: WinogradConv2d) -> Tensor:
    """`second(relu(first(images)))`, without rearranging the pixels in between.

    A first convolution with few channels is one matrix product over patches, and patches can be taken in any order:
    here in the order that `second` needs.
    """
    by_patches = first.weight[0].numel() <= first.out_channels and second.padding == (0, 0)
    watched = has_hooks(first) or has_hooks(second) or is_traced()
    size = output_size(first, images.shape) if by_patches and not watched else None
    shape = (len(images), first.out_channels, *size) if size else ()
    plan = second.plan(images, shape)
    if plan is None:
        result: Tensor = second(torch.relu(first(images)))
        return result
    if len(images) > LARGEST_BATCH and not torch.is_grad_enabled():
        return torch.cat([conv_relu_conv(part, first, second) for part in images.split(LARGEST_BATCH)])
    (k1, k2), (s1, s2) = first.kernel_size, first.stride
    needed = (plan.rows.span - 1) * s1 + k1, (plan.columns.span - 1) * s2 + k2
    patches = pad(images, first, *needed).unfold(2, k1, s1).unfold(3, k2, s2)
    hidden = []
    for phase in windows(plan, patches):
        rows = F.linear(phase.flatten(0, 2), first.weight.flatten(1), first.bias).relu_()
        hidden.append(rows.view(*phase.shape[:3], -1))
    return second.multiply(plan, hidden, shape)
