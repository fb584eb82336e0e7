"""The end of a run: pictures, and result.json as the last file."""

from dataclasses import asdict
from typing import Any

from hitnet.data import Dataset, ImageSet
from hitnet.files import write_json
from hitnet.interpret.statistics import Measured, measure
from hitnet.model import Model, load
from hitnet.training.config import TrainConfig
from hitnet.training.evaluation import Evaluation, evaluate
from hitnet.training.run import Run
from hitnet.training.state import FILE, State


def finish(run: Run, config: TrainConfig, data: Dataset, state: State, test: ImageSet) -> None:
    """Measure the model that was kept, draw, and write the result; then what resuming needed can go."""
    model = load(run.path).to(test.labels.device)
    measured = evaluate(model, test)
    drawings = measure(model, test) if model.decoder is not None else None
    draw(run, model, measured, drawings)
    result: dict[str, Any] = {
        "data": data.name,
        "model": config.model,
        "decoder": type(model.decoder).__name__ if model.decoder is not None else None,
        "epochs": state.epoch,
        "kept_epoch": state.best_epoch(config.patience),
        "seconds": round(state.seconds, 1),
        "processor_seconds": round(state.processor_seconds, 1),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "notes": list(data.notes),
        "test": measured.to_json(data.class_names),
    }
    if drawings is not None:
        result["quality"] = drawings.quality.to_json()
        result["features"] = None if drawings.features is None else asdict(drawings.features)
    write_json(run.path / "result.json", result)
    (run.path / FILE).unlink(missing_ok=True)


def draw(run: Run, model: Model, measured: Evaluation, drawings: Measured | None) -> None:
    from hitnet.interpret import figures  # matplotlib takes a while to load
    from hitnet.interpret.prototypes import prototypes

    names = model.config.class_names
    title = f"{model.config.name} on {run.path.parent.name}"
    figures.save(figures.curves(run.metrics, title), run.path / "plots" / "curves.png")
    matrix = figures.confusion_matrix(
        measured.confusion, names, f"{title}: {measured.mistakes} mistakes in {measured.count:,}"
    )
    figures.save(matrix, run.path / "plots" / "confusion.png")
    if drawings is not None and drawings.statistics is not None:
        grid = figures.image_grid(prototypes(model), names, f"{title}: what each class looks like at its centre")
        figures.save(grid, run.path / "plots" / "prototypes.png")
        histograms = figures.feature_histograms(drawings.statistics, f"{title}: components of true-class capsules")
        figures.save(histograms, run.path / "plots" / "features.png")
