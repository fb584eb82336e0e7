"""How the README's command does on small picture folders, beside simple classifiers on the same pixels and split.

    python scripts/small_sets.py FOLDER … [--seeds 3] [--runs runs] [--out results/small-sets]
    python scripts/small_sets.py FOLDER … --steps 200 400 800 1600 --out results/small-sets-steps

Trains `hitnet train --data FOLDER --image-size 32` for each seed, or takes the finished run that is there. One row per
folder; errors in %, mean ± standard deviation over the seeds. Writes OUT.json and OUT.md after every run.

With --steps, compares numbers of steps: a fifth of the training pictures is held out, and the error on it is measured
after training for each number of steps, without the finishing phase. The test pictures have no part in it.
"""

import argparse
import math
import warnings
from pathlib import Path
from statistics import fmean
from typing import Any

from record import machine, markdown, mean, write
from rich.console import Console
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import hitnet
from hitnet.data import load_dataset
from hitnet.defaults import usual_budget
from hitnet.runs.run import Run
from hitnet.runs.train import resume

SIDE, HELD_OUT = 32, 0.2
SIMPLE = {
    "logistic regression": lambda: LogisticRegression(max_iter=300),
    "random forest": lambda: RandomForestClassifier(100, random_state=0),
    "5 nearest": lambda: KNeighborsClassifier(5),
}
console = Console(soft_wrap=True)


def simple_errors(folder: Path) -> dict[str, float]:
    """The test error of each simple classifier, in %."""
    data = load_dataset(str(folder), image_size=SIDE)
    train, test = ((part.pixels().flatten(1).numpy() / 255, part.labels.numpy()) for part in (data.train, data.test))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # logistic regression stops before its optimum; more iterations change nothing
        return {name: 100 * (1 - make().fit(*train).score(*test)) for name, make in SIMPLE.items()}


def trained(folder: Path, seed: int, runs: Path) -> dict[str, Any]:
    """What the network reached: the finished run's, or that of a new one."""
    config = hitnet.TrainConfig(data=str(folder), image_size=SIDE, seed=seed, out=runs)
    run = _run(config, folder)
    result, settings = run.read_result(), run.read_settings()
    return {
        "seed": seed,
        "settings": {name: getattr(settings, name) for name in ("batch_size", "epochs", "augment", "validation")},
        "error": result["test"]["error"],
        "balanced_error": result["test"]["balanced_error"],
        "test_images": result["test"]["images"],
        "prototypes_hit": result["quality"]["prototypes_hit"],
        "r2": result["quality"]["r2"],
        "processor_seconds": sum(part.get("processor_seconds", 0) for part in (result, result.get("finishing", {}))),
    }


def held_out(folder: Path, steps: int, seed: int, runs: Path) -> float:
    """The error on held-out training pictures after about so many steps, in %."""
    data = load_dataset(str(folder), image_size=SIDE)
    count = round((1 - HELD_OUT) * len(data.train))
    batch = usual_budget(count)["batch_size"]
    config = hitnet.TrainConfig(
        data=str(folder),
        image_size=SIDE,
        batch_size=batch,
        epochs=math.ceil(steps / math.ceil(count / batch)),
        validation=HELD_OUT,
        finishing=0.0,
        seed=seed,
        out=runs / f"{steps}-steps",
    )
    return _run(config, folder).read_metrics()[-1]["validation_error"]


def _run(config: hitnet.TrainConfig, folder: Path) -> Run:
    """The finished run of that name, or a new one."""
    run = Run.named(config.resolve(), folder.name)
    if run.is_finished:
        return run
    return resume(run.path) if run.state_file.is_file() else hitnet.train(config, overwrite=True)


def steps_table(rows: list[dict[str, Any]]) -> str:
    counts = list(rows[0]["errors"])
    titles = ["folder", "training pictures", *(f"{count} steps" for count in counts)]
    lines = [
        [row["folder"], str(row["train"]), *(mean(errors, 1) for errors in row["errors"].values())] for row in rows
    ]
    return markdown(titles, lines)


def table(rows: list[dict[str, Any]]) -> str:
    titles = [
        "folder",
        "pictures",
        "classes",
        "hitnet-fast",
        *SIMPLE,
        "prototypes that hit their class alone",
        "minutes",
    ]
    lines = []
    for row in rows:
        errors = [run["error"] for run in row["runs"]]
        own = mean(errors, 1)
        best = fmean(errors) <= min(row["simple"].values())
        hit = 100 * fmean(run["prototypes_hit"] for run in row["runs"])
        minutes = fmean(run["processor_seconds"] for run in row["runs"]) / 60
        simple = [f"{error:.1f}" for error in row["simple"].values()]
        pictures = f"{row['train']} + {row['test']}"
        cells = [row["folder"], pictures, str(row["classes"]), f"**{own}**" if best else own, *simple]
        lines.append([*cells, f"{hit:.0f} %", f"{minutes:.1f}"])
    return markdown(titles, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, default=Path("results/small-sets"))
    parser.add_argument("--steps", nargs="+", type=int, metavar="COUNT")
    args = parser.parse_args()
    about, show = machine("picture folders"), steps_table if args.steps else table
    rows: list[dict[str, Any]] = []
    for folder in args.folders:
        data = load_dataset(str(folder), image_size=SIDE)
        row = {"folder": folder.name, "train": len(data.train), "test": len(data.test), "classes": data.num_classes}
        rows.append(row | ({"errors": {}} if args.steps else {"simple": simple_errors(folder), "runs": []}))
        for seed in range(args.seeds):
            for steps in args.steps or [None]:
                if steps is None:
                    rows[-1]["runs"].append(found := trained(folder, seed, args.runs))
                    error = found["error"]
                else:
                    error = held_out(folder, steps, seed, args.runs)
                    rows[-1]["errors"].setdefault(str(steps), []).append(error)
                console.print(f"{folder.name}, seed {seed}{'' if steps is None else f', {steps} steps'}: {error:.1f} %")
                write(args.out, {"machine": about, "sets": rows}, show(rows))
    console.print(show(rows), markup=False)


if __name__ == "__main__":
    main()
