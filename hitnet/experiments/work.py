"""One unit of work: a run is started, resumed or left alone, whatever it takes to have it finished."""

from hitnet.experiments.protocol import Unit
from hitnet.training import loop
from hitnet.training.config import TrainConfig
from hitnet.training.run import Run

# Where a run is computed and where its files lie change nothing that it measures.
ELSEWHERE = ("out", "teacher", "data_dir", "device", "threads")


def is_done(unit: Unit) -> bool:
    """Whether the run is finished; one of other settings in its place is an error."""
    run = Run(unit.path)
    if (run.path / "args.json").is_file():
        _check_settings(run, unit.config)
    return run.is_finished


def do(unit: Unit) -> None:
    """Train the unit's run to its end, from its last whole epoch if it has any."""
    if is_done(unit):
        return
    if (unit.path / "args.json").is_file():
        loop.resume(unit.path)
    else:
        loop.train(unit.config)


def _check_settings(run: Run, wanted: TrainConfig) -> None:
    found, expected = run.config.to_json(), wanted.to_json()
    for name in found.keys() - set(ELSEWHERE):
        if found[name] != expected[name]:
            raise ValueError(
                f"{run.path} was made with {name} {found[name]}, expected {expected[name]}; choose another --out, "
                "or remove it"
            )
