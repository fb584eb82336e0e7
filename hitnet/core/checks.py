"""Input checks of networks and losses. Each error says what was expected, what was given, and the remedy.

Reading values would break a compiled or exported graph, so checks of values are skipped there.
"""

from typing import Any

import torch
from torch import Tensor


def check_labels(labels: Tensor, batch: int, classes: int) -> None:
    """Class indices, one for each image: (batch,) of an integer type, in 0..classes-1."""
    check_tensor("labels", labels)
    if labels.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        raise TypeError(f"labels must be integers, got {labels.dtype}; use labels.long(), or argmax for one-hot labels")
    if labels.shape != (batch,):
        raise ValueError(
            f"labels must have shape ({batch},), one class index for each image, got {tuple(labels.shape)}"
            "; flatten them, or use argmax for one-hot labels"
        )
    if batch == 0:
        raise ValueError("labels must hold at least one class index, got an empty batch; skip empty batches")
    if torch.compiler.is_compiling():
        return
    lowest, highest = (int(bound) for bound in labels.aminmax())
    if lowest < 0 or highest >= classes:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(f"labels must lie in 0..{classes - 1}, got {wrong}; check num_classes")


def check_images(images: Tensor, image_shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    """Images as the networks expect them: (batch, *image_shape), the network's `dtype`, every value in [0, 1]."""
    check_tensor("images", images)
    if not images.is_floating_point():
        raise TypeError(f"images must be floating point in [0, 1], got {images.dtype}; use images.float() / 255")
    if images.dtype != dtype and not torch.is_autocast_enabled(images.device.type):
        raise TypeError(f"images must be {dtype} like the weights, got {images.dtype}; use images.to({dtype})")
    if images.shape[1:] != image_shape:
        expected = ", ".join(str(size) for size in image_shape)
        raise ValueError(
            f"images must have shape (batch, {expected}), got {tuple(images.shape)}"
            "; reshape them, or create the model with another image_shape"
        )
    if images.shape[0] == 0:
        raise ValueError("images must hold at least one image, got an empty batch; skip empty batches")
    if torch.compiler.is_compiling():
        return
    lowest, highest = (float(bound) for bound in images.detach().aminmax())
    if lowest != lowest:
        raise ValueError("images must be numbers in [0, 1], got NaN; look for broken files or a division by zero")
    if lowest < 0 or highest > 1:
        bytes_as_floats = lowest >= 0 and 2 <= highest <= 255
        remedy = "divide by 255" if bytes_as_floats else "undo any normalisation and scale to [0, 1]"
        raise ValueError(f"images must lie in [0, 1], got values from {lowest:g} to {highest:g}; {remedy}")


def check_tensor(what: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{what} must be a tensor, got {type(value).__name__}; use torch.as_tensor({what})")
