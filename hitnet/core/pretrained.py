"""Trained weights for an encoder: timm's own, those of a file, or those of another run of this package."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hitnet.core.checkpoint import WEIGHTS, read_tensors
from hitnet.core.encoders import DeepEncoder, Encoder
from hitnet.core.model import MODEL_FOLDER, Model
from hitnet.core.timm_encoder import PREFIX, TimmEncoder, load_timm

TIMM = "timm"  # instead of a file: what timm downloads
WRAPPERS = ("state_dict", "model", "state_dict_ema", "model_ema")  # names under which training scripts keep weights
FEW = 3  # tensors that an error names


def load_pretrained(model: Model, source: str) -> None:
    """Give a network's encoder trained weights: `source` is "timm", a file of weights, or a run folder."""
    encoder, name = model.encoder, model.config.name
    if source == TIMM:
        if not isinstance(encoder, TimmEncoder):
            raise ValueError(
                f"only timm networks have weights to download, got {name}; give a file of weights or a run folder, "
                "as in --pretrained runs/DATA/MODEL-s0"
            )
        encoder.module.load_state_dict(_download(encoder).state_dict())
        return
    file = find_weights(Path(source))
    weights = read_weights(file)
    if own := {key.removeprefix("encoder."): value for key, value in weights.items() if key.startswith("encoder.")}:
        _load_own(encoder, own, str(file), name)
    elif isinstance(encoder, TimmEncoder):
        encoder.module.load_state_dict(_through_timm(encoder, weights, str(file)))
    else:
        _load_own(encoder, weights, str(file), name)


def find_weights(path: Path) -> Path:
    """The file itself, or the weights in a run folder or model folder."""
    for place in (path, path / MODEL_FOLDER / WEIGHTS, path / WEIGHTS):
        if place.is_file():
            return place
    raise FileNotFoundError(
        f"there are no weights in {path}: expected a .safetensors, .pth, .pt or .bin file, or a run folder; "
        "check the path, or give --pretrained alone for timm's own weights"
    )


def read_weights(path: Path) -> dict[str, Tensor]:
    """All tensors of a file by name. Code in a file is never run."""
    if path.suffix == ".safetensors":
        return read_tensors(path)[0]
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the unpickler raises anything on a damaged file
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"{path} cannot be read as weights alone ({reason}); it is damaged, or it holds more than tensors: save "
            "torch.save(network.state_dict(), FILE), or a safetensors file"
        ) from None
    for name in WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(name), dict):
            content = content[name]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()) or not content:
        raise ValueError(
            f"{path} must hold tensors by name, got something else; save torch.save(net.state_dict(), FILE)"
        )
    return {str(name).removeprefix("module."): value for name, value in content.items()}


def _download(encoder: TimmEncoder) -> nn.Module:
    try:
        return load_timm().create_model(encoder.name, pretrained=True, num_classes=0, **encoder.build_options)
    except Exception as error:  # without a network, each library on the way raises its own
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RuntimeError(
            f"timm could not get the weights of {PREFIX}{encoder.name} ({reason}); connect to the internet once, or "
            "copy a file of its weights here and give it: --pretrained FILE. timm.list_pretrained() lists the networks "
            "that have weights"
        ) from error


def _through_timm(encoder: TimmEncoder, weights: dict[str, Tensor], source: str) -> dict[str, Tensor]:
    """The weights as timm adapts them to the size of the images, without the classifier."""
    timm = load_timm()
    usual = timm.get_pretrained_cfg(encoder.name)
    classifiers = [usual.classifier] if isinstance(usual.classifier, str) else list(usual.classifier or ())
    found = [weights[f"{name}.weight"] for name in classifiers if f"{name}.weight" in weights]
    classes = len(found[0]) if found and found[0].dim() else 0
    # With as many classes as in the file timm is strict; otherwise it would ignore what does not fit.
    same = {"state_dict": dict(weights), "num_classes": classes, "label_offset": 0}
    try:
        trained = timm.create_model(
            encoder.name, pretrained=True, pretrained_cfg_overlay=same, num_classes=classes, **encoder.build_options
        )
    except Exception as error:  # timm renames tensors of older files, which fails in many ways on those of others
        plain = timm.create_model(encoder.name, num_classes=classes, **encoder.build_options)
        raise ValueError(_misfit(plain.state_dict(), weights, source, PREFIX + encoder.name)) from error
    trained.reset_classifier(0)
    return trained.state_dict()


def _load_own(encoder: Encoder, weights: dict[str, Tensor], source: str, name: str) -> None:
    """Weights that an encoder of this package saved; the first convolution may have seen other channels."""
    expected = encoder.state_dict()
    if isinstance(encoder, DeepEncoder) and "whitening" in weights:
        theirs, ours = weights["whitening"].shape[1], encoder.whitening.shape[1]
        if theirs != ours:
            raise ValueError(
                f"{source} was trained on images with {theirs} channels, these have {ours}; {name} is made for one or "
                "the other, hitnet-fast can change"
            )
    if isinstance(encoder, TimmEncoder) and encoder.normalised and "mean" not in weights:
        raise ValueError(
            f"{source} was trained from scratch, on images that were not normalised, and --pretrained normalises them "
            "for timm's networks; give a run that was itself trained with --pretrained, or a file of timm's own weights"
        )
    adapted = {key: _in_channels(value, expected[key]) if key in expected else value for key, value in weights.items()}
    if {key: value.shape for key, value in adapted.items()} != {key: value.shape for key, value in expected.items()}:
        raise ValueError(_misfit(expected, weights, source, name))
    encoder.load_state_dict(adapted)
    if isinstance(encoder, DeepEncoder):
        encoder.whitened.fill_(True)  # its convolutions were trained on what these filters answer


def _in_channels(kernel: Tensor, expected: Tensor) -> Tensor:
    """A kernel for colour images as one for grey images, or the other way round; the same for any other tensor.

    Grey images in three equal channels give the same features either way.
    """
    if kernel.dim() != 4 or expected.dim() != 4 or {kernel.shape[1], expected.shape[1]} != {1, 3}:
        return kernel
    return kernel.sum(1, keepdim=True) if kernel.shape[1] == 3 else kernel.expand(-1, 3, -1, -1) / 3


def _misfit(expected: dict[str, Tensor], weights: dict[str, Tensor], source: str, name: str) -> str:
    """Which tensors do not fit, in words."""
    missing = [key for key in expected if key not in weights]
    strange = [key for key in weights if key not in expected]
    other = [key for key in expected if key in weights and weights[key].shape != expected[key].shape]
    said = [
        f"{len(keys)} {words}, the first {describe(keys[:FEW])}"
        for keys, words, describe in (
            (missing, "are missing", _listed),
            (strange, "are unknown to it", _listed),
            (other, "have another shape", lambda keys: _shapes(keys, expected, weights)),
        )
        if keys
    ]
    return (
        f"{source} holds the weights of another network than {name}: of its {len(expected)} tensors "
        f"{'; '.join(said) or 'none fits'}; give a file of {name}, or name the network of this file with --model"
    )


def _listed(keys: list[str]) -> str:
    return ", ".join(keys)


def _shapes(keys: list[str], expected: dict[str, Any], weights: dict[str, Any]) -> str:
    return ", ".join(f"{key}: expected {tuple(expected[key].shape)}, got {tuple(weights[key].shape)}" for key in keys)
