"""Finished runs side by side: their numbers, curves and prototypes."""

import base64
from functools import lru_cache
from pathlib import Path
from typing import Any

from hitnet.core.model import load
from hitnet.interpret.prototypes import prototypes
from hitnet.runs.run import Run, finished_neighbours
from hitnet.web.bundle import check_drawable

MOST = 500
CURVES = ("train_error", "validation_error", "test_error")


def neighbours(run: Run) -> dict[str, Run]:
    """This run and the finished runs that share a runs folder with it, by a short name."""
    own = run.path.resolve()
    others = {f"{other.path.parent.name}/{other.path.name}": other for other in finished_neighbours(run, MOST)}
    return {f"{own.parent.name}/{own.name}": run} | others


def list_runs(run: Run) -> list[dict[str, Any]]:
    """One entry per run; a run that cannot be read is left out."""
    entries = []
    for name, other in neighbours(run).items():
        try:
            result, settings = other.read_result() if other.is_finished else {}, other.read_settings()
            test = result.get("test") or {}
            entries.append(
                {
                    "id": name,
                    "data": str(result.get("data") or settings.data),
                    "model": str(result.get("model") or settings.model),
                    "error": _number(test.get("error")),
                    "current": other.path.resolve() == run.path.resolve(),
                }
            )
        except (OSError, ValueError):
            continue
    return entries


def describe_run(run: Run) -> dict[str, Any]:
    """Numbers, curves and prototypes of one run."""
    result, settings = run.read_result() if run.is_finished else {}, run.read_settings()
    rows = run.read_metrics()
    model = _drawn(run.path, run.weights_file.stat().st_mtime_ns)
    return {
        "data": str(result.get("data") or settings.data),
        "model": settings.model,
        "decoder": result.get("decoder"),
        "epochs": len(rows),
        "seconds": _number(result.get("seconds")),
        "parameters": _number(result.get("parameters")),
        "error": _number((result.get("test") or {}).get("error")),
        "curves": {
            name: [[row["epoch"], row[name]] for row in rows if name in row]
            for name in CURVES
            if any(name in row for row in rows)
        },
        **model,
    }


@lru_cache(maxsize=16)
def _drawn(path: Path, _changed: int) -> dict[str, Any]:
    """Classes, and prototypes as bytes; drawn once, and again only when the weights change."""
    try:
        model = load(path)
    except RuntimeError as error:  # a timm network, and timm is not installed
        raise ValueError(str(error)) from error
    content: dict[str, Any] = {"classes": list(model.config.class_names), "shape": model.config.image_shape}
    try:
        check_drawable(model)
    except ValueError as error:
        return content | {"prototypes": None, "why": str(error)}
    pictures = (prototypes(model) * 255).round().byte().cpu().numpy().tobytes()
    return content | {"prototypes": base64.b64encode(pictures).decode(), "why": None}


def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
