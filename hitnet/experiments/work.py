"""One unit of work: a run is started, resumed or left alone, whatever it takes to have it finished."""

import os
from typing import Any

from hitnet.experiments.protocol import Unit
from hitnet.files import read_json, write_json
from hitnet.training import loop
from hitnet.training.config import TrainConfig
from hitnet.training.run import Run

# Where a run is computed and where its files lie is no part of the protocol: at most it changes how sums are rounded.
ELSEWHERE = ("out", "data_dir", "device", "threads")


def is_done(unit: Unit) -> bool:
    """Whether the run is finished; one of other settings in its place is an error."""
    run = Run(unit.path)
    if (run.path / "args.json").is_file():
        check_settings(run, unit.config)
    return run.is_finished


def do(unit: Unit) -> None:
    """Train the unit's run to its end, from its last whole epoch if it has any."""
    if is_done(unit):
        return
    args = unit.path / "args.json"
    if args.is_file():
        # Resuming goes by what is written there, and since then OUT may have moved with the teacher in it.
        write_json(args, unit.config.to_json())
        loop.resume(unit.path)
    else:
        loop.train(unit.config)


def check_settings(run: Run, wanted: TrainConfig) -> None:
    """Refuse a run that is not what the protocol has in its place."""
    # Each of torchrun's processes normalises over its own share of a batch.
    found = {**_settings(run.config), "processes": read_json(run.path / "env.json")["processes"]}
    for name, expected in {**_settings(wanted), "processes": 1}.items():
        if found[name] != expected:
            raise ValueError(
                f"{run.path} was made with {name} {found[name]}, expected {expected}; choose another --out, "
                "or remove it"
            )


def _settings(config: TrainConfig) -> dict[str, Any]:
    """All that matters; the teacher as seen from the run, since both may have moved."""
    teacher = None if config.teacher is None else os.path.relpath(config.teacher, config.out)
    settings = {**config.to_json(), "teacher": teacher}
    return {name: value for name, value in settings.items() if name not in ELSEWHERE}
