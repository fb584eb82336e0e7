"""What pretrained weights are worth with few photographs: CIFAR-10 with 10, 50 and 250 pictures per class.

    python scripts/pretrained.py lite0.safetensors [--data-dir FOLDER] [--out results/pretrained]

`lite0.safetensors` is written by scripts/convert_efficientnet_lite0.py. A new hitnet-fast, on the pictures as they are,
against the frozen timm/tf_efficientnet_lite0, on enlarged ones; both are trained with their own defaults, but for the
finishing phase, which does not change the error. The size is the one with the lowest error on training pictures that
are not used otherwise. A seed chooses the training pictures, too. The error is that on the first 2,000 test pictures.
Minutes are those of the processor for training and for looking at the training pictures. What OUT.json holds already is
not measured again; OUT.md has one row per number of pictures, mean ± standard deviation of the seeds.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from record import machine, markdown, mean, write
from rich.console import Console

from hitnet.data import Dataset, ImageSet, load_dataset, stratified_subset
from hitnet.files import read_json, write_json
from hitnet.runs.train import prepare
from hitnet.settings import TrainConfig
from hitnet.training.evaluation import evaluate
from hitnet.training.frozen import FrozenModel, look
from hitnet.training.loop import train_epochs

NETWORK, SIZES = "timm/tf_efficientnet_lite0", (96, 128, 160)
PER_CLASS, SEEDS, TESTED, HELD_OUT = (10, 50, 250), (0, 1, 2), 2_000, 500
FRESH, FROZEN = "hitnet-fast", "frozen"

console = Console(soft_wrap=True)
Row = dict[str, Any]


def write_pictures(data: Dataset, per_class: int, seed: int, held_out: bool, file: Path) -> None:
    """So many training pictures of each class, and pictures to measure the error on, as an .npz."""
    count = data.num_classes * per_class
    order = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(seed))
    shuffled = data.train.subset(order)
    chosen = stratified_subset(shuffled.labels, count, torch.Generator().manual_seed(seed))
    rest = torch.ones(len(shuffled), dtype=torch.bool)
    rest[chosen] = False
    test = shuffled.subset(rest.nonzero()[:HELD_OUT, 0]) if held_out else data.test.subset(torch.arange(TESTED))
    train = shuffled.subset(chosen)
    np.savez(
        file,
        x_train=train.pixels().numpy(),
        y_train=train.labels.numpy(),
        x_test=test.pixels().numpy(),
        y_test=test.labels.numpy(),
        class_names=np.array(data.class_names),
    )


def measure(file: Path, network: str, size: int, seed: int, weights: Path, seen: Path) -> Row:
    """Train on the pictures of a file, and measure the error; `seen` keeps the features of test pictures."""
    config = TrainConfig(data=str(file), model=FRESH, seed=seed, finishing=0.0, threads=1, device="cpu")
    if network == FROZEN:
        config = replace(config, model=NETWORK, image_size=size, pretrained=str(weights), freeze=True)
    with prepare(config) as (job, _), tempfile.TemporaryDirectory() as folder:
        test, model = job.held_out["test"], job.state.model
        job = replace(job, held_out={})  # nothing is measured between epochs
        if isinstance(model, FrozenModel):
            _look_at_tests(model, test, seen / str(size))
        began = time.process_time()
        if isinstance(model, FrozenModel):
            look(model, job.batches.data, [], False, Path(folder))
        train_epochs(job, [])
        minutes = (time.process_time() - began) / 60
        error = evaluate(job.state.kept_model, test).error
    return {"error": error, "minutes": minutes, "epochs": job.settings.epochs, "tested": len(test)}


def _look_at_tests(model: FrozenModel, test: ImageSet, folder: Path) -> None:
    """The same for every run, and not counted in its time."""
    look(model, test, [], False, folder)


def table(rows: list[Row]) -> str:
    size = next((row["size"] for row in rows if row["network"] == FROZEN), "–")
    titles = ["pictures per class", "seeds", "new hitnet-fast, error, %", "minutes"]
    titles += [f"frozen {NETWORK} at {size} px, error, %", "minutes"]
    lines = []
    for per_class in PER_CLASS:
        found = {name: _of(rows, per_class, name) for name in (FRESH, FROZEN)}
        if not any(found.values()):
            continue
        cells = [text for runs in found.values() for text in _means(runs)]
        lines.append([str(per_class), str(min(map(len, found.values()))), *cells])
    return markdown(titles, lines, left=0)


def _of(rows: list[Row], per_class: int, network: str) -> list[Row]:
    return [row for row in rows if (row["per_class"], row["network"]) == (per_class, network)]


def _means(runs: list[Row]) -> tuple[str, str]:
    """Error with its spread, and minutes."""
    minutes = f"{fmean(run['minutes'] for run in runs):.1f}" if runs else "–"
    return mean([run["error"] for run in runs], 1), minutes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/pretrained"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    file = args.out.with_suffix(".json")
    found: Row = read_json(file) if file.is_file() else {"machine": machine("cifar10"), "sizes": [], "runs": []}
    data = load_dataset("cifar10", data_dir=args.data_dir)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        pictures = folder / "pictures.npz"
        for size in SIZES:
            if size not in [row["size"] for row in found["sizes"]]:
                write_pictures(data, 50, 0, True, pictures)
                row = measure(pictures, FROZEN, size, 0, args.weights, folder / "held-out")
                found["sizes"].append({"size": size, **row})
                console.print(found["sizes"][-1])
                write_json(file, found)
        best = min(found["sizes"], key=lambda row: row["error"])["size"]
        for seed in SEEDS:
            for per_class in PER_CLASS:
                for network, size in ((FROZEN, best), (FRESH, 32)):
                    who = {"network": network, "size": size, "per_class": per_class, "seed": seed}
                    if any(who.items() <= row.items() for row in found["runs"]):
                        continue
                    write_pictures(data, per_class, seed, False, pictures)
                    found["runs"].append(who | measure(pictures, network, size, seed, args.weights, folder / "seen"))
                    console.print(found["runs"][-1])
                    write(args.out, found, table(found["runs"]))
    console.print(table(found["runs"]), markup=False)


if __name__ == "__main__":
    main()
