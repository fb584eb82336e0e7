"""`hitnet finish`: a decoder that the network itself recognises, for a finished run. The classifier stays as it is."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hitnet.core.model import Model
from hitnet.data import split_training
from hitnet.files import next_version, write_json
from hitnet.interpret.quality import measure
from hitnet.runs.reopen import reopen
from hitnet.runs.result import plot
from hitnet.runs.run import Run
from hitnet.training.evaluation import evaluate
from hitnet.training.finishing import Finishing

SAVED_EVERY = 50  # steps
FEWEST_STEPS = 200


def finish_run(
    path: Path,
    steps: int | None = None,
    data_dir: Path | None = None,
    device: str = "auto",
    stepped: Callable[[int, int], None] = lambda done, steps: None,
) -> tuple[dict[str, Any], Run]:
    """Train the decoder of a finished run and put it in the run's model: (result.json as it was before, the run).

    Without `steps`, a third of the steps of training, at least 200. A phase that was stopped resumes.
    """
    opened = reopen(path, device)
    run, model, settings = opened.run, opened.model, opened.run.read_settings()
    before = run.read_result()
    if not model.head.has_hit_zone:
        raise ValueError(
            f"{run.path} is {model.config.name}, whose capsules have no centre to draw; "
            "choose a run of hitnet-fast or of another network with Hit-or-Miss"
        )
    data = opened.load_data(data_dir=data_dir)
    training, _ = split_training(
        data.train, count=settings.train_images, validation=settings.validation, seed=settings.seed
    )
    if steps is None:
        steps = max(FEWEST_STEPS, before["epochs"] * len(training) // settings.batch_size // 3)
    phase = Finishing(model, training.to(model.device), steps, seed=settings.seed, flip=settings.flip)
    phase.restore(run.finishing_file)
    stepped(phase.steps_done, steps)
    while not phase.done:
        phase.step()
        stepped(1, steps)
        if phase.steps_done % SAVED_EVERY == 0:
            phase.save(run.finishing_file)
    phase.save(run.finishing_file)
    finished = Model(model.encoder, model.head, phase.finished_decoder(), replace(model.config, decoder="picture"))
    test = data.test.to(model.device)
    drawings = measure(finished, test)
    assert drawings.summary is not None
    plot(run, finished, evaluate(finished, test), drawings)
    with next_version(run.model_folder) as folder:
        finished.save(folder)
    changed: dict[str, Any] = {
        "decoder": type(finished.decoder).__name__,
        "parameters": sum(parameter.numel() for parameter in finished.parameters()),
        "finishing": {
            "steps": steps,
            "seconds": round(phase.seconds, 1),
            "processor_seconds": round(phase.processor_seconds, 1),
        },
        "quality": drawings.quality.to_json(),
        "components": asdict(drawings.summary),
    }
    write_json(run.result_file, before | changed)
    run.finishing_file.unlink(missing_ok=True)
    return before, run
