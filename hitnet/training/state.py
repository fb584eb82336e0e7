"""All that changes while training, on disk after every epoch: enough to go on as if nothing had happened."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from hitnet.core.checkpoint import load_weights, read_tensors, write_tensors
from hitnet.core.model import Model, build
from hitnet.settings import ModelConfig, RunSettings
from hitnet.training.watchers import Row

PROGRESS = ("rows", "seconds", "processor_seconds")


@dataclass
class State:
    """The network, its optimizer, the random generators and what was measured so far."""

    model: Model
    optimizer: torch.optim.Optimizer
    averaged: AveragedModel | None
    generator: torch.Generator
    """Shuffles and augments; torch's own generator draws everything else."""
    rows: list[Row] = field(default_factory=list)
    """What each epoch measured."""
    seconds: float = 0.0
    """By the clock on the wall."""
    processor_seconds: float = 0.0
    """Of all threads of this process: what the run cost, whatever else the machine was doing."""

    @classmethod
    def fresh(cls, settings: RunSettings, model_config: ModelConfig, device: torch.device) -> "State":
        """Before the first step; everything random comes from the seed."""
        torch.manual_seed(settings.seed)
        model = build(model_config).to(device)
        optimizer = make_optimizer(model, settings.learning_rate)
        averaged = None
        if settings.ema:
            averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(settings.ema), use_buffers=True)
        return cls(model, optimizer, averaged, torch.Generator().manual_seed(settings.seed))

    @property
    def epoch(self) -> int:
        """How many epochs are done."""
        return len(self.rows)

    def best_epoch(self, patience: int) -> int:
        """The epoch to keep: the last one, or with patience the first one of the lowest validation error."""
        if not patience:
            return self.epoch
        return 1 + min(range(self.epoch), key=lambda index: self.rows[index]["validation_error"])

    def out_of_patience(self, patience: int) -> bool:
        """Whether the validation error has not improved for so many epochs."""
        return bool(self.rows and patience) and self.epoch - self.best_epoch(patience) >= patience

    @property
    def is_finite(self) -> bool:
        return all(bool(value.isfinite().all()) for value in self.model.state_dict().values())

    @property
    def kept_model(self) -> Model:
        """The model to keep: the averaged one, where there is one."""
        kept = self.model if self.averaged is None else self.averaged.module
        assert isinstance(kept, Model)
        return kept

    def save(self, path: Path) -> None:
        """One file, atomically: it holds one epoch's end and nothing of two."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        if self.averaged is not None:
            tensors |= {f"averaged.{name}": value for name, value in self.averaged.state_dict().items()}
        for index, values in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in values.items()}
        tensors |= {f"generator.{name}": value for name, value in self._generators().items()}
        progress = {name: getattr(self, name) for name in PROGRESS}
        write_tensors(path, tensors, {"progress": json.dumps(progress)})

    def restore(self, path: Path) -> None:
        """Go back to where the last whole epoch ended; a run stopped in its first epoch starts again."""
        if not path.exists():
            return
        tensors, metadata = read_tensors(path)
        load_weights(self.model, _under("model.", tensors), str(path))
        if self.averaged is not None:
            load_weights(self.averaged, _under("averaged.", tensors), str(path))
        moments: dict[int, dict[str, Tensor]] = {}
        try:
            for name, value in _under("optimizer.", tensors).items():
                index, _, kind = name.partition(".")
                moments.setdefault(int(index), {})[kind] = value
            for number, parameter in enumerate(self.model.parameters()):
                shapes = {kind: value.shape for kind, value in moments.get(number, {}).items()}
                if shapes and shapes != {"step": (), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}:
                    raise KeyError(f"optimizer.{number}")
                # Fused Adam takes for granted that moments lie in memory as their parameter does; files do not tell.
                for kind in ("exp_avg", "exp_avg_sq") if shapes else ():
                    moments[number][kind] = torch.empty_like(parameter).copy_(moments[number][kind])
            self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
            generators = _under("generator.", tensors)
            self.generator.set_state(generators["data"])
            torch.set_rng_state(generators["torch"])
            if "cuda" in generators:
                torch.cuda.set_rng_state(generators["cuda"])
            progress = json.loads(metadata["progress"])
            for name in PROGRESS:
                setattr(self, name, progress[name])
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise ValueError(
                f"{path} is not the state of a training run ({error!r}); remove it to start from the first epoch again"
            ) from error

    def _generators(self) -> dict[str, Tensor]:
        states = {"data": self.generator.get_state(), "torch": torch.get_rng_state()}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            states["cuda"] = torch.cuda.get_rng_state()
        return states


def make_optimizer(model: Model, rate: float) -> torch.optim.Adam:
    """Adam with Keras' epsilon, as in the paper's code; torch's own is 1e-8."""
    parameters = list(model.parameters())
    return torch.optim.Adam(parameters, lr=rate, eps=1e-7, fused=parameters[0].device.type != "mps")


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
