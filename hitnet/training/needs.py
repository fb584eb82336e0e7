"""How much memory training will take, from the network's shapes alone, on torch's meta device; and its reuse."""

import ctypes
import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hitnet.core.model import build
from hitnet.settings import ModelConfig

PER_WEIGHT = 4  # copies: the weight, its gradient and Adam's two moments
BASE = 500_000_000  # bytes of Python, torch and its libraries
WORKING = 1.5  # times what is kept for the backward pass: gradients on their way, and scratch space of convolutions
SMALLEST_SIDE, STEP = 16, 16  # pixels: sides that are tried where a larger one does not fit
M_MMAP_MAX, M_TRIM_THRESHOLD = -4, -1  # of glibc's mallopt
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


class Memory(NamedTuple):
    """Bytes that one process of a training takes."""

    least: int
    """Less is impossible: weights, gradients, Adam's moments, and what the backward pass needs."""
    likely: int
    """With all that comes with it."""


def memory_needed(
    config: ModelConfig,
    images: int,
    *,
    averaged: bool = False,
    frozen: bool = False,
    precision: torch.dtype = torch.float32,
) -> Memory | None:
    """What training takes with so many images per step and process; None if it cannot be found without training.

    averaged: whether a moving average of the weights is kept. frozen: whether the encoder does not learn.
    """
    assert config.image_shape is not None
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage
        return tensor

    try:
        with torch.device("meta"):
            model = build(config).train()
            batch = torch.rand(2, *config.image_shape)  # BatchNorm refuses one image
            labels = torch.zeros(2, dtype=torch.long)
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                with torch.set_grad_enabled(not frozen):
                    features = model.encoder(batch)
                capsules = model.head(features)
                drawn = None if model.decoder is None else model.decoder(capsules, labels)
    except (NotImplementedError, RuntimeError):  # a network of timm may compute with what it builds
        return None
    weights = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    del features, capsules, drawn
    activations = sum(storage.nbytes() for address, storage in kept.items() if address not in weights) / 2
    activations *= precision.itemsize / torch.float32.itemsize
    copies = sum(
        ((1 if frozen and name.startswith("encoder.") else PER_WEIGHT) + averaged) * parameter.nbytes
        for name, parameter in model.named_parameters()
    )
    return Memory(round(copies + images * activations), round(BASE + copies + WORKING * images * activations))


def check_fits(config: ModelConfig, images: int, device: torch.device, **what: Any) -> Memory | None:
    """What `memory_needed` finds; an error if the device has less, with an image size that would fit."""
    needed, there = memory_needed(config, images, **what), memory_of(device)
    if needed is None or there is None or needed.least <= there:
        return needed
    assert config.image_shape is not None
    channels, height, width = config.image_shape
    remedy = "a smaller --batch-size, or another --model"
    for side in range(max(height, width) - STEP, SMALLEST_SIDE - 1, -STEP):
        scale = side / max(height, width)
        smaller = (channels, max(1, round(scale * height)), max(1, round(scale * width)))
        try:
            less = memory_needed(replace(config, image_shape=smaller), images, **what)
        except ValueError:  # too small for this network
            break
        if less is not None and less.likely <= there:
            size = str(side) if smaller[1] == smaller[2] else f"{smaller[2]}x{smaller[1]}"
            remedy = f"--image-size {size} would fit; or take {remedy}"
            break
    raise ValueError(
        f"training {config.name} on {width}×{height} images, {images} per step, needs at least "
        f"{needed.least / 1e9:.3g} GB of memory, {device} has {there / 1e9:.3g} GB; {remedy}"
    )


def memory_of(device: torch.device) -> int | None:
    """Bytes of the device's memory, or of the share that this process may use; None if not known."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return None
    texts = [file.read_text().strip() for file in LIMITS if file.is_file()]
    return min([whole, *(int(text) for text in texts if text.isdigit())])


def keep_freed_memory() -> None:
    """From now on, this process uses freed memory again instead of returning it to the system, until it ends.

    Each step of training needs the same large tensors, and the system empties every page before it gives it out anew:
    a tenth of the time of `hitnet-deep`. Only glibc, the usual C library of Linux, can be told so.
    """
    if platform.libc_ver()[0] == "glibc":
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_MAX, 0)
        library.mallopt(M_TRIM_THRESHOLD, -1)
