"""Evaluate the network of a run and write the numbers into its folder."""

import csv
import io
from pathlib import Path
from typing import Any

from torch import Tensor

from hitnet.core.model import Model
from hitnet.data import ImageSet, list_datasets, to_float
from hitnet.files import write_json, write_text
from hitnet.runs.reopen import data_for, is_same_source, reopen
from hitnet.training.evaluation import all_scores, evaluate

MOST_SHOWN = 100  # mistakes on the contact sheet


def evaluate_run(
    path: Path,
    source: str | None = None,
    data_dir: Path | None = None,
    device: str = "auto",
    skip_bad: bool = False,
) -> tuple[dict[str, Any], Path]:
    """Evaluate a run's model on its own test images, or on those of another `source`: (numbers, their file)."""
    opened = reopen(path, device)
    run, model, own = opened.run, opened.model, opened.run.read_settings().data
    source = source or own
    data = data_for(run, model, source, data_dir, test_fraction=None, skip_bad=skip_bad)
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
    write_mistakes(model, data.test, file.with_name(f"{file.stem}-mistakes.csv"))
    return content, file


def write_mistakes(model: Model, test: ImageSet, path: Path) -> None:
    """PATH: every misclassified image, the most certain first; beside it, a sheet of the first hundred as a picture."""
    from hitnet.interpret import figures  # matplotlib takes a while to load

    scores, names = all_scores(model, test), model.config.class_names
    answered, unusual = model.head.decide(scores), model.head.outlier_score(scores)
    wrong = (answered != test.labels.cpu()).nonzero()[:, 0]
    wrong = wrong[unusual[wrong].argsort(stable=True)]
    rows = _rows(model, test, scores, wrong)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["file" if test.files else "image", "given", "answered", "score", "verdict"])
    writer.writerows(rows)
    write_text(path, text.getvalue())
    shown, sheet = wrong[:MOST_SHOWN], path.with_suffix(".png")
    if not len(shown):
        sheet.unlink(missing_ok=True)
        return
    titles = [f"{names[int(test.labels[index])]} → {names[int(answered[index])]}" for index in shown]
    heading = f"{len(wrong)} mistakes, given → answered, the most certain first"
    figures.save(figures.image_grid(to_float(test.images[shown].cpu()), titles, heading), sheet)


def _rows(model: Model, test: ImageSet, scores: Tensor, wrong: Tensor) -> list[list[str]]:
    names, answered, verdicts = model.config.class_names, model.head.decide(scores), model.verdicts(scores)
    return [
        [
            test.files[index] if test.files else str(index),
            names[int(test.labels[index])],
            names[int(answered[index])],
            f"{float(scores[index, answered[index]]):.6g}",
            verdicts[index] or "",
        ]
        for index in wrong.tolist()
    ]
