"""Any timm network as an encoder: timm/resnet18, timm/convnext_atto, … timm is imported only when one is built."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from hitnet.core.encoders import Encoder
from hitnet.errors import did_you_mean, require
from hitnet.settings import ImageShape

PREFIX = "timm/"

_declared: list[torch.library.Library] = []  # kept alive: a deleted library unregisters its operators


class TimmEncoder(Encoder):
    """A newly initialised timm network without its classifier, built for images of this shape.

    normalised: for pretrained weights. The images are normalised as those expect it, and grey ones get their three
    channels; mean and deviation are saved with the weights.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, name: str, image_shape: ImageShape, *, normalised: bool = False) -> None:
        super().__init__()
        timm = load_timm()
        if not timm.is_model(name):
            guess = did_you_mean(PREFIX + name, [PREFIX + known for known in timm.list_models()])
            raise ValueError(f"there is no model {PREFIX + name!r}; {guess}timm.list_models() lists all names")
        channels, *sides = image_shape
        usual = timm.get_pretrained_cfg(name)
        self.name, self.normalised = name, normalised
        self.build_options: dict[str, Any] = {"in_chans": channels}
        # Some networks, such as transformers, are built for one image size; timm knows which.
        if usual.fixed_input_size:
            self.build_options["img_size"] = sides
        if normalised:
            self._normalise_as(usual, channels)
        try:
            self.module = timm.create_model(name, num_classes=0, **self.build_options)
            self.num_features = self._count_features(image_shape)
        except (RuntimeError, ValueError, TypeError, AssertionError, ArithmeticError) as error:
            raise ValueError(
                f"{PREFIX}{name} cannot process images of shape {image_shape} ({error}); "
                "resize them with --image-size (most accept 32), or choose another network"
            ) from error

    def forward(self, images: Tensor) -> Tensor:
        return self.module((images - self.mean) / self.std if self.normalised else images)

    def _normalise_as(self, usual: Any, channels: int) -> None:
        expected = len(usual.mean)
        if channels not in (1, expected):
            raise ValueError(
                f"the pretrained {PREFIX}{self.name} takes images with 1 or {expected} channels, got {channels}; "
                "train it without --pretrained"
            )
        # Grey images become three channels here, since mean and deviation have three.
        self.build_options["in_chans"] = expected
        self.register_buffer("mean", torch.tensor(usual.mean).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(usual.std).view(-1, 1, 1))

    @torch.no_grad()
    def _count_features(self, image_shape: ImageShape) -> int:
        """Found by a trial: timm's own `num_features` does not always match the output."""
        convolutions = [part for part in self.module.modules() if isinstance(part, nn.Conv2d)]
        hooks = [part.register_forward_hook(_check_patches(image_shape)) for part in convolutions]
        features = self.eval()(torch.zeros(1, *image_shape))
        self.train()
        for hook in hooks:
            hook.remove()
        if features.dim() != 2:
            raise ValueError(f"it returns features of shape {tuple(features.shape)}, not (batch, features)")
        return features.shape[1]


def _check_patches(image_shape: ImageShape) -> Callable[[nn.Conv2d, tuple[Tensor], Tensor], None]:
    """A hook for convolutions: one that cuts the image into patches must not leave pixels at the edge unseen."""

    def check(patches: nn.Conv2d, inputs: tuple[Tensor], output: Tensor) -> None:
        # A stride of up to 2 is an ordinary convolution's, which leaves out at most one row of pixels.
        if inputs[0].shape[2:] != image_shape[1:] or min(patches.stride) <= 2:
            return
        for axis, side in enumerate(image_shape[1:]):
            size, stride = patches.kernel_size[axis], patches.stride[axis]
            unseen = side - (stride * (output.shape[2 + axis] - 1) + size - int(patches.padding[axis]))
            if unseen > 0:
                fitting = side - unseen + (stride if 2 * unseen >= stride else 0)
                raise ValueError(
                    f"patches of {size} pixels leave the last {unseen} of {side} unseen; "
                    f"the nearest side that fits is {fitting}"
                )

    return check


def load_timm() -> Any:
    """The module timm, or an error that says why it cannot be imported."""
    require("a timm network", ["timm"], "timm")
    try:
        try:
            import timm
        except RuntimeError as error:
            if "torchvision::nms does not exist" not in str(error) or _declared:
                raise
            # A torchvision built for CUDA cannot find its operators with a CPU torch. Nothing here calls them:
            # declaring two of them is all that the import needs.
            _declare_torchvision_operators()
            import timm
    except (ImportError, RuntimeError, OSError) as error:
        raise RuntimeError(
            f"timm is installed but cannot be imported ({error}); torchvision was probably built for another torch "
            f"than {torch.__version__}: install the matching one, from the same index as torch"
        ) from error
    return timm


def _declare_torchvision_operators() -> None:
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)
