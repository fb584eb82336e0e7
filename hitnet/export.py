"""Export a run to formats that can be used without HitNet."""

import io
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

import hitnet
from hitnet.core.checkpoint import write_tensors
from hitnet.core.model import Model, load
from hitnet.errors import require
from hitnet.files import write_bytes, write_text
from hitnet.runs.calibrate import read_rejection
from hitnet.runs.run import Run

TOLERANCE = 1e-4
BATCHES = (1, 2, 5)  # every exported graph is checked with these batch sizes; it was traced with two images

Format = Literal["html", "onnx", "pt2", "safetensors"]
Answer = Callable[..., Sequence[Tensor]]


def export_run(run: Path, format: Format, out: Path | None = None, exemplars: bool = True) -> list[Path]:
    """Export a run, into its own folder by default; returns the files that were written.

    Without `exemplars`, the html page has no real pictures; the other formats never have any.
    """
    if format == "onnx":
        return export_onnx(run, out)
    if format == "pt2":
        return export_pt2(run, out)
    return [export_html(run, out, exemplars) if format == "html" else export_safetensors(run, out)]


def export_html(run: Path, out: Path | None = None, exemplars: bool = True) -> Path:
    """One self-contained page with the run's prototypes, sliders and real pictures; RUN/explorer.html by default."""
    from hitnet.web.page import static_page

    out = Run.around(run).path / "explorer.html" if out is None else out
    write_text(out, static_page(run, exemplars))
    return out


def export_safetensors(run: Path, out: Path | None = None) -> Path:
    """The model as one file that `hitnet.load` reads, its configuration in the metadata; RUN/network.safetensors."""
    model = load(run)
    out = Run.around(run).path / "network.safetensors" if out is None else out
    write_tensors(out, model.state_dict(), {"config": json.dumps(asdict(model.config)), **describe(model, run)})
    return out


def export_onnx(run: Path, out: Path | None = None) -> list[Path]:
    """OUT/classifier.onnx and, for networks with a decoder, OUT/decoder.onnx; OUT is RUN/onnx by default."""
    require("exporting to ONNX", ["onnx", "onnxscript", "onnxruntime"], "onnx")
    return _export(run, Run.around(run).path / "onnx" if out is None else out, ".onnx", _to_onnx, _open_onnx)


def export_pt2(run: Path, out: Path | None = None) -> list[Path]:
    """The same as programs of torch.export, OUT/classifier.pt2 and OUT/decoder.pt2; OUT is RUN/pt2 by default."""
    return _export(run, Run.around(run).path / "pt2" if out is None else out, ".pt2", _to_pt2, _open_pt2)


class Classifier(nn.Module):
    """Scores and capsules, without the decoder: (batch, …) -> (batch, classes), (batch, classes, dims)."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.encoder, self.head = model.encoder, model.head

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        capsules = self.head(self.encoder(image))
        return self.head.score(capsules), capsules


class Drawer(nn.Module):
    """Draws one capsule of each image: (batch, classes, dims), (batch,) -> (batch, …)."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, capsules: Tensor, class_index: Tensor) -> tuple[Tensor]:
        return (self.decoder(capsules, class_index),)


def describe(model: Model, run: Path) -> dict[str, str]:
    """Metadata needed to use the model; lists are JSON, because these formats store only text."""
    config = model.config
    facts = {
        "model": config.name,
        "hitnet_version": hitnet.__version__,
        "class_names": json.dumps(config.class_names, ensure_ascii=False),
        "image_shape": json.dumps(config.image_shape),
        "fit": config.fit,
        "decision": model.head.decision,
    }
    if model.head.has_hit_zone:
        facts |= {"hit_radius": str(config.hit_radius), "miss_radius": str(config.miss_radius)}
        facts["counted_dim"] = str(model.head.counted_dim)
    if config.radii is not None:
        facts |= {"radii": json.dumps(config.radii), "coverage": str(config.coverage)}
        facts["calibrated_on"] = str(config.calibrated_on)
    if model.decoder is not None:
        facts["decoder"] = type(model.decoder).__name__
        facts["drawing_shape"] = json.dumps(config.drawing_shape)
    if (rejection := read_rejection(run)) is not None:
        facts |= {name: str(getattr(rejection, name)) for name in ("threshold", "max_error", "confidence")}
    return facts


