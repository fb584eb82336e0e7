"""Finished runs side by side: their numbers, curves and prototypes."""

import base64
import math
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import torch

from hitnet.core.model import Model, load
from hitnet.data import to_bytes, to_float
from hitnet.interpret.explanation import explain
from hitnet.interpret.prototypes import prototypes
from hitnet.runs.run import Run, finished_neighbours
from hitnet.web.bundle import check_drawable
from hitnet.web.records import number, part, text

MOST = 500
ASKING = Lock()  # one answer of another run at a time
CURVES = ("train_error", "validation_error", "test_error")
DRAWINGS = ("prototypes_hit", "r2", "edge_energy")


def neighbours(run: Run) -> dict[str, Run]:
    """This run and the finished runs that share a runs folder with it, by a short name."""
    return {_name(run): run} | {_name(other): other for other in finished_neighbours(run, MOST)}


def list_runs(run: Run) -> list[dict[str, Any]]:
    """One entry per run; `unreadable` says what is wrong with one that cannot be read."""
    own = run.path.resolve()
    return [
        {"id": name, "current": other.path.resolve() == own, **_summary(other)}
        for name, other in neighbours(run).items()
    ]


def describe_run(run: Run) -> dict[str, Any]:
    """Numbers, curves and prototypes of one run."""
    result, settings, rows = read_result(run), run.read_settings(), run.read_metrics()
    model = _drawn(run.path, _version(run))
    curves = {name: [[row.get("epoch"), row[name]] for row in rows if name in row] for name in CURVES}
    return {
        "data": text(result.get("data") or settings.data),
        "model": text(settings.model),
        "decoder": text(result["decoder"]) if result.get("decoder") else None,
        "epochs": len(rows),
        "seconds": number(result.get("seconds")),
        "parameters": number(result.get("parameters")),
        "error": number(part(result, "test").get("error")),
        "quality": {name: number(part(result, "quality").get(name)) for name in DRAWINGS},
        "curves": {name: points for name, points in _finite(curves).items() if points},
        **model,
    }


def answer(run: Run, content: bytes) -> dict[str, Any]:
    """What one run says about an image; `content` is its pixels. Without a prototype, class and score alone."""
    model = _opened(run.path, _version(run))
    shape = model.config.image_shape
    if shape is None or len(content) != math.prod(shape):
        expected = "images of another size" if shape is None else f"images of {shape[2]}×{shape[1]}×{shape[0]} bytes"
        raise ValueError(f"{_name(run)} was trained on {expected}, got {len(content)} bytes; choose another run")
    image = to_float(torch.frombuffer(bytearray(content), dtype=torch.uint8).view(1, *shape))
    with ASKING:
        try:
            check_drawable(model)
        except ValueError:
            scores = model.scores(image)
            index, verdict = int(model.head.decide(scores)), model.verdicts(scores)[0]
            words = f"Its score is {float(scores[0, index]):.3f}; this network cannot draw."
            return {"class": model.config.class_names[index], "verdict": verdict, "words": words, "drawing": None}
        found = explain(model, image)
        drawing = to_bytes(found.reconstruction).cpu().numpy().tobytes()
    return {
        "class": found.class_name,
        "verdict": found.verdict,
        "words": found.words,
        "drawing": base64.b64encode(drawing).decode(),
    }


def read_result(run: Run) -> dict[str, Any]:
    """The result of a finished run; empty for the run that is explored, if it is not finished."""
    return run.read_result() if run.is_finished else {}


def _version(run: Run) -> tuple[int, int]:
    """Changes with the weights and with a new calibration."""
    return run.weights_file.stat().st_mtime_ns, run.config_file.stat().st_mtime_ns


def _name(run: Run) -> str:
    path = run.path.resolve()
    return text(f"{path.parent.name}/{path.name}")


def _summary(run: Run) -> dict[str, Any]:
    try:
        result, settings = read_result(run), run.read_settings()
    except (OSError, ValueError) as error:
        return {"data": "", "model": "", "error": None, "unreadable": text(error)}
    return {
        "data": text(result.get("data") or settings.data),
        "model": text(result.get("model") or settings.model),
        "error": number(part(result, "test").get("error")),
        "unreadable": None,
    }


def _finite(curves: dict[str, list[list[Any]]]) -> dict[str, list[list[Any]]]:
    """Without the points that are nowhere."""
    return {name: [point for point in points if None not in map(number, point)] for name, points in curves.items()}


@lru_cache(maxsize=4)
def _opened(path: Path, _changed: tuple[int, int]) -> Model:
    """The model of a run; opened again when its weights or its calibration change."""
    try:
        return load(path)
    except RuntimeError as error:  # a timm network, and timm is not installed; or torch cannot build it
        raise ValueError(str(error)) from error


@lru_cache(maxsize=16)
def _drawn(path: Path, changed: tuple[int, int]) -> dict[str, Any]:
    """Classes, and prototypes as bytes; drawn once, and again only when the model changes."""
    model = _opened(path, changed)
    content: dict[str, Any] = {
        "classes": list(model.config.class_names),
        "shape": model.config.image_shape,
        "drawing": model.config.drawing_shape,
    }
    try:
        check_drawable(model)
    except ValueError as error:
        return content | {"prototypes": None, "why": str(error)}
    pictures = to_bytes(prototypes(model)).cpu().numpy().tobytes()
    return content | {"prototypes": base64.b64encode(pictures).decode(), "why": None}
