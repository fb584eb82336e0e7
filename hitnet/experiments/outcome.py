"""What the runs of an experiment came to, read from their folders."""

from collections.abc import Iterator

from hitnet.experiments.protocol import EXPERIMENTS, Cell, Grid, Protocol, Unit
from hitnet.experiments.statistics import Sample
from hitnet.experiments.work import check_settings
from hitnet.training.run import Run

Samples = dict[tuple[str, str], Sample]
"""(row, column) -> the errors found"""
Failures = dict[Unit, str]
"""What could not be finished, and why, on one line"""


def finished_runs(cell: Cell) -> list[Run]:
    """All that are finished, in the order of their seeds: also those that an earlier command added.

    What lies among them and has other settings is an error.
    """
    first = cell.units[0]
    folder, prefix = first.path.parent, first.path.name.removesuffix("0")
    found = {}
    for path in folder.glob(f"{prefix}*"):
        seed, run = path.name.removeprefix(prefix), Run(path)
        if seed.isdecimal() and run.is_finished:
            check_settings(run, first.with_seed(int(seed)).config)
            found[int(seed)] = run
    return [found[seed] for seed in sorted(found)]


def sample(cell: Cell) -> Sample | None:
    """The error after the last epoch of each run; None where no run is finished."""
    errors = tuple(run.result["test"]["error"] for run in finished_runs(cell))
    return Sample(errors) if errors else None


def samples(grid: Grid) -> Samples:
    found = {place: sample(cell) for place, cell in grid.items()}
    return {place: errors for place, errors in found.items() if errors is not None}


def unfinished(grid: Grid, failures: Failures) -> list[str]:
    """Notes on the runs that an experiment should have and does not have."""
    lacking = {place: [unit for unit in cell.units if not Run(unit.path).is_finished] for place, cell in grid.items()}
    counts = [
        f"{row}, {column} ({len(units)} of {len(grid[row, column].units)} runs)"
        for (row, column), units in lacking.items()
        if units
    ]
    failed = dict.fromkeys(unit for units in lacking.values() for unit in units if unit in failures)
    return [*(["not finished: " + "; ".join(counts)] if counts else ()), *(failures[unit] for unit in failed)]


def single_results(protocol: Protocol) -> list[dict[str, object]]:
    """One record for each finished run."""
    records: dict[str, dict[str, object]] = {}
    for experiment in EXPERIMENTS:
        for cell in _cells(protocol, experiment):
            for run in finished_runs(cell):
                key = run.path.relative_to(protocol.out).as_posix()
                if key in records:
                    named = str(records[key]["experiments"]).split()
                    records[key]["experiments"] = " ".join(dict.fromkeys([*named, experiment]))
                    continue
                config, result = run.config, run.result
                records[key] = {
                    "run": key,
                    "experiments": experiment,
                    "model": config.model,
                    "data": config.data,
                    "variant": cell.units[0].variant,
                    "seed": config.seed,
                    "error": result["test"]["error"],
                    "mistakes": result["test"]["mistakes"],
                    "test_images": result["test"]["images"],
                    "epochs": result["epochs"],
                    "seconds": result["seconds"],
                    "parameters": result["parameters"],
                }
    return list(records.values())


def _cells(protocol: Protocol, experiment: str) -> Iterator[Cell]:
    """All of an experiment, also the networks that deform images for others."""
    for cell in protocol.grid(experiment).values():
        yield cell
        if (teacher := cell.units[0].teacher) is not None:
            yield Cell((teacher,))


def begun(protocol: Protocol) -> set[str]:
    """The experiments that have a finished run which no other has: more than what others left for them."""
    return {str(record["experiments"]) for record in single_results(protocol)} & EXPERIMENTS.keys()
