"""The finishing phase in a run folder: at the end of training, or with `hitnet finish` for a run made before."""

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from hitnet.core.model import Model
from hitnet.data import ImageSet
from hitnet.defaults import OWN
from hitnet.files import next_version, write_json
from hitnet.interpret.quality import measure
from hitnet.runs.atlas import remove_atlas
from hitnet.runs.exemplars import keeps_exemplars, write_exemplars
from hitnet.runs.reopen import reopen
from hitnet.runs.result import plot
from hitnet.runs.run import Run
from hitnet.settings import RunSettings
from hitnet.training.evaluation import evaluate
from hitnet.training.finishing import Finishing, check_finishable, count_steps

SAVED_EVERY = 50  # steps

Stepped = Callable[[int, int], None]
"""Called with the number of steps just done and the number of all steps: first with those done before, then after
each step."""


def finish_run(
    path: Path,
    steps: int | None = None,
    data_dir: Path | None = None,
    device: str = "auto",
    stepped: Stepped = lambda done, steps: None,
) -> tuple[dict[str, Any], Run]:
    """Train the decoder of a finished run and put it in the run's model: (result.json as it was before, the run).

    Without `steps`, a third of the steps of training, at least 200; with as many threads as the run. A phase that was
    stopped resumes.
    """
    opened = reopen(path, device)
    run, model, settings = opened.run, opened.model, opened.run.read_settings()
    before = run.read_result()
    check_finishable(model, str(run.path))
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    data = opened.load_data(data_dir=data_dir)
    training = opened.training_images(data)
    if steps is None:
        share = settings.finishing or OWN["hitnet-fast"]["finishing"]
        steps = count_steps(share, before["epochs"] * math.ceil(len(training) / settings.batch_size))
    finished, record = finish_model(run, model, training, steps, settings, stepped)
    test = data.test.to(model.device)
    drawings = measure(finished, test)
    assert drawings.summary is not None
    evaluation = evaluate(finished, test)
    plot(run, finished, evaluation, drawings)
    remove_atlas(run)
    # Those of a run that has some stay right: its encoder and capsules did not change.
    if keeps_exemplars(run, finished) and not run.exemplars_file.is_file():
        write_exemplars(run, finished, training)
    save_next(run, finished)
    changed: dict[str, Any] = {
        "decoder": type(finished.decoder).__name__,
        "parameters": sum(parameter.numel() for parameter in finished.parameters()),
        "finishing": record,
        "test": evaluation.to_json(data.class_names),
        "quality": drawings.quality.to_json(),
        "components": asdict(drawings.summary),
    }
    write_json(run.result_file, before | changed)
    run.remove_state()
    return before, run


def finish_model(
    run: Run, model: Model, training: ImageSet, steps: int, settings: RunSettings, stepped: Stepped
) -> tuple[Model, dict[str, Any]]:
    """Train a decoder for a run's model: (the model with its new decoder, not saved yet, a record for result.json).

    The state of the phase stays in the run folder: remove it when the result is written.
    """
    imitate = not settings.no_exemplars
    phase = Finishing(model, training, steps, seed=settings.seed, flip=settings.flip, imitate=imitate)
    phase.restore(run.finishing_file)
    stepped(phase.steps_done, steps)
    while not phase.done:
        phase.step()
        stepped(1, steps)
        if phase.steps_done % SAVED_EVERY == 0:
            phase.save(run.finishing_file)
    phase.save(run.finishing_file)
    finished = Model(model.encoder, model.head, phase.finished_decoder(), replace(model.config, decoder="picture"))
    seconds = {name: round(getattr(phase, name), 1) for name in ("seconds", "processor_seconds")}
    return finished, {"steps": steps, **seconds}


def save_next(run: Run, model: Model) -> None:
    """Replace a run's model by its next version, whatever happens meanwhile."""
    with next_version(run.model_folder) as folder:
        model.save(folder)
