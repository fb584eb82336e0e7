"""Collect finished runs as results to keep: their records without the weights, and a table of means.

    python scripts/collect.py runs/*/hitnet-fast-s? --out results/hitnet-fast

Copies args.json, env.json, metrics.csv and result.json of each run to OUT/<data>-<model>-<decoder>-s<seed>/ and writes
OUT/README.md: one line for all seeds of the same network, data and settings, and below the table what is unusual in
all of them. Where runs differ in other settings, the name of the folder that each was written to (`--out`) is added to
its name.
"""

import argparse
import json
import os
import re
import statistics
from pathlib import Path
from typing import Any

from record import markdown

from hitnet.experiments.significance import Errors
from hitnet.files import read_json, write_json, write_text
from hitnet.runs.run import Run
from hitnet.settings import RunSettings, TrainConfig

# Settings that differ between the seeds of one experiment, or do not affect its outcome.
ASIDE = {"seed", "out", "threads", "snapshots", "data_dir", "cache"}
TITLES = ["data", "network", "decoder", "epochs", "other settings", "test errors, %", "mean ± deviation (n)", "R²"]
TITLES += ["CPU minutes per run"]
OTHERS = TITLES.index("other settings")


def decoder(run: Run) -> str:
    return (run.read_result()["decoder"] or "none").removesuffix("Decoder").lower()


def settings(config: RunSettings) -> dict[str, Any]:
    found = {name: value for name, value in config.to_json().items() if name not in ASIDE}
    # Each seed may have a teacher of its own.
    teacher = config.teacher and re.sub(r"-s\d+$", "", config.teacher.name)
    pretrained, corrections = (place and Path(place).name for place in (config.pretrained, config.corrections))
    return found | {"pretrained": pretrained, "corrections": corrections, "teacher": teacher}


def unusual(config: RunSettings) -> list[str]:
    """The settings that differ from the network's defaults and have no column of their own."""
    usual = settings(TrainConfig(data=config.data, model=config.model).resolve())
    usual |= {"epochs": config.epochs, "decoder": config.decoder}
    others = {name: value for name, value in settings(config).items() if value != usual[name]}
    return [worded(name.replace("_", " "), value) for name, value in others.items()]


def worded(name: str, value: Any) -> str:
    if value is True:
        return name
    if value is False or value is None:
        return f"no {name}"
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"


def keep(run: Run, folder: Path) -> None:
    """Copy the records of a run, with the paths of this machine replaced."""
    config = run.read_settings()
    own = {str(place): f"runs/{Path(place).name}" for place in (config.pretrained, config.teacher) if place}
    own |= {str(place): Path(place).name for place in (config.data, config.corrections) if place}
    own |= {str(config.out): "runs", str(config.data_dir): "data", str(config.cache): "cache"}

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: replaced(each) for name, each in value.items()}
        if isinstance(value, list):
            return [replaced(each) for each in value]
        if not isinstance(value, str):
            return value
        option, _, place = value.rpartition("=") if value.startswith("--") else ("", "", value)
        short = own.get(os.path.normpath(place)) if os.path.isabs(place) else None
        return value if short is None else f"{option}={short}" if option else short

    for file in run.records:
        if file.suffix == ".json":
            write_json(folder / file.name, replaced(read_json(file)))
        else:
            write_text(folder / file.name, file.read_text())


def table(groups: list[list[Run]]) -> str:
    """A line for each group of seeds; below, the settings that all have in common."""
    others = [unusual(runs[0].read_settings()) for runs in groups]
    common = [words for words in others[0] if all(words in each for each in others)]
    own = [[words for words in each if words not in common] for each in others]
    rows = [row(runs, words) for runs, words in zip(groups, own, strict=True)]
    titles = list(TITLES)
    if all(cells[OTHERS] == "–" for cells in rows):
        for cells in (titles, *rows):
            del cells[OTHERS]
    below = f"\nAll runs: {', '.join(common)}.\n" if common else ""
    return markdown(titles, rows, left=len(titles)) + below


def row(runs: list[Run], others: list[str]) -> list[str]:
    config, results = runs[0].read_settings(), [run.read_result() for run in runs]
    quality = [result["quality"] for result in results if "quality" in result]
    return [
        *(results[0]["data"], config.model, decoder(runs[0]), str(results[0]["epochs"])),
        ", ".join(others) or "–",
        ", ".join(f"{result['test']['error']:.2f}" for result in results),
        str(Errors(tuple(result["test"]["error"] for result in results))),
        f"{statistics.fmean(each['r2'] for each in quality):.2f}" if quality else "–",
        f"{statistics.fmean(result['processor_seconds'] / 60 for result in results):.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    groups: dict[str, list[Run]] = {}
    names: dict[str, list[Run]] = {}
    finished = [run for run in map(Run.open, args.runs) if run.is_finished]
    for run in sorted(finished, key=lambda run: run.read_settings().seed):
        config = run.read_settings()
        groups.setdefault(json.dumps(settings(config)), []).append(run)
        name = f"{run.read_result()['data']}-{config.model.replace('/', '-')}-{decoder(run)}-s{config.seed}"
        names.setdefault(name, []).append(run)
    folders: dict[str, Run] = {}
    for name, runs in names.items():
        for run in runs:
            folder = name if len(runs) == 1 else f"{name}-{run.read_settings().out.name}"
            if folder in folders:
                parser.error(f"{run.path} and {folders[folder].path} would both be {folder}; collect them apart")
            folders[folder] = run
    for folder, run in folders.items():
        keep(run, args.out / folder)
    text = table(list(groups.values()))
    write_text(args.out / "README.md", text)
    print(f"{text}\n{len(args.runs) - len(finished)} of {len(args.runs)} runs are not finished and were left out")


if __name__ == "__main__":
    main()
