"""Capsules to images: each picture is drawn from the capsule of one class alone."""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hitnet.core.layer import CENTRE, initialise_as_keras, mask_capsules
from hitnet.settings import ImageShape

HIDDEN = (512, 1024)

# The picture decoder: width of its first layer, longest side of its coarsest picture, channels from coarse to fine, and
# the largest deviation it tells apart, in units of m/√n.
FIRST, COARSEST, CHANNELS, REACH = 128, 4, (128, 64, 32, 16, 12, 8), 8.0


class Decoder(nn.Module):
    """Base class: (batch, classes, dims), (batch,) -> images, in two halves.

    `inputs` makes one vector of the class and its capsule, and `picture` draws it. Between the vectors of two classes
    lie pictures that lead from one class to the other.
    """

    def forward(self, capsules: Tensor, class_indices: Tensor) -> Tensor:
        return self.picture(self.inputs(capsules, class_indices))

    def inputs(self, capsules: Tensor, class_indices: Tensor) -> Tensor:
        """(batch, classes, dims), (batch,) -> (batch, inputs)."""
        raise NotImplementedError

    def picture(self, inputs: Tensor) -> Tensor:
        """(batch, inputs) -> images."""
        raise NotImplementedError


class PaperDecoder(Decoder):
    """The paper's: takes the capsules unscaled, all but one set to zero: (batch, classes, dims), (batch,) -> images."""

    def __init__(self, image_shape: ImageShape, num_classes: int, capsule_dim: int, unit: float) -> None:
        super().__init__()
        self.layers = painter(num_classes * capsule_dim, image_shape)

    def inputs(self, capsules: Tensor, class_indices: Tensor) -> Tensor:
        return mask_capsules(capsules, class_indices).flatten(1)

    def picture(self, inputs: Tensor) -> Tensor:
        return self.layers(inputs)


class StandardisedDecoder(Decoder):
    """Takes the class and its capsule's deviations in units of m/√n: (batch, classes, dims), (batch,) -> images.

    The paper's decoder gets inputs that vary by ±0.025 around 0.5 and takes days to learn from them; in units of their
    expected deviation the same differences are large. During training, one image in four has each of its deviations
    dropped, with a probability chosen at random for that image: the centre itself (the prototype) and capsules with a
    single component moved (the sweeps) are then close to inputs that the decoder was trained on.
    """

    def __init__(self, image_shape: ImageShape, num_classes: int, capsule_dim: int, unit: float) -> None:
        super().__init__()
        self.unit = unit
        self.layers = painter(num_classes * (1 + capsule_dim), image_shape)
        # The decoder is given which deviations were dropped, so it need not hedge: a deviation of zero then means zero,
        # a sharp picture of the centre, and not the mean over all values the deviation might have had.
        self.dropped = nn.Linear(capsule_dim, HIDDEN[0], bias=False)
        nn.init.zeros_(self.dropped.weight)

    def forward(self, capsules: Tensor, class_indices: Tensor) -> Tensor:
        if not self.training:
            return super().forward(capsules, class_indices)
        batch, _, dims = capsules.shape
        probability = (4 * torch.rand(batch, 1, device=capsules.device) - 3).clamp(min=0)
        dropped = torch.rand(batch, dims, device=capsules.device) < probability
        kept = capsules.masked_fill(dropped.unsqueeze(1), CENTRE)
        hidden = self.layers[0](self.inputs(kept, class_indices)) + self.dropped(dropped.to(capsules))
        return self.layers[1:](hidden)

    def inputs(self, capsules: Tensor, class_indices: Tensor) -> Tensor:
        deviations = mask_capsules((capsules - CENTRE) / self.unit, class_indices)
        indicator = F.one_hot(class_indices.long(), capsules.shape[1]).to(capsules)
        return torch.cat([indicator, deviations.flatten(1)], dim=1)

    def picture(self, inputs: Tensor) -> Tensor:
        return self.layers(inputs)


def painter(inputs: int, image_shape: ImageShape) -> nn.Sequential:
    """Fully connected 512, 1024, image size: (batch, inputs) -> images."""
    layers = nn.Sequential(
        *(nn.Linear(inputs, HIDDEN[0]), nn.ReLU()),
        *(nn.Linear(*HIDDEN), nn.ReLU()),
        *(nn.Linear(HIDDEN[1], math.prod(image_shape)), nn.Sigmoid()),
        nn.Unflatten(1, image_shape),
    )
    initialise_as_keras(layers)
    return layers


