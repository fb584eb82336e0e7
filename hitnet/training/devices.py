"""The device a run uses, its precision, and the processes that train together."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import torch
from torch import Tensor, distributed, nn

from hitnet.core.winograd import WinogradConv2d
from hitnet.settings import Precision

GAINS = 64  # channels: convolutions of fewer are hardly faster in bfloat16


@dataclass(frozen=True)
class Team:
    """The processes that train one network together: this process's rank, and how many there are."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        """The model itself, or one that averages its gradients over all processes."""
        if self.size == 1:
            return model
        devices = [device.index] if device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(model, device_ids=devices)

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes, in each of them."""
        if self.size > 1:
            distributed.all_reduce(values)
        return values

    def agree(self, model: nn.Module) -> None:
        """Copy the leader's buffers to all processes: each saw different images, so batch statistics differ."""
        if self.size > 1:
            for buffer in model.buffers():
                distributed.broadcast(buffer, src=0)

    def wait(self) -> None:
        if self.size > 1:
            distributed.barrier()


@contextmanager
def join_team(device: torch.device) -> Iterator[Team]:
    """The team that torchrun started, or a team of one."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Team()
        return
    # On GPUs, gloo is also needed: some sums are kept on the CPU.
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    # The others wait while the leader finishes the drawings, which may take hours.
    distributed.init_process_group(backend, timeout=timedelta(days=1))
    try:
        yield Team(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()


def choose_device(requested: str) -> torch.device:
    """The requested device; auto is the best one available."""
    if requested == "auto":
        requested = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if requested == "cuda":
        # torchrun starts one process per GPU and numbers them.
        requested = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    try:
        device = torch.device(requested)
        if device.type not in ("cpu", "cuda", "mps"):
            raise RuntimeError("HitNet does not support it")
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).splitlines()[0]
        if reason.startswith("Expected one of"):  # a list of some twenty kinds
            reason = "there is none of this name"
        raise ValueError(f"device {requested!r} cannot be used ({reason}); use auto, cpu, cuda or mps") from None
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


def choose_precision(requested: Precision, device: torch.device) -> torch.dtype:
    """The requested precision; auto is bfloat16 on GPUs that support it and float32 elsewhere."""
    if requested == "float32":
        return torch.float32
    if device.type == "cuda":
        safe = torch.cuda.is_bf16_supported()
        if requested == "auto":  # older GPUs only imitate it, slowly
            safe = safe and torch.cuda.get_device_capability(device)[0] >= 8
    else:
        safe = requested == "bfloat16" and bfloat16_runs(device.type)
    if requested == "bfloat16" and not safe:
        raise ValueError(
            f"bfloat16 does not run on this {device.type}; use precision float32, or resume a run that began in "
            "bfloat16 on a processor that has it"
        )
    return torch.bfloat16 if safe else torch.float32


@cache
def bfloat16_runs(device_type: str) -> bool:
    """Tried in a child process: on some virtual machines, a bfloat16 product kills the process that computes it."""
    code = f"import torch; a = torch.ones(256, 256, dtype=torch.bfloat16, device={device_type!r}); (a @ a).sum().item()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def faster_in_bfloat16(model: nn.Module, device: torch.device, precision: torch.dtype) -> bool:
    """Whether the model trains in float32 on a processor that is made for bfloat16, and would gain from it."""
    # The paper's networks would lose their own fast convolution, which is for float32 alone.
    own = any(isinstance(layer, WinogradConv2d) for layer in model.modules())
    learning = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d) and layer.weight.requires_grad]
    wide = any(layer.in_channels >= GAINS for layer in learning)
    if own or not wide or device.type != "cpu" or precision != torch.float32:
        return False
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # older versions of torch do not tell
    return bool(capabilities.get("avx512_bf16"))


def autocast(device: torch.device, precision: torch.dtype) -> AbstractContextManager[Any]:
    if precision == torch.float32:
        return nullcontext()
    return torch.autocast(device.type, precision)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generator inside the block, and restore it afterwards."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
