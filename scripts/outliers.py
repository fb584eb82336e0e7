"""How well the outlier score of a run separates its own test images from others: clothes and noise.

    python scripts/outliers.py runs/mnist/hitnet-s0 runs/mnist/n1-s0 [--data-dir FOLDER] [--out results/outliers]

One row per run. HitNet's score is the distance of the nearest capsule to the centre, N1's is −max softmax. AUROC is the
probability that an outlier gets a larger score than one of the run's own images. Writes OUT.json and OUT.md.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from record import machine, markdown, write
from rich.console import Console
from sklearn.metrics import roc_auc_score
from torch import Tensor

import hitnet
from hitnet.data import load_dataset, to_float
from hitnet.runs.reopen import reopen

console = Console(soft_wrap=True)


def outliers(own: Tensor, data_dir: Path | None) -> dict[str, Tensor]:
    """Images that show no digit, by name: bytes of the same shape as the run's own."""
    generator = torch.Generator().manual_seed(0)
    clothes = load_dataset("fashion-mnist", data_dir=data_dir, image_size=(own.shape[2], own.shape[3]))
    order = torch.rand(own.flatten(1).shape, generator=generator).argsort(dim=1)
    return {
        "Fashion-MNIST": clothes.test.pixels(),
        "uniform noise": torch.randint(256, own.shape, generator=generator, dtype=torch.uint8),
        # The same pixel values in random places.
        "shuffled pixels": own.flatten(1).gather(1, order).view_as(own),
    }


def measure(path: Path, data_dir: Path | None) -> dict[str, Any]:
    opened = reopen(path, "cpu")
    model, settings, result = opened.model, opened.run.read_settings(), opened.run.read_result()
    data = opened.load_data(data_dir=data_dir)
    own = hitnet.outlier_score(model, to_float(data.test.pixels()))
    row: dict[str, Any] = {
        "model": model.config.name,
        "data": data.name,
        "seed": settings.seed,
        "training_images": settings.train_images or len(data.train),
        "epochs": result["epochs"],
        "test_error": result["test"]["error"],
        "command": opened.run.read_environment()["command"],
        "auroc": {},
    }
    for name, images in outliers(data.test.pixels(), data_dir).items():
        scores = torch.cat([own, hitnet.outlier_score(model, to_float(images))])
        is_outlier = torch.arange(len(scores)) >= len(own)
        row["auroc"][name] = float(roc_auc_score(is_outlier, scores))
    return row


def table(rows: list[dict[str, Any]]) -> str:
    names = list(rows[0]["auroc"])
    titles = ["network", "seed", "training images", "epochs", "test error, %", *names]
    lines = []
    for row in rows:
        aurocs = (f"{row['auroc'][name]:.4f}" for name in names)
        trained = (str(row["seed"]), f"{row['training_images']:,}", str(row["epochs"]))
        lines.append([row["model"], *trained, f"{row['test_error']:.2f}", *aurocs])
    return markdown(titles, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/outliers"))
    args = parser.parse_args()
    rows = [measure(path, args.data_dir) for path in args.runs]
    write(args.out, {"machine": machine("the runs' own, and fashion-mnist"), "runs": rows}, table(rows))
    console.print(table(rows), markup=False)
    console.print(f"written to {args.out}.json and {args.out}.md")


if __name__ == "__main__":
    main()
