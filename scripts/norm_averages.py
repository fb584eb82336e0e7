"""Are short runs judged by stale averages? Test errors with BatchNorm's averages as saved, and computed anew.

    python scripts/norm_averages.py RUN … [--data-dir FOLDER] [--out results/norm-averages]

While training, the averages move; after few steps they still contain the first weights. For each run: the test error as
saved, and after the averages were computed anew over the run's own training images (what `--refresh-norm` does before
each evaluation). The weights stay the same. Writes OUT.json and OUT.md.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from record import machine, markdown, write

from hitnet.data.batches import balanced_order
from hitnet.runs.reopen import reopen, split
from hitnet.training.evaluation import evaluate
from hitnet.training.statistics import refresh_norm

TITLES = ["network", "data", "rate", "seed", "training images", "epochs", "error as saved, %", "averages anew, %"]


def measure(path: Path, data_dir: Path | None) -> dict[str, Any]:
    opened = reopen(path, "cpu")
    data, settings, model = opened.load_data(data_dir=data_dir), opened.run.read_settings(), opened.model
    if settings.freeze:
        raise SystemExit(f"{path} has a frozen encoder, whose averages must stay; leave it out")
    training, _ = split(data, settings)
    as_saved = evaluate(model, data.test).error
    shuffled = torch.Generator().manual_seed(0)
    order = balanced_order(training.labels, shuffled) if settings.balance else None
    refresh_norm(model, training.images, order)
    return {
        "model": settings.model,
        "data": data.name,
        "schedule": settings.schedule,
        "seed": settings.seed,
        "training_images": len(training),
        "epochs": settings.epochs,
        "norm_momentum": settings.norm_momentum,
        "as_saved": as_saved,
        "anew": evaluate(model, data.test).error,
    }


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        [
            *(row["model"], row["data"], row["schedule"], str(row["seed"])),
            *(f"{row['training_images']:,}", str(row["epochs"])),
            *(f"{row[name]:.2f}" for name in ("as_saved", "anew")),
        ]
        for row in rows
    ]
    return markdown(TITLES, lines, left=3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/norm-averages"))
    args = parser.parse_args()
    rows = [measure(path, args.data_dir) for path in args.runs]
    write(args.out, {"machine": machine("the runs' own"), "runs": rows}, table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
