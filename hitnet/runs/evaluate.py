"""Evaluate the network of a run and write the numbers into its folder."""

from pathlib import Path
from typing import Any

from hitnet.data import list_datasets
from hitnet.files import write_json
from hitnet.runs.reopen import data_for, is_same_source, reopen
from hitnet.training.evaluation import evaluate


def evaluate_run(
    path: Path, source: str | None = None, data_dir: Path | None = None, device: str = "auto"
) -> tuple[dict[str, Any], Path]:
    """Evaluate a run's model on its own test images, or on those of another `source`: (numbers, their file)."""
    opened = reopen(path, device)
    run, model, own = opened.run, opened.model, opened.run.read_settings().data
    source = source or own
    data = data_for(run, model, source, data_dir, test_fraction=None)
    content = {
        "data": data.name,
        "source": source,
        "notes": list(data.notes),
        **evaluate(model, data.test.to(model.device)).to_json(model.config.class_names),
    }
    # A user's folder or file may have the same name as the run's own data.
    foreign = source not in list_datasets() and not is_same_source(source, own)
    file = run.evaluation_file(f"{data.name}-{data.fingerprint[:8]}" if foreign else data.name)
    write_json(file, content)
    return content, file
