"""What the verdicts of calibrated runs are worth: on their own test images, and on images of another kind.

    python scripts/verdicts.py runs/*/hitnet-fast-s? [--data-dir FOLDER] [--out results/verdicts]

One row per data set, mean ± standard deviation of its runs. *Covered*: the true class lies within its radius. Images of
another kind are the test images of another data set. Writes OUT.json and OUT.md.
"""

import argparse
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from record import machine, markdown, mean, write
from rich.console import Console

import hitnet
from hitnet.data import load_dataset, to_float
from hitnet.interpret.verdicts import count_verdicts
from hitnet.runs.reopen import reopen
from hitnet.training.evaluation import all_scores

console = Console(soft_wrap=True)

# Of the same size and colours, but other things.
STRANGE = {
    "mnist": "fashion-mnist",
    "mnist-mini": "fashion-mnist",
    "fashion-mnist": "mnist",
    "cifar10": "svhn",
    "svhn": "cifar10",
}


def measure(path: Path, data_dir: Path | None) -> dict[str, Any]:
    opened = reopen(path, "cpu")
    model, config, settings = opened.model, opened.model.config, opened.run.read_settings()
    if config.radii is None:
        raise ValueError(f"{path} is not calibrated; calibrate it with: hitnet calibrate {path}")
    data = opened.load_data(data_dir=data_dir)
    row: dict[str, Any] = {
        "data": data.name,
        "seed": settings.seed,
        "settings": {name: getattr(settings, name) for name in ("epochs", "validation", "train_images")},
        "test_error": opened.run.read_result()["test"]["error"],
        "coverage": config.coverage,
        "calibrated_on": config.calibrated_on,
        "radii": config.radii,
        "verdicts": asdict(count_verdicts(model, all_scores(model, data.test), data.test.labels)),
        "strange": None,
    }
    if (name := STRANGE.get(data.name)) is not None:
        given = hitnet.verdicts(model, to_float(load_dataset(name, data_dir=data_dir).test.pixels()))
        row["strange"] = {"data": name, "images": len(given), "unknown": given.count("unknown")}
    return row


def table(rows: list[dict[str, Any]]) -> str:
    titles = ["data", "runs", "test error, %", "covered, %", "sure, %", "wrong among sure, %", "ambiguous, %"]
    titles += ["unknown, %", "classes within, mean", "of another kind: called unknown, %"]
    lines = []
    groups = defaultdict(list)
    for row in rows:
        groups[row["data"]].append(row)
    for data, runs in groups.items():
        shares = [_shares(row) for row in runs]
        columns = [mean([share[name] for share in shares], 2) for name in list(shares[0])[:-1]]
        strange = runs[0]["strange"]
        called = "–" if strange is None else f"{mean([share['strange'] for share in shares], 2)} ({strange['data']})"
        lines.append([data, str(len(runs)), *columns, called])
    return markdown(titles, lines)


def _shares(row: dict[str, Any]) -> dict[str, float]:
    found, strange = row["verdicts"], row["strange"]
    return {
        "error": row["test_error"],
        **{name: 100 * found[name] / found["images"] for name in ("covered", "sure")},
        "wrong": 100 * found["sure_mistakes"] / max(1, found["sure"]),
        **{name: 100 * found[name] / found["images"] for name in ("ambiguous", "unknown")},
        "candidates": found["mean_candidates"],
        "strange": 100 * strange["unknown"] / strange["images"] if strange else 0.0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/verdicts"))
    args = parser.parse_args()
    rows = [measure(path, args.data_dir) for path in args.runs]
    write(args.out, {"machine": machine("the runs' own, and others"), "runs": rows}, table(rows))
    console.print(table(rows), markup=False)
    console.print(f"written to {args.out}.json and {args.out}.md")


if __name__ == "__main__":
    main()
