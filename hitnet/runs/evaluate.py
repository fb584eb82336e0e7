"""Evaluate the network of a run, or several together, and write the numbers into the (first) run's folder."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from hitnet.core.heads import Head
from hitnet.data import Dataset, ImageSet, list_datasets, to_float
from hitnet.files import write_json, write_table
from hitnet.runs.committee import open_committee
from hitnet.runs.reopen import Reopened, data_for, is_same_source, reopen
from hitnet.runs.run import Run
from hitnet.settings import ModelConfig
from hitnet.training.evaluation import all_scores, count_mistakes, evaluate, judge

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
    model, data, facts, name = opened.model, *_test_data(opened, source, data_dir, skip_bad)
    content = {**facts, **evaluate(model, data.test.to(model.device)).to_json(model.config.class_names)}
    file = opened.run.evaluation_file(name)
    write_json(file, content)
    mistakes = file.with_name(f"{file.stem}-mistakes.csv")
    private = opened.run.read_settings().no_exemplars
    write_mistakes(model.head, model.config, all_scores(model, data.test), data.test, mistakes, sheet=not private)
    return content, file


def evaluate_committee(
    paths: Sequence[Path],
    source: str | None = None,
    data_dir: Path | None = None,
    device: str = "auto",
    skip_bad: bool = False,
    views: int = 1,
) -> tuple[dict[str, Any], Path]:
    """The same for several runs, or several views of each image; the numbers go to the first run's folder."""
    committee = open_committee(paths, views, device)
    runs = [Run.open(path) for path in paths]
    # Whoever was trained on these data knows which of the images are for testing.
    ours = [is_same_source(source, run.read_settings().data) for run in runs] if source else []
    place = ours.index(True) if any(ours) else 0
    data, facts, name = _test_data(Reopened(runs[place], committee.members[place].model), source, data_dir, skip_bad)
    for run in runs:
        _check_trained_on(run, runs[place], source, data)
    each, names, labels = committee.each_scores(data.test), committee.config.class_names, data.test.labels.cpu()
    scores = each.mean(0)
    content = {
        **facts,
        "views": views,
        "members": [
            {"run": str(member.path), "error": judge(committee.head, own, labels).error}
            for member, own in zip(committee.members, each, strict=True)
        ],
        **judge(committee.head, scores, labels).to_json(names),
    }
    # Unlike the loss in a single network's file, this one leaves out the reconstruction.
    content["classification_loss"] = content.pop("loss")
    if len(paths) > 1:
        members = "\n".join(str(path.resolve()) for path in paths)
        name += f"-committee-{hashlib.sha256(members.encode()).hexdigest()[:8]}"
    file = runs[0].evaluation_file(f"{name}-views-{views}" if views > 1 else name)
    write_json(file, content)
    mistakes = file.with_name(f"{file.stem}-mistakes.csv")
    private = any(run.read_settings().no_exemplars for run in runs)
    write_mistakes(committee.head, committee.config, scores, data.test, mistakes, sheet=not private)
    return content, file


def _test_data(
    opened: Reopened, source: str | None, data_dir: Path | None, skip_bad: bool
) -> tuple[Dataset, dict[str, Any], str]:
    """The data to evaluate on, what the numbers' file says of them, and how they are called in its name."""
    own = opened.run.read_settings().data
    source = source or own
    data = data_for(opened.run, opened.model, source, data_dir, test_fraction=None, skip_bad=skip_bad)
    # A user's folder or file may have the same name as the run's own data.
    foreign = source not in list_datasets() and not is_same_source(source, own)
    name = f"{data.name}-{data.fingerprint[:8]}" if foreign else data.name
    return data, {"data": data.name, "source": source, "notes": list(data.notes)}, name


def _check_trained_on(run: Run, first: Run, source: str | None, data: Dataset) -> None:
    """Test images of one member must not be training images of another."""
    own, others = run.read_settings().data, first.read_settings().data
    if is_same_source(source or others, own):
        if run.read_environment().get("data") != data.fingerprint:
            raise ValueError(
                f"{run.path} was trained on other images of {own} than {first.path} (another --fit, --test-fraction, "
                "--fold or --corrections), so its training images may be among the test images; leave it out"
            )
    elif source is None:
        raise ValueError(
            f"{run.path} was trained on {own}, {first.path} on {others}; "
            "give runs trained on the same data, or choose the test images with --data"
        )


def write_mistakes(
    head: Head, config: ModelConfig, scores: Tensor, test: ImageSet, path: Path, *, sheet: bool = True
) -> None:
    """PATH: every misclassified image, the most certain first; beside it, with `sheet`, the first hundred of them."""
    from hitnet.interpret import figures  # matplotlib takes a while to load

    names, answered, unusual = config.class_names, head.decide(scores), head.outlier_score(scores)
    wrong = (answered != test.labels.cpu()).nonzero()[:, 0]
    wrong = wrong[unusual[wrong].argsort(stable=True)]
    verdicts = head.verdicts(scores, config.radii)
    rows = [
        [
            test.files[index] if test.files else str(index),
            names[int(test.labels[index])],
            names[int(answered[index])],
            f"{float(scores[index, answered[index]]):.6g}",
            verdicts[index] or "",
        ]
        for index in wrong.tolist()
    ]
    write_table(path, [["file" if test.files else "image", "given", "answered", "score", "verdict"], *rows])
    shown, picture = wrong[:MOST_SHOWN], path.with_suffix(".png")
    if not len(shown) or not sheet:
        picture.unlink(missing_ok=True)
        return
    pairs = [(names[int(test.labels[index])], names[int(answered[index])]) for index in shown]
    between = " → " if max(len(given) + len(other) for given, other in pairs) <= 10 else "\n→ "
    titles = [between.join(pair) for pair in pairs]
    heading = f"{count_mistakes(len(wrong))}, given → answered, the most certain first"
    figures.save(figures.image_grid(to_float(test.images[shown].cpu()), titles, heading), picture)