def _export(
    run: Path,
    folder: Path,
    suffix: str,
    write: Callable[[nn.Module, dict[str, Tensor], list[str], dict[str, str]], bytes],
    read: Callable[[bytes], Answer],
) -> list[Path]:
    """Export both parts. Nothing is written until all of it has been read back and gives the model's outputs."""
    model = load(run)
    parts: dict[str, tuple[nn.Module, list[str]]] = {
        "classifier": (Classifier(model), [model.head.score_name, "capsules"])
    }
    if model.decoder is not None:
        parts["decoder"] = (Drawer(model.decoder), ["image"])
    files = {}
    for name, (module, outputs) in parts.items():
        module.eval()
        with _silent():
            content = write(module, _examples(model, name, 2), outputs, describe(model, run))
            answer = read(content)
        for batch in BATCHES:
            _check_same(answer, module, _examples(model, name, batch), f"{name}{suffix}")
        files[folder / f"{name}{suffix}"] = content
    for path, content in files.items():
        write_bytes(path, content)
    return list(files)


def _examples(model: Model, part: str, batch: int) -> dict[str, Tensor]:
    """Random inputs of the classifier or of the decoder, by name."""
    generator = torch.Generator().manual_seed(batch)
    if part == "classifier":
        assert model.config.image_shape is not None
        return {"image": torch.rand(batch, *model.config.image_shape, generator=generator)}
    classes, dims = model.head.num_classes, model.head.capsule_dim
    return {
        # Near the centre, like real ones: far from it, saturated pixels would hide differences.
        "capsules": 0.45 + 0.1 * torch.rand(batch, classes, dims, generator=generator),
        "class_index": torch.randint(classes, (batch,), generator=generator),
    }


@torch.no_grad()
def _check_same(answer: Answer, module: nn.Module, examples: dict[str, Tensor], file: str) -> None:
    for ours, theirs in zip(module(**examples), answer(**examples), strict=True):
        # Relative for large numbers: the logits of N1 are unbounded.
        error = float(((ours - theirs).abs() / ours.abs().clamp(min=1)).max()) if ours.shape == theirs.shape else None
        if error is None or not error <= TOLERANCE:
            raise RuntimeError(
                f"{file} must give the same outputs as PyTorch up to {TOLERANCE:g}, got "
                f"{f'shape {tuple(theirs.shape)}' if error is None else f'a difference of {error:g}'} "
                f"for {len(ours)} images; nothing was written; try other versions of torch and onnxruntime"
            )


def _trace(module: nn.Module, examples: dict[str, Tensor]) -> Any:
    """The graph of a module for any number of images; it contains plain convolutions, not Winograd ones."""
    return torch.export.export(module, (), examples, dynamic_shapes=_any_batch(examples))


def _any_batch(examples: dict[str, Tensor]) -> dict[str, Any]:
    batch = torch.export.Dim("batch")
    return {name: {0: batch} for name in examples}


def _to_onnx(module: nn.Module, examples: dict[str, Tensor], outputs: list[str], facts: dict[str, str]) -> bytes:
    program = torch.onnx.export(
        _trace(module, examples),
        dynamo=True,
        verbose=False,
        input_names=list(examples),
        output_names=outputs,
        dynamic_shapes=_any_batch(examples),
    )
    assert program is not None
    # Remove stack traces: they contain paths of this machine.
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()
    program.model.metadata_props.update(facts)
    return program.model_proto.SerializeToString()


def _open_onnx(content: bytes) -> Answer:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def answer(**inputs: Tensor) -> list[Tensor]:
        return [torch.from_numpy(output) for output in session.run(None, {k: v.numpy() for k, v in inputs.items()})]

    return answer


def _to_pt2(module: nn.Module, examples: dict[str, Tensor], outputs: list[str], facts: dict[str, str]) -> bytes:
    content = io.BytesIO()
    facts = {**facts, "outputs": json.dumps(outputs)}
    torch.export.save(_trace(module, examples), content, extra_files={"metadata.json": json.dumps(facts)})
    return content.getvalue()


def _open_pt2(content: bytes) -> Answer:
    program: Answer = torch.export.load(io.BytesIO(content)).module()
    return program


@contextmanager
def _silent() -> Iterator[None]:
    """Hide deprecation warnings between the exporters, which users cannot fix."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
