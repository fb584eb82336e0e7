"""Let an independent network judge what others draw: does it recognise their prototypes and samples?

    python scripts/judge.py runs/mnist/lenet5-s0 runs/mnist/hitnet-s0 … [--per-class 1000] [--out results/judge]

The first run is the judge. The others draw all prototypes and, for each class, samples whose components have the
expected standard deviation m/√n, or half of it. Writes OUT.json and OUT.md.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import hitnet
from hitnet.core.model import Model
from hitnet.files import write_json, write_text
from hitnet.runs.run import Run


def assess(judge: Model, path: Path, per_class: int) -> dict[str, Any]:
    """What the judge recognises of one run's drawings, and the run's own numbers."""
    run, model = Run.open(path), hitnet.load(path)
    result = run.read_result()
    classes = torch.arange(model.head.num_classes)
    recognised = judge.predict(hitnet.prototypes(model)) == classes
    components = result.get("components") or result["features"]  # the name in runs of version 0.1
    return {
        "model": model.config.name,
        "decoder": result["decoder"],
        "seed": run.read_settings().seed,
        "epochs": result["epochs"],
        "test_error": result["test"]["error"],
        "r2": result["quality"]["r2"],
        "component_mean": components["mean"],
        "component_deviation": components["deviation"],
        "prototypes": int(recognised.sum()),
        "mistaken": [model.config.class_names[index] for index in classes[~recognised]],
        "samples": recognised_samples(judge, model, per_class, model.head.unit).tolist(),
        "samples_half_spread": recognised_samples(judge, model, per_class, model.head.unit / 2).tolist(),
    }


def recognised_samples(judge: Model, model: Model, per_class: int, spread: float) -> Tensor:
    """The fraction of each class's samples that the judge recognises: -> (classes,)."""
    generator = torch.Generator().manual_seed(0)
    shares = [
        (judge.predict(hitnet.sample(model, index, per_class, spread, generator=generator)) == index).float().mean()
        for index in range(model.head.num_classes)
    ]
    return torch.stack(shares)


def table(rows: list[dict[str, Any]], judge_name: str) -> str:
    """A Markdown table, one line per run."""
    titles = ["network", "decoder", "seed", "test error, %", "R²", "component mean ± deviation"]
    titles += [f"prototypes that {judge_name} recognises", "samples, %", "samples of half the spread, %"]
    lines = [titles, ["---"] * len(titles)]
    for row in rows:
        mistaken = f" (not {', '.join(row['mistaken'])})" if row["mistaken"] else ""
        lines.append(
            [
                *(row["model"], row["decoder"].removesuffix("Decoder").lower(), str(row["seed"])),
                *(f"{row['test_error']:.2f}", f"{row['r2']:.2f}"),
                f"{row['component_mean']:.4f} ± {row['component_deviation']:.4f}",
                f"{row['prototypes']} of {len(row['samples'])}{mistaken}",
                *(f"{100 * sum(row[name]) / len(row[name]):.1f}" for name in ("samples", "samples_half_spread")),
            ]
        )
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judge", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--per-class", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("results/judge"))
    options = parser.parse_args()
    judge, run = hitnet.load(options.judge), Run.open(options.judge)
    name = f"{run.read_settings().model} ({run.read_result()['test']['error']:.2f} % test error)"
    rows = [assess(judge, path, options.per_class) for path in options.runs]
    write_json(options.out.with_suffix(".json"), {"judge": name, "per_class": options.per_class, "runs": rows})
    write_text(options.out.with_suffix(".md"), table(rows, name))
    print(table(rows, name))


if __name__ == "__main__":
    main()
