"""How the README's command does on small picture folders, beside simple classifiers on the same pixels and split.

    python scripts/small_sets.py FOLDER … [--seeds 3] [--runs runs] [--out results/small-sets]

Trains `hitnet train --data FOLDER --image-size 32` for each seed, or takes the finished run that is there. One row per
folder; errors in %, mean ± standard deviation over the seeds. Writes OUT.json and OUT.md after every run.
"""

import argparse
import warnings
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from rich.console import Console
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import hitnet
from hitnet.data import load_dataset
from hitnet.files import write_json, write_text
from hitnet.runs.environment import describe_environment
from hitnet.runs.run import Run

SIDE = 32
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
    run = Run.named(config.resolve(), folder.name)
    if not run.is_finished:
        run = hitnet.resume(run.path) if run.state_file.is_file() else hitnet.train(config, overwrite=True)
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
    lines = [titles, ["---", *["---:"] * (len(titles) - 1)]]
    for row in rows:
        errors = [run["error"] for run in row["runs"]]
        spread = f" ± {stdev(errors):.1f}" if len(errors) > 1 else ""
        own = f"{fmean(errors):.1f}{spread}"
        best = fmean(errors) <= min(row["simple"].values())
        hit = 100 * fmean(run["prototypes_hit"] for run in row["runs"])
        minutes = fmean(run["processor_seconds"] for run in row["runs"]) / 60
        simple = [f"{error:.1f}" for error in row["simple"].values()]
        pictures = f"{row['train']} + {row['test']}"
        cells = [row["folder"], pictures, str(row["classes"]), f"**{own}**" if best else own, *simple]
        lines.append([*cells, f"{hit:.0f} %", f"{minutes:.1f}"])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, default=Path("results/small-sets"))
    args = parser.parse_args()
    machine = describe_environment(torch.device("cpu"), torch.float32, 1, {"data": "picture folders"})
    rows = []
    for folder in args.folders:
        data = load_dataset(str(folder), image_size=SIDE)
        row = {"folder": folder.name, "train": len(data.train), "test": len(data.test), "classes": data.num_classes}
        rows.append({**row, "simple": simple_errors(folder), "runs": []})
        for seed in range(args.seeds):
            rows[-1]["runs"].append(trained(folder, seed, args.runs))
            write_json(args.out.with_suffix(".json"), {"machine": machine, "sets": rows})
            write_text(args.out.with_suffix(".md"), table(rows))
            console.print(f"{folder.name}, seed {seed}: {rows[-1]['runs'][-1]['error']:.1f} %")
    console.print(table(rows), markup=False)


if __name__ == "__main__":
    main()
