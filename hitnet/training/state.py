"""Everything that changes during training, saved after every epoch: enough to resume as if never interrupted."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from hitnet.core.checkpoint import load_weights, read_tensors, write_tensors
from hitnet.core.model import Model, build
from hitnet.settings import ModelConfig, RunSettings
from hitnet.training.frozen import FrozenModel, Memory
from hitnet.training.watchers import Row

PROGRESS = ("rows", "seconds", "processor_seconds")


@dataclass
class State:
    """The network, its optimizer, the random generators and the measurements so far."""

    model: Model
    optimizer: torch.optim.Optimizer
    averaged: AveragedModel | None
    generator: torch.Generator
    """Shuffles and augments; everything else random comes from torch's global generator."""
    rows: list[Row] = field(default_factory=list)
    """What each epoch measured."""
    seconds: float = 0.0
    """Wall-clock time."""
    processor_seconds: float = 0.0
    """CPU time of all threads of this process: what the run cost, even on a busy machine."""

    @classmethod
    def fresh(
        cls,
        settings: RunSettings,
        model_config: ModelConfig,
        device: torch.device,
        begin: Callable[[Model], None] = lambda model: None,
    ) -> "State":
        """The state before the first step; all randomness comes from the seed. `begin` may give it trained weights."""
        torch.manual_seed(settings.seed)
        model = build(model_config)
        begin(model)
        if settings.freeze:
            model = FrozenModel(model, Memory())
        model = model.to(device)
        optimizer = make_optimizer(model, settings.learning_rate, settings.weight_decay)
        averaged = None
        if settings.ema:
            averaged = AveragedModel(model, multi_avg_fn=partial(_average, settings.ema), use_buffers=True)
        return cls(model, optimizer, averaged, torch.Generator().manual_seed(settings.seed))

    @property
    def epoch(self) -> int:
        """How many epochs are done."""
        return len(self.rows)

    def best_epoch(self, patience: int) -> int:
        """The epoch to keep: the last one, or with patience the first one with the lowest validation error."""
        if not patience:
            return self.epoch
        return 1 + min(range(self.epoch), key=lambda index: self.rows[index]["validation_error"])

    def out_of_patience(self, patience: int) -> bool:
        """Whether the validation error has not improved for `patience` epochs."""
        return bool(self.rows and patience) and self.epoch - self.best_epoch(patience) >= patience

    @property
    def is_finite(self) -> bool:
        return all(bool(value.isfinite().all()) for value in self.model.state_dict().values())

    @property
    def kept_model(self) -> Model:
        """The model to keep: the averaged one if there is one."""
        kept = self.model if self.averaged is None else self.averaged.module
        assert isinstance(kept, Model)
        return kept

    def save(self, path: Path) -> None:
        """Write one file atomically: it never mixes two epochs."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        if self.averaged is not None:
            tensors |= {f"averaged.{name}": value for name, value in self.averaged.state_dict().items()}
        tensors |= optimizer_tensors(self.optimizer, "optimizer.")
        tensors |= {f"generator.{name}": value for name, value in self._generators().items()}
        progress = {name: getattr(self, name) for name in PROGRESS}
        write_tensors(path, tensors, {"progress": json.dumps(progress)})

    def restore(self, path: Path) -> None:
        """Restore the end of the last complete epoch; a run stopped in its first epoch starts over."""
        if not path.exists():
            return
        tensors, metadata = read_tensors(path)
        load_weights(self.model, under("model.", tensors), str(path))
        if self.averaged is not None:
            load_weights(self.averaged, under("averaged.", tensors), str(path))
        try:
            restore_optimizer(self.optimizer, under("optimizer.", tensors))
            generators = under("generator.", tensors)
            self.generator.set_state(generators["data"])
            torch.set_rng_state(generators["torch"])
            if "cuda" in generators:
                torch.cuda.set_rng_state(generators["cuda"])
            if "mps" in generators:
                torch.mps.set_rng_state(generators["mps"])
            progress = json.loads(metadata["progress"])
            for name in PROGRESS:
                setattr(self, name, progress[name])
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise ValueError(
                f"{path} is not the state of a training run ({error!r}); remove it to start again from the first epoch"
            ) from error

    def _generators(self) -> dict[str, Tensor]:
        states = {"data": self.generator.get_state(), "torch": torch.get_rng_state()}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            states["cuda"] = torch.cuda.get_rng_state()
        if self.model.device.type == "mps":
            states["mps"] = torch.mps.get_rng_state()
        return states


def _average(decay: float, averages: list[Tensor], weights: list[Tensor], steps: Tensor) -> None:
    """Move the averages towards the weights; less slowly at first, or short runs would keep what they began with."""
    warm = (1 + float(steps)) / (10 + float(steps))
    get_ema_multi_avg_fn(min(decay, warm))(averages, weights, steps)


def make_optimizer(model: Model, rate: float, weight_decay: float = 0.0) -> torch.optim.AdamW:
    """Adam with Keras' epsilon, as in the paper's code; torch's default is 1e-8.

    Only what recognises images decays, and of it only matrices and kernels; what draws need not generalise.
    """
    others: dict[str, Any] = {"params": [], "weight_decay": 0.0}
    decaying: dict[str, Any] = {"params": [], "weight_decay": weight_decay}
    for name, parameter in model.named_parameters():
        decays = weight_decay and parameter.dim() > 1 and not name.startswith(("decoder.", "head.style."))
        (decaying if decays else others)["params"].append(parameter)
    groups = [group for group in (others, decaying) if group["params"]]
    return torch.optim.AdamW(groups, lr=rate, eps=1e-7, fused=model.device.type != "mps")


def optimizer_tensors(optimizer: torch.optim.Optimizer, prefix: str) -> dict[str, Tensor]:
    """Adam's moments and step counts, by number of the parameter and kind."""
    numbered = optimizer.state_dict()["state"].items()
    return {f"{prefix}{number}.{kind}": value for number, kinds in numbered for kind, value in kinds.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Restore what `optimizer_tensors` returned, without the prefix; KeyError if it does not fit the parameters."""
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        number, _, kind = name.partition(".")
        moments.setdefault(int(number), {})[kind] = value
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for place, parameter in enumerate(parameters):
        shapes = {kind: value.shape for kind, value in moments.get(place, {}).items()}
        if shapes and shapes != {"step": (), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}:
            raise KeyError(f"optimizer.{place}")
        # Fused Adam assumes that moments have their parameter's memory layout, which files do not record.
        for kind in ("exp_avg", "exp_avg_sq") if shapes else ():
            moments[place][kind] = torch.empty_like(parameter).copy_(moments[place][kind])
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
