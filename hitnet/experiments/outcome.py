"""The results of an experiment's runs, read from their folders."""

from collections.abc import Iterator

from hitnet.experiments.protocol import EXPERIMENTS, Cell, Grid, Protocol, Trial
from hitnet.experiments.runner import check_settings
from hitnet.experiments.significance import Errors
from hitnet.runs.run import Run

ErrorTable = dict[tuple[str, str], Errors]
"""(row, column) -> the errors of its runs"""
Failures = dict[Trial, str]
"""Trials that failed, and why, on one line"""


def finished_runs(cell: Cell) -> list[Run]:
    """All finished runs by seed, including those that an earlier command added.

    A run with other settings among them is an error.
    """
    first = cell.trials[0]
    folder, prefix = first.path.parent, first.path.name.removesuffix("0")
    runs = {}
    for path in folder.glob(f"{prefix}*"):
        seed, run = path.name.removeprefix(prefix), Run(path)
        if seed.isdecimal() and run.is_finished:
            check_settings(run, first.with_seed(int(seed)).settings)
            runs[int(seed)] = run
    return [runs[seed] for seed in sorted(runs)]


def errors_of(cell: Cell) -> Errors | None:
    """The error after the last epoch of each run; None if no run is finished."""
    errors = tuple(run.read_result()["test"]["error"] for run in finished_runs(cell))
    return Errors(errors) if errors else None


def all_errors(grid: Grid) -> ErrorTable:
    table = {place: errors_of(cell) for place, cell in grid.items()}
    return {place: errors for place, errors in table.items() if errors is not None}


def unfinished(grid: Grid, failures: Failures) -> list[str]:
    """Notes on the runs that an experiment lacks."""
    lacking = {
        place: [trial for trial in cell.trials if not Run(trial.path).is_finished] for place, cell in grid.items()
    }
    counts = [
        f"{row}, {column} ({len(trials)} of {len(grid[row, column].trials)} runs)"
        for (row, column), trials in lacking.items()
        if trials
    ]
    failed = dict.fromkeys(trial for trials in lacking.values() for trial in trials if trial in failures)
    return [*(["not finished: " + "; ".join(counts)] if counts else ()), *(failures[trial] for trial in failed)]


def single_results(protocol: Protocol) -> list[dict[str, object]]:
    """One record per finished run."""
    records: dict[str, dict[str, object]] = {}
    for experiment in EXPERIMENTS:
        for cell in _cells(protocol, experiment):
            for run in finished_runs(cell):
                key = run.path.relative_to(protocol.out).as_posix()
                if key in records:
                    named = str(records[key]["experiments"]).split()
                    records[key]["experiments"] = " ".join(dict.fromkeys([*named, experiment]))
                    continue
                settings, result = run.read_settings(), run.read_result()
                records[key] = {
                    "run": key,
                    "experiments": experiment,
                    "model": settings.model,
                    "data": settings.data,
                    "variant": cell.trials[0].variant,
                    "seed": settings.seed,
                    "error": result["test"]["error"],
                    "mistakes": result["test"]["mistakes"],
                    "test_images": result["test"]["images"],
                    "epochs": result["epochs"],
                    "seconds": result["seconds"],
                    "parameters": result["parameters"],
                }
    return list(records.values())


def _cells(protocol: Protocol, experiment: str) -> Iterator[Cell]:
    """All cells of an experiment, including the teachers that deform images for others."""
    for cell in protocol.grid(experiment).values():
        yield cell
        if (teacher := cell.trials[0].teacher) is not None:
            yield Cell((teacher,))


def begun(protocol: Protocol) -> set[str]:
    """The experiments with a finished run of their own, not only runs shared with other experiments."""
    return {str(record["experiments"]) for record in single_results(protocol)} & EXPERIMENTS.keys()
