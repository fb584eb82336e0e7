"""Finish a run: measure its model, draw the plots, and write result.json last."""

from dataclasses import asdict
from typing import Any

from hitnet.core.model import Model
from hitnet.data import split_training
from hitnet.files import write_json
from hitnet.interpret.components import ComponentStatistics
from hitnet.interpret.prototypes import prototypes
from hitnet.interpret.quality import Measured, measure
from hitnet.interpret.verdicts import count_verdicts
from hitnet.runs.baseline import baseline
from hitnet.runs.calibrate import calibration_notes
from hitnet.runs.exemplars import keeps_exemplars, write_exemplars
from hitnet.runs.run import Run
from hitnet.training.evaluation import Evaluation, all_scores, count_mistakes, evaluate
from hitnet.training.frozen import as_trained
from hitnet.training.loop import Job


def write_result(run: Run, job: Job, finishing: dict[str, Any] | None = None) -> None:
    """Measure the model that was kept, draw the plots and write the result; then remove the state.

    finishing: the record of the finishing phase, if there was one.
    """
    settings, state, data = job.settings, job.state, job.data
    model, test = load_trained(run, job), job.held_out["test"]
    evaluation = evaluate(model, test)
    drawings = measure(model, test) if model.decoder is not None else None
    plot(run, model, evaluation, drawings)
    if keeps_exemplars(run, model):
        write_exemplars(run, model, job.batches.data)
    result: dict[str, Any] = {
        "data": data.name,
        "model": settings.model,
        "decoder": type(model.decoder).__name__ if model.decoder is not None else None,
        "epochs": state.epoch,
        "kept_epoch": state.best_epoch(settings.patience),
        "seconds": round(state.seconds, 1),
        "processor_seconds": round(state.processor_seconds, 1),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "notes": list(data.notes),
        "test": evaluation.to_json(data.class_names),
    }
    if model.config.radii is not None:
        result["verdicts"] = asdict(count_verdicts(model, all_scores(model, test), test.labels))
        result["notes"] += calibration_notes(settings, job.held_out["validation"], data.class_names)
    given, _ = split_training(data, count=settings.train_images, validation=0, seed=settings.seed)
    # A network that learned from all images has no others that a simple classifier could be tested on.
    if settings.fold != "1/1" and (simple := baseline(data, given)) is not None:
        result["baseline"] = simple
    if finishing is not None:
        result["finishing"] = finishing
    if drawings is not None:
        result["quality"] = drawings.quality.to_json()
        result["components"] = None if drawings.summary is None else asdict(drawings.summary)
    write_json(run.result_file, result)
    run.remove_state()


def load_trained(run: Run, job: Job) -> Model:
    """The model that a run just kept."""
    return as_trained(run.load_model().to(job.device), job.state.model)


def plot(run: Run, model: Model, evaluation: Evaluation, drawings: Measured | None) -> None:
    """RUN/plots: curves and confusion matrix; with a decoder and Hit-or-Miss, also prototypes and components."""
    from hitnet.interpret import figures  # matplotlib takes a while to load

    names = model.config.class_names
    title = f"{model.config.name} on {run.path.parent.name}"
    figures.save(figures.curves(run.read_metrics(), title), run.plots_folder / "curves.png")
    matrix = figures.confusion_matrix(
        evaluation.confusion, names, f"{title}: {count_mistakes(evaluation.mistakes)} in {evaluation.count:,}"
    )
    figures.save(matrix, run.plots_folder / "confusion.png")
    statistics: ComponentStatistics | None = None if drawings is None else drawings.statistics
    if statistics is not None:
        grid = figures.image_grid(prototypes(model), names, f"{title}: what each class looks like at its centre")
        figures.save(grid, run.plots_folder / "prototypes.png")
        histograms = figures.component_histograms(statistics, f"{title}: components of true-class capsules")
        figures.save(histograms, run.plots_folder / "components.png")
