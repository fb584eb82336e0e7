"""Finished runs as results to keep: their records without the weights, and a table of means.

    python benchmarks/collect.py runs/*/hitnet-fast-s? --out results/hitnet-fast

Copies args.json, env.json, metrics.csv and result.json of each run to OUT/<data>-<model>-s<seed>/ and writes
OUT/README.md: one line for all seeds of the same network, data and settings.
"""

import argparse
import json
import statistics
from pathlib import Path

from hitnet.experiments.statistics import Sample
from hitnet.files import write_text
from hitnet.training.run import Run

RECORDS = ("args.json", "env.json", "metrics.csv", "result.json")
# What differs between the seeds of one experiment, or does not matter for its outcome.
ASIDE = {"seed", "out", "threads", "snapshots", "data_dir"}


def keep(run: Run, folder: Path) -> None:
    """The records of a run, without the place where it was made."""
    for name in RECORDS:
        text = (run.path / name).read_text()
        for place in {run.config.out, run.config.data_dir} - {None}:
            text = text.replace(json.dumps(str(place)), '"runs"')
        write_text(folder / name, text)


def row(runs: list[Run]) -> list[str]:
    results = [run.result for run in runs]
    quality = [result["quality"] for result in results if "quality" in result]
    processor = [result["processor_seconds"] / 60 for result in results]
    return [
        *(runs[0].config.data, runs[0].config.model, (results[0]["decoder"] or "none").removesuffix("Decoder").lower()),
        str(results[0]["epochs"]),
        ", ".join(f"{result['test']['error']:.2f}" for result in results),
        str(Sample(tuple(result["test"]["error"] for result in results))),
        f"{statistics.fmean(found['r2'] for found in quality):.2f}" if quality else "–",
        f"{statistics.fmean(processor):.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    groups: dict[str, list[Run]] = {}
    finished = [run for run in map(Run.open, args.runs) if run.is_finished]
    for run in sorted(finished, key=lambda run: run.config.seed):
        settings = {name: value for name, value in run.config.to_json().items() if name not in ASIDE}
        groups.setdefault(json.dumps(settings), []).append(run)
        keep(run, args.out / f"{run.config.data}-{run.path.name}")
    titles = ["data", "network", "decoder", "epochs", "test errors, %", "mean ± deviation (n)", "R²"]
    titles += ["processor minutes a run"]
    lines = [titles, ["---"] * len(titles), *(row(runs) for runs in groups.values())]
    text = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    write_text(args.out / "README.md", text)
    print(f"{text}\n{len(args.runs) - len(finished)} of {len(args.runs)} runs are not finished and were left out")


if __name__ == "__main__":
    main()