class PictureDecoder(Decoder):
    """The class and its capsule's deviations, drawn from coarse to fine: (batch, classes, dims), (batch,) -> images.

    Two fully connected layers make a picture of at most 4×4 pixels with 128 channels. It is doubled in size, with half
    the channels, until it is as large as the image. A last convolution makes the colours.
    """

    sifted: Tensor
    """Whether `sift` was called."""

    def __init__(self, image_shape: ImageShape, num_classes: int, capsule_dim: int, unit: float) -> None:
        super().__init__()
        self.num_classes, self.unit = num_classes, unit
        colours, *size = image_shape
        self.sizes = [size]
        while max(self.sizes[0]) > COARSEST:
            self.sizes.insert(0, [(side + 1) // 2 for side in self.sizes[0]])
        self.channels = channels = [CHANNELS[min(level, len(CHANNELS) - 1)] for level in range(len(self.sizes))]
        self.first = nn.Linear(num_classes * (1 + capsule_dim), FIRST)
        self.coarse = nn.Linear(FIRST, channels[0] * math.prod(self.sizes[0]))
        self.doublings = nn.ModuleList(Doubling(*pair) for pair in pairwise(channels))
        self.colours = nn.Conv2d(channels[-1], colours, 3, padding=1)
        self.register_buffer("sifted", torch.tensor(False))
        self._initialise(capsule_dim)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # a fifth faster on CPUs

    def paint(self, deviations: Tensor, class_indices: Tensor) -> Tensor:
        """The same from the class's own capsule, as deviations in units of m/√n: (batch, dims), (batch,) -> images."""
        return self.picture(self._lay_out(deviations, class_indices))

    def inputs(self, capsules: Tensor, class_indices: Tensor) -> Tensor:
        own = capsules[torch.arange(capsules.shape[0], device=capsules.device), class_indices.long()]
        return self._lay_out((own - CENTRE) / self.unit, class_indices)

    def _lay_out(self, deviations: Tensor, class_indices: Tensor) -> Tensor:
        # Early in training deviations reach 20 units, which would drive the first layer into its dead half.
        deviations = REACH * torch.tanh(deviations / REACH)
        indicator = F.one_hot(class_indices.long(), self.num_classes).to(deviations)
        placed = (indicator.unsqueeze(2) * deviations.unsqueeze(1)).flatten(1)
        return torch.cat([indicator, placed], dim=1)

    def picture(self, inputs: Tensor) -> Tensor:
        hidden = F.relu(self.first(inputs))
        picture = F.relu(self.coarse(hidden)).unflatten(1, (-1, *self.sizes[0]))
        picture = picture.contiguous(memory_format=torch.channels_last)
        for double, (height, width) in zip(self.doublings, self.sizes[1:], strict=True):
            picture = F.relu(double(picture))[:, :, :height, :width]
        return torch.sigmoid(self.colours(picture))

    @torch.no_grad()
    def sift(self, sieves: Tensor) -> None:
        """Draw from deviations that went through their class's matrix first: (classes, dims, dims).

        The matrices are multiplied into the first layer, so that drawing costs nothing more; a decoder is sifted once.
        """
        if self.sifted:
            return
        self.sifted.fill_(True)
        weight = self.first.weight[:, self.num_classes :].unflatten(1, (self.num_classes, -1))
        self.first.weight[:, self.num_classes :] = torch.einsum("hki,kij->hkj", weight, sieves.to(weight)).flatten(1)

    def _initialise(self, capsule_dim: int) -> None:
        # Only the inputs of one class are not zero, so the fan-in that counts is 1 + dims.
        nn.init.normal_(self.first.weight, std=0.5 / (1 + capsule_dim) ** 0.5)
        nn.init.kaiming_normal_(self.coarse.weight, nonlinearity="relu")
        for double in self.doublings:
            assert isinstance(double, Doubling)
            nn.init.normal_(double.weight, std=4 * (2 / (9 * double.weight.shape[0])) ** 0.5)
        nn.init.normal_(self.colours.weight, std=0.5 / (9 * self.colours.in_channels) ** 0.5)
        for layer in (self.first, self.coarse, *self.doublings, self.colours):
            nn.init.zeros_(layer.bias)


class Doubling(nn.Module):
    """Repeats a quarter of every pixel as a 2×2 square, then convolves 3×3: (batch, c, h, w) -> (batch, c', 2h, 2w).

    Computed as one transposed convolution of 4×4, which is faster. Trained freely, such a kernel may alternate from
    pixel to pixel and draw a mesh where the picture should be even; this one cannot.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels, 3, 3))
        self.bias = nn.Parameter(torch.zeros(out_channels))

    @property
    def kernel(self) -> Tensor:
        """The 3×3 weights averaged over 2×2 squares: (c, c', 4, 4).

        Their sum would be the convolution itself. It would also multiply each step of Adam by four, and at usual rates
        the first steps then overshoot: the picture turns black for good.
        """
        return F.avg_pool2d(F.pad(self.weight, (1, 1, 1, 1)), 2, stride=1)

    def forward(self, picture: Tensor) -> Tensor:
        return F.conv_transpose2d(picture, self.kernel, self.bias, stride=2, padding=1)
