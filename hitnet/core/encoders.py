"""Images to features. An encoder is built for an image shape, has `num_features`, and returns flat features:
(batch, channels, height, width) -> (batch, num_features)."""

import math
from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hitnet.core.checks import check_images
from hitnet.core.layer import initialise_as_keras
from hitnet.core.winograd import WinogradConv2d, conv_relu_conv
from hitnet.settings import ImageShape

PAPER_WIDTH = 256
WHITENED = 2_000  # images: more change the deep encoder's filters no longer
PIECE = 2_000_000  # pixel values whose patches are held in memory together
LEAST_VARIANCE = 5e-4  # of a filter's answers: directions in which patches hardly vary are not blown up


class Encoder(nn.Module):
    """The interface of every encoder."""

    num_features: int
    smallest: int = 1
    """The smallest height and width that works."""

    def prepare(self, images: Tensor) -> None:
        """Called before training, with training images in bytes or floats; most encoders need nothing of them."""


class PaperEncoder(Encoder):
    """The paper's shallow network: two 9×9 convolutions of `width` channels, strides 1 and 2, no padding.

    `final_relu=False` leaves the second one linear: CapsNet squashes its output into primary capsules instead.
    """

    smallest = 17

    def __init__(self, image_shape: ImageShape, width: int = PAPER_WIDTH, *, final_relu: bool = True) -> None:
        super().__init__()
        channels, *sides = check_size(image_shape, self.smallest)
        self.conv1 = nn.Conv2d(channels, width, kernel_size=9)
        # Computed directly, this would take 94 % of the network's multiplications.
        self.conv2 = WinogradConv2d(width, width, kernel_size=9, stride=2)
        self.final_relu = final_relu
        self.num_features = width * math.prod((side - 15) // 2 for side in sides)
        initialise_as_keras(self)

    def forward(self, images: Tensor) -> Tensor:
        features = conv_relu_conv(images, self.conv1, self.conv2)
        return (F.relu(features) if self.final_relu else features).flatten(1)


class FastEncoder(Encoder):
    """Trains in minutes on a CPU: 3×3 convolutions, with the image halved until at most 4×4 pixels are left.

    `width` channels at first, twice as many after each halving, up to eight times as many; most of the work is done at
    a quarter of the size, where there are two convolutions in a row.
    """

    smallest = 4

    def __init__(self, image_shape: ImageShape, width: int = 32) -> None:
        super().__init__()
        before, *sides = check_size(image_shape, self.smallest)
        layers = _conv_norm_relu(before, width)
        before = width
        halvings = 0
        while max(sides) > 4 and min(sides) > 1:
            halvings += 1
            after = min(2 * before, 8 * width)
            # Before the ReLU, which then has a quarter of the work; values and gradients are the same.
            layers.insert(-1, nn.MaxPool2d(2))
            layers += _conv_norm_relu(before, after)
            if halvings == 2:
                layers += _conv_norm_relu(after, after)
            sides, before = [side // 2 for side in sides], after
        self.layers = nn.Sequential(*layers, nn.Flatten())
        self.num_features = before * math.prod(sides)
        _prepare(self)

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(channels_last(images))


class DeepEncoder(Encoder):
    """For an hour on a CPU: patches of 2×2 pixels made uncorrelated, then groups of two 3×3 convolutions.

    Each group halves the image, until at most 4×4 pixels are left: three groups for 28×28 or 32×32. The first has
    `width` channels, the others four times as many.
    """

    smallest = 4
    whitening: Tensor
    """(8 × channels, channels, 2, 2): fixed filters, whose answers are uncorrelated, and their negatives."""
    mean_answers: Tensor
    """(8 × channels,): what the filters answer on average."""
    whitened: Tensor
    """Whether `prepare` was called."""

    def __init__(self, image_shape: ImageShape, width: int = 64) -> None:
        super().__init__()
        self.image_shape = check_size(image_shape, self.smallest)
        channels, *sides = self.image_shape
        patch = 4 * channels
        self.register_buffer("whitening", _with_negatives(torch.eye(patch)).view(-1, channels, 2, 2))
        self.register_buffer("mean_answers", torch.zeros(2 * patch))
        self.register_buffer("whitened", torch.tensor(False))
        sides, before, after = [side - 1 for side in sides], 2 * patch, width
        layers: list[nn.Module] = []
        while not layers or (max(sides) > 4 and min(sides) > 1):
            # Halved before it is normalised, which then costs a quarter.
            layers += [_conv3x3(before, after), nn.MaxPool2d(2), nn.BatchNorm2d(after), nn.GELU()]
            layers += [_conv3x3(after, after), nn.BatchNorm2d(after), nn.GELU()]
            sides, before, after = [side // 2 for side in sides], after, 4 * width
        self.layers = nn.Sequential(*layers, nn.Flatten())
        self.num_features = before * math.prod(sides)
        _prepare(self)
        for layer in layers:
            if isinstance(layer, nn.Conv2d):
                _begin_as_identity(layer)

    def forward(self, images: Tensor) -> Tensor:
        answers = F.conv2d(channels_last(images), self.whitening, -self.mean_answers)
        return self.layers(F.gelu(answers))

    @torch.no_grad()
    def prepare(self, images: Tensor) -> None:
        """Find the filters from patches of the training images; once, since what follows is trained for them."""
        if self.whitened:
            return
        some = images[:: max(1, math.ceil(len(images) / WHITENED))]
        count, total, products = 0, torch.zeros(()), torch.zeros(())
        for piece in some.split(max(1, PIECE // math.prod(self.image_shape))):
            # Not every device has double precision.
            pixels = piece.cpu().double() / (255 if some.dtype == torch.uint8 else 1)
            check_images(pixels, self.image_shape, torch.float64)
            # Covariances are the same for all offsets of a patch, so every fourth patch is enough.
            patches = F.unfold(pixels, 2, stride=2).transpose(1, 2).flatten(0, 1)
            count, total, products = count + len(patches), total + patches.sum(0), products + patches.T @ patches
        mean = total / count
        values, vectors = torch.linalg.eigh(products / count - torch.outer(mean, mean))
        filters = vectors.T / (values + LEAST_VARIANCE).sqrt()[:, None]
        self.mean_answers.copy_(_with_negatives(filters) @ mean)
        self.whitening.copy_(_with_negatives(filters).view_as(self.whitening))
        self.whitened.fill_(True)


def _with_negatives(filters: Tensor) -> Tensor:
    """(count, …) -> (2 × count, …): what is below the mean counts as much as what is above it."""
    return torch.cat([filters, -filters])


class LeNet5(Encoder):
    """LeNet-5 with ReLU and max pooling; `width` scales all layers. Smaller images (MNIST) are padded to 32×32."""

    def __init__(self, image_shape: ImageShape, width: int = 6) -> None:
        super().__init__()
        channels, *sides = check_size(image_shape, self.smallest)
        down, across = (max(0, 32 - side) for side in sides)
        left = math.prod(((max(32, side) - 4) // 2 - 4) // 2 - 4 for side in sides)
        self.num_features = 14 * width
        self.layers = nn.Sequential(
            nn.ZeroPad2d((across // 2, across - across // 2, down // 2, down - down // 2)),
            *(nn.Conv2d(channels, width, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(width, 8 * width // 3, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(8 * width // 3, 20 * width, 5), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(20 * width * left, 14 * width), nn.ReLU()),
        )
        initialise_as_keras(self)

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)


class ResNet18(Encoder):
    """ResNet-18 with the 3×3 stem for small images: four stages of two basic blocks, then global average pooling."""

    def __init__(self, image_shape: ImageShape, width: int = 64) -> None:
        super().__init__()
        channels, _, _ = check_size(image_shape, self.smallest)
        blocks: list[nn.Module] = []
        before = width
        for stage in range(4):
            after = width * 2**stage
            blocks += [BasicBlock(before, after, stride=1 if stage == 0 else 2), BasicBlock(after, after, stride=1)]
            before = after
        self.stem = nn.Sequential(_conv3x3(channels, width), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.Sequential(*blocks)
        self.num_features = before
        # With fewer channels, oneDNN's gradient of the strided 1×1 shortcuts writes out of bounds in channels-last
        # order (torch 2.13, CPUs without AVX-512).
        self.in_channels_last = width >= 8
        _prepare(self, self.in_channels_last)

    def forward(self, images: Tensor) -> Tensor:
        ordered = channels_last(images) if self.in_channels_last else images
        return self.blocks(self.stem(ordered)).mean(dim=(2, 3))


class BasicBlock(nn.Module):
    """Two 3×3 convolutions plus a shortcut, which is projected where the shape changes."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            *(_conv3x3(before, after, stride), nn.BatchNorm2d(after), nn.ReLU()),
            *(_conv3x3(after, after), nn.BatchNorm2d(after)),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.residual(x) + self.shortcut(x))


class DenseNet40(Encoder):
    """DenseNet-40-12: three blocks of 12 layers that each add `width` = 12 channels, the image halved in between."""

    smallest = 4

    def __init__(self, image_shape: ImageShape, width: int = 12) -> None:
        super().__init__()
        channels, _, _ = check_size(image_shape, self.smallest)
        so_far = 16
        layers: OrderedDict[str, nn.Module] = OrderedDict(stem=_conv3x3(channels, so_far))
        for block in range(1, 4):
            if block > 1:
                layers[f"transition{block - 1}"] = _transition(so_far)
            for layer in range(1, 13):
                layers[f"block{block}_layer{layer}"] = DenseLayer(so_far, width)
                so_far += width
        layers["norm"] = nn.BatchNorm2d(so_far)
        self.layers = nn.Sequential(layers)
        self.num_features = so_far
        _prepare(self)

    def forward(self, images: Tensor) -> Tensor:
        return F.relu(self.layers(channels_last(images))).mean(dim=(2, 3))


class DenseLayer(nn.Module):
    """Adds `growth` channels, computed from all channels so far."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(width)
        self.conv = _conv3x3(width, growth)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.conv(F.relu(self.norm(x)))], dim=1)


def channels_last(images: Tensor) -> Tensor:
    """The same images in the memory order in which small convolutions are fastest, on CPUs and GPUs alike."""
    return images.contiguous(memory_format=torch.channels_last)


def check_size(image_shape: ImageShape, smallest: int) -> ImageShape:
    """The shape itself if no side is below `smallest`, otherwise an error."""
    if min(image_shape[1:]) < smallest:
        raise ValueError(
            f"images must be at least {smallest}×{smallest} for this network, got {image_shape[1]}×{image_shape[2]}"
            "; resize them, or choose a network for small images (lenet5-hom, resnet18-hom)"
        )
    return image_shape


def _conv3x3(before: int, after: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, after, kernel_size=3, stride=stride, padding=1, bias=False)


def _conv_norm_relu(before: int, after: int) -> list[nn.Module]:
    return [_conv3x3(before, after), nn.BatchNorm2d(after), nn.ReLU()]


def _transition(width: int) -> nn.Sequential:
    return nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 1, bias=False), nn.AvgPool2d(2))


def _begin_as_identity(conv: nn.Conv2d) -> None:
    """Let the first filters pass on what comes in: a deep network then learns faster from the first step."""
    nn.init.kaiming_uniform_(conv.weight, a=math.sqrt(5))
    nn.init.dirac_(conv.weight[: conv.in_channels])


def _prepare(module: nn.Module, in_channels_last: bool = True) -> None:
    """He initialisation for layers with ReLU, and weights in channels-last memory order."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    if in_channels_last:
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
