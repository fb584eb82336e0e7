"""Any network of timm as an encoder: timm/resnet18, timm/convnext_atto, … timm itself is loaded when one is made."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from hitnet.core.encoders import Encoder
from hitnet.errors import did_you_mean, require
from hitnet.settings import ImageShape

PREFIX = "timm/"

_declared: list[torch.library.Library] = []  # dropped, a library would take its operators along


class TimmEncoder(Encoder):
    """A timm network of fresh weights without its classifier, made for images of this shape."""

    def __init__(self, name: str, image_shape: ImageShape) -> None:
        super().__init__()
        timm = load_timm()
        if not timm.is_model(name):
            guess = did_you_mean(PREFIX + name, [PREFIX + known for known in timm.list_models()])
            raise ValueError(f"there is no model {PREFIX + name!r}; {guess}timm.list_models() has all names")
        channels, *sides = image_shape
        # Transformers are made for one size of images; timm says which networks are.
        size = {"img_size": sides} if timm.get_pretrained_cfg(name).fixed_input_size else {}
        try:
            self.module = timm.create_model(name, num_classes=0, in_chans=channels, **size)
            self.num_features = self._count_features(image_shape)
        except (RuntimeError, ValueError, TypeError, AssertionError, ArithmeticError) as error:
            raise ValueError(
                f"{PREFIX}{name} cannot take images of shape {image_shape} ({error}); "
                "resize them with --image-size (most take 32), or choose another network"
            ) from error

    def forward(self, images: Tensor) -> Tensor:
        return self.module(images)

    @torch.no_grad()
    def _count_features(self, image_shape: ImageShape) -> int:
        """By a trial: timm's own `num_features` is not always what comes out."""
        convolutions = [part for part in self.module.modules() if isinstance(part, nn.Conv2d)]
        hooks = [part.register_forward_hook(_check_patches(image_shape)) for part in convolutions]
        features = self.eval()(torch.zeros(1, *image_shape))
        self.train()
        for hook in hooks:
            hook.remove()
        if features.dim() != 2:
            raise ValueError(f"it gives features of shape {tuple(features.shape)}, not (batch, features)")
        return features.shape[1]


def _check_patches(image_shape: ImageShape) -> Callable[[nn.Conv2d, tuple[Tensor], Tensor], None]:
    """A hook for convolutions: one that cuts the image into patches must not leave the rest beside them unseen."""

    def check(patches: nn.Conv2d, inputs: tuple[Tensor], output: Tensor) -> None:
        # A stride of 2 is an ordinary convolution's, which leaves out one row of pixels at most.
        if inputs[0].shape[1:] != image_shape or min(patches.stride) <= 2:
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
    """timm, or a clear error where it is missing or cannot be loaded."""
    require("a network of timm", ["timm"], "timm")
    try:
        try:
            import timm
        except RuntimeError as error:
            if "torchvision::nms does not exist" not in str(error) or _declared:
                raise
            # A torchvision built for CUDA beside a CPU torch finds none of its operators. Nothing here calls them: that
            # two are declared is all its import needs.
            _declare_torchvision_operators()
            import timm
    except (ImportError, RuntimeError, OSError) as error:
        raise RuntimeError(
            f"timm is installed but cannot be loaded ({error}); most likely torchvision was built for another torch "
            f"than {torch.__version__}: install the one that fits, from the same index as torch"
        ) from error
    return timm


def _declare_torchvision_operators() -> None:
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)
