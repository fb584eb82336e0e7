"""Do components that only the decoder uses explain more? The paper's future work, tried with hitnet-fast.

    python scripts/decoder_components.py [--data NAME …] [--data-dir FOLDER] [--out results/decoder-components]

Three networks: 16 components; 16 and 16 more that have no say in the distance; 32 that all have. Each is trained on
10,000 images of each data set for 6 epochs, three seeds, without the finishing phase. What OUT.json
holds already is not measured again; OUT.md has one row per data set and network, mean ± standard deviation of the
seeds.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from unittest.mock import patch

import torch
from rich.console import Console
from torch import Tensor

import hitnet
from hitnet.core.heads import HitOrMissHead
from hitnet.core.loss import CentripetalLoss, distance_to_centre
from hitnet.files import read_json, write_json, write_text
from hitnet.runs.environment import describe_environment

NETWORKS = {"16": (16, 16), "16 + 16 of the decoder alone": (32, 16), "32": (32, 32)}
"""Components in all, and those that count for the distance."""
SEEDS, IMAGES, EPOCHS = (0, 1, 2), 10_000, 6
MEASURES = {"error": "error, %", "r2": "R²"}

console = Console(soft_wrap=True)
Row = dict[str, Any]


@contextmanager
def counting(components: int) -> Iterator[None]:
    """Networks built and used meanwhile measure distances in their first components only."""
    build = HitOrMissHead.__init__

    def init(head: HitOrMissHead, num_features: int, config: Any) -> None:
        build(head, num_features, config)
        head.centripetal = CentripetalLoss(components, config.hit_radius, config.miss_radius, shape=config.loss_shape)

    def score(_: HitOrMissHead, capsules: Tensor) -> Tensor:
        return distance_to_centre(capsules[..., :components])

    with patch.object(HitOrMissHead, "__init__", init), patch.object(HitOrMissHead, "score", score):
        yield


def measure(data: str, network: str, seed: int, data_dir: Path | None) -> Row:
    components, counted = NETWORKS[network]
    with counting(counted), tempfile.TemporaryDirectory() as folder:
        config = hitnet.TrainConfig(
            data=data,
            data_dir=data_dir,
            model="hitnet-fast",
            capsule_dim=components,
            train_images=IMAGES,
            epochs=EPOCHS,
            validation=0.0,
            finishing=0.0,
            no_exemplars=True,
            seed=seed,
            out=Path(folder),
        )
        result = hitnet.train(config).read_result()
    quality = result["quality"]
    return {
        "data": data,
        "network": network,
        "seed": seed,
        "error": result["test"]["error"],
        "r2": quality["r2"],
        "prototypes_hit": quality["prototypes_hit"],
        "processor_seconds": result["processor_seconds"],
    }


def table(rows: list[Row]) -> str:
    lines = [["data", "components", "seeds", *MEASURES.values()], ["---", "---", *["---:"] * (1 + len(MEASURES))]]
    for data in dict.fromkeys(row["data"] for row in rows):
        for network in NETWORKS:
            of_kind = [row for row in rows if (row["data"], row["network"]) == (data, network)]
            if of_kind:
                cells = [_mean([row[name] for row in of_kind]) for name in MEASURES]
                lines.append([data, network, str(len(of_kind)), *cells])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _mean(values: list[float]) -> str:
    return f"{fmean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["fashion-mnist", "cifar10"])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/decoder-components"))
    args = parser.parse_args()
    file = args.out.with_suffix(".json")
    rows: list[Row] = read_json(file)["rows"] if file.exists() else []
    for data in args.data:
        for seed in SEEDS:
            for network in NETWORKS:
                if any((row["data"], row["network"], row["seed"]) == (data, network, seed) for row in rows):
                    continue
                rows.append(measure(data, network, seed, args.data_dir))
                machine = describe_environment(torch.device("cpu"), torch.float32, 1, {"data": data})
                write_json(file, {"machine": machine, "rows": rows})
                write_text(args.out.with_suffix(".md"), table(rows))
    console.print(table(rows), markup=False)


if __name__ == "__main__":
    main()
