"""A model as a folder: config.json says what it is, model.safetensors holds its weights. Neither can hold code.

Or as one file: the weights, and the configuration in their metadata."""

import os
from dataclasses import asdict
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from hitnet.files import parse_json, write_bytes, write_json
from hitnet.settings import ModelConfig, read_model_config, revive_model_config

CONFIG, WEIGHTS = "config.json", "model.safetensors"


def write_checkpoint(folder: Path, config: ModelConfig, weights: dict[str, Tensor]) -> None:
    """Write both files of a model; a missing folder is created."""
    write_config(folder, config)
    write_tensors(folder / WEIGHTS, weights)


def write_config(folder: Path, config: ModelConfig) -> None:
    """Write only what a model is, beside weights that stay."""
    write_json(folder / CONFIG, asdict(config))


def read_checkpoint(path: Path) -> tuple[ModelConfig, dict[str, Tensor]]:
    """(configuration, weights) from a folder or a single file."""
    if path.is_file():
        weights, metadata = read_tensors(path)
        if "config" not in metadata:
            raise ValueError(f"{path} holds weights without a configuration; give the folder that contains it")
        return revive_model_config(parse_json(metadata["config"], path), path), weights
    if not (path / CONFIG).is_file():
        raise FileNotFoundError(f"there is no model in {path}: expected {CONFIG} and {WEIGHTS}; check the path")
    return read_model_config(path / CONFIG), read_tensors(path / WEIGHTS)[0]


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write one safetensors file, atomically."""
    separate = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    write_bytes(path, safetensors.torch.save(separate, metadata))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """(tensors, metadata) of a safetensors file, or an error that says what is wrong with it."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; expected a safetensors file")
    try:
        with safe_open(os.fspath(path), framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(
            f"{path} is not a complete safetensors file ({error}); it is truncated, damaged or in another format, "
            "and nothing was loaded from it"
        ) from None


def load_weights(module: nn.Module, weights: dict[str, Tensor], source: str) -> None:
    """Load strictly: a missing or unknown weight, or one of the wrong shape or type, is an error that names it."""
    check_weights(module, weights, source)
    module.load_state_dict(weights)


def check_weights(module: nn.Module, weights: dict[str, Tensor], source: str) -> None:
    """What `load_weights` refuses; the module may be on the meta device, where it takes no memory."""
    expected = module.state_dict()
    names = sorted(expected.keys() | weights.keys())
    if differing := [name for name in names if not _alike(expected.get(name), weights.get(name))]:
        first = differing[0]
        raise ValueError(
            f"{source} holds the weights of another model: {len(differing)} of {len(expected)} differ, the first is "
            f"{first}: expected {_described(expected.get(first))}, got {_described(weights.get(first))}"
        )


def check_finite(weights: dict[str, Tensor], source: str) -> None:
    """Refuse weights that make every answer meaningless."""
    if broken := [name for name, weight in weights.items() if not weight.isfinite().all()]:
        count = int((~weights[broken[0]].isfinite()).sum())
        raise ValueError(
            f"{source} must hold finite weights, got {count} in {broken[0]} that are not; train it again, "
            "with a lower learning rate if it happens again"
        )


def _alike(expected: Tensor | None, got: Tensor | None) -> bool:
    """Whether `got` can replace `expected`: half precision for single is fine, integers for floats are not."""
    if expected is None or got is None or expected.shape != got.shape:
        return False
    return expected.is_floating_point() == got.is_floating_point() and not got.is_complex()


def _described(weight: Tensor | None) -> str:
    return "none" if weight is None else f"{tuple(weight.shape)} of {str(weight.dtype).removeprefix('torch.')}"
