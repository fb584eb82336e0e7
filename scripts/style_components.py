"""Do components that only the decoder uses explain more? The paper's future work, tried with hitnet-fast.

    python scripts/style_components.py [--data NAME …] [--data-dir FOLDER] [--out results/style-components]

Two networks: capsules of 16 components, and the same with 16 of style (`--style-dim 16`). Each is trained on 10,000
images of each data set for 6 epochs, three seeds, without the finishing phase. What OUT.json holds already is not
measured again; OUT.md has one row per data set and network, mean ± standard deviation of the seeds.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from record import machine, markdown, mean, write
from rich.console import Console

import hitnet
from hitnet.files import read_json

NETWORKS = {"16": 0, "16 + 16 of style": 16}
"""Components of style."""
SEEDS, IMAGES, EPOCHS = (0, 1, 2), 10_000, 6
MEASURES = {
    "error": "error, %",
    "r2": "R²",
    "capsule_gain": "the strongest of the capsule adds",
    "style_gain": "the strongest of the style adds",
}

console = Console(soft_wrap=True)
Row = dict[str, Any]


def measure(data: str, network: str, seed: int, data_dir: Path | None) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        config = hitnet.TrainConfig(
            data=data,
            data_dir=data_dir,
            model="hitnet-fast",
            train_images=IMAGES,
            epochs=EPOCHS,
            validation=0.0,
            finishing=0.0,
            no_exemplars=True,
            seed=seed,
            out=Path(folder),
            style_dim=NETWORKS[network],
        )
        result = hitnet.train(config).read_result()
    quality, counted = result["quality"], config.capsule_dim
    gains = quality["component_gain"]
    return {
        "data": data,
        "network": network,
        "seed": seed,
        "error": result["test"]["error"],
        "r2": quality["r2"],
        "capsule_gain": max(gains[:counted]),
        "style_gain": max(gains[counted:], default=None),
        "processor_seconds": result["processor_seconds"],
    }


def table(rows: list[Row]) -> str:
    lines = []
    for data in dict.fromkeys(row["data"] for row in rows):
        for network in NETWORKS:
            of_kind = [row for row in rows if (row["data"], row["network"]) == (data, network)]
            if of_kind:
                cells = [mean([row[name] for row in of_kind if row[name] is not None], 3) for name in MEASURES]
                lines.append([data, network, str(len(of_kind)), *cells])
    return markdown(["data", "components", "seeds", *MEASURES.values()], lines, left=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["fashion-mnist", "cifar10"])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/style-components"))
    args = parser.parse_args()
    file = args.out.with_suffix(".json")
    content: Row = read_json(file) if file.exists() else {"machine": machine("as in the rows"), "rows": []}
    rows: list[Row] = content["rows"]
    for data in args.data:
        for seed in SEEDS:
            for network in NETWORKS:
                if any((row["data"], row["network"], row["seed"]) == (data, network, seed) for row in rows):
                    continue
                rows.append(measure(data, network, seed, args.data_dir))
                write(args.out, content, table(rows))
    console.print(table(rows), markup=False)


if __name__ == "__main__":
    main()
