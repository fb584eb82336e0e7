"""What the runs of an experiment came to, read from their folders."""

from hitnet.experiments.protocol import Cell, Grid, Protocol
from hitnet.experiments.statistics import Sample
from hitnet.training.run import Run

Samples = dict[tuple[str, str], Sample]
"""(row, column) -> the errors found"""


def finished_runs(cell: Cell) -> list[Run]:
    """All that are finished, in the order of their seeds: also those that an earlier command added."""
    first = cell.units[0]
    found = [Run(path) for path in first.path.parent.glob(f"{first.path.name.removesuffix('0')}*")]
    return sorted((run for run in found if run.is_finished), key=lambda run: run.config.seed)


def sample(cell: Cell) -> Sample | None:
    """The error after the last epoch of each run; None where no run is finished."""
    errors = tuple(run.result["test"]["error"] for run in finished_runs(cell))
    return Sample(errors) if errors else None


def samples(grid: Grid) -> Samples:
    found = {place: sample(cell) for place, cell in grid.items()}
    return {place: errors for place, errors in found.items() if errors is not None}


def single_results(protocol: Protocol, experiments: tuple[str, ...]) -> list[dict[str, object]]:
    """One record for each finished run of the experiments."""
    records: dict[str, dict[str, object]] = {}
    for experiment in experiments:
        for cell in protocol.grid(experiment).values():
            for run in finished_runs(cell):
                key = run.path.relative_to(protocol.out).as_posix()
                if key in records:
                    records[key]["experiments"] = f"{records[key]['experiments']} {experiment}"
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
