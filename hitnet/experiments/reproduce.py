"""From a target to its tables: train the missing runs, read the others, write everything."""

import time
from collections.abc import Collection
from pathlib import Path

from hitnet.data import load_dataset
from hitnet.experiments.claims import all_claims, claims_table
from hitnet.experiments.cluster import run_on_ray
from hitnet.experiments.cost import seconds_left
from hitnet.experiments.outcome import Failures, single_results
from hitnet.experiments.paper_figures import write_figures
from hitnet.experiments.protocol import SCALES, TARGETS, Protocol, ScaleName, Target
from hitnet.experiments.report import report
from hitnet.experiments.runner import Progress, run_local, survey
from hitnet.experiments.speed import measure_speed, read_speed, speed_table
from hitnet.experiments.tables import Table, all_tables, write_results, write_tables
from hitnet.files import only_command, read_json, write_json, write_text


class Listener:
    """Called as the experiments proceed, to display their progress. This base class does nothing."""

    def planned(self, all_progress: list[Progress], seconds: float) -> None: ...

    def timing(self) -> None: ...

    def changed(self, all_progress: list[Progress], seconds_left: float) -> None: ...

    def writing(self) -> None: ...

    def written(self, tables: list[Table], problems: list[str], path: Path) -> None: ...


def reproduce(
    target: Target,
    scale: ScaleName,
    out: Path,
    *,
    runs: int | None = None,
    workers: int = 1,
    ray: str | None = None,
    listener: Listener | None = None,
) -> bool:
    """Train what the target still lacks and write the results; returns whether every run was finished."""
    if ray is not None and workers != 1:
        raise ValueError("workers are for one machine, ray is for many; choose one of them")
    for name, value in (("runs", runs), ("workers", workers)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    # An absolute path: a run records its teacher's path, and may be resumed from another working directory.
    protocol = Protocol(SCALES[scale], out.resolve(), runs)
    with only_command(protocol.out):
        check_scale(protocol)
        return _reproduce(target, protocol, workers, ray, listener or Listener())


def _reproduce(target: Target, protocol: Protocol, workers: int, ray: str | None, listener: Listener) -> bool:
    out = protocol.out
    all_progress = survey(protocol.trials(target))
    # Runs that cannot enter the tables are refused now, not after hours of training.
    single_results(protocol)
    if ray is None:
        check_data(all_progress)
    listener.planned(all_progress, seconds_left(all_progress, 0))
    try:
        if target in ("speed", "all") and not (out / SPEED_FILE).is_file():
            # Before the runs: nothing else should compute during the timing.
            listener.timing()
            write_json(out / SPEED_FILE, vars(measure_speed(**protocol.scale.speed)))
        began = time.monotonic()

        def watch(current: list[Progress]) -> None:
            listener.changed(current, seconds_left(current, time.monotonic() - began))

        if ray is None:
            run_local(all_progress, workers, watch)
        else:
            run_on_ray(all_progress, ray, watch)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; the same command resumes from the last epochs in {out}") from None
    listener.writing()
    failures = {progress.trial: progress.failure for progress in all_progress if progress.failure is not None}
    tables, problems = write(protocol, failures, TARGETS[target])
    listener.written(tables, [*failures.values(), *problems], out)
    return all(progress.status == "done" for progress in all_progress)


SPEED_FILE, SCALE_FILE = "speed.json", "scale.json"


def check_scale(protocol: Protocol) -> None:
    """Refuse a second scale in one folder: its tables would overwrite the first one's."""
    path, name = protocol.out / SCALE_FILE, protocol.scale.name
    if not path.is_file():
        write_json(path, {"scale": name})
    elif (present := read_json(path).get("scale")) != name:
        raise ValueError(f"{protocol.out} holds experiments at scale {present}, expected {name}; choose another --out")


def check_data(all_progress: list[Progress]) -> None:
    """Load every data set that is still needed: a missing one fails now, and no two processes download the same one."""
    for name in {progress.trial.settings.data for progress in all_progress if progress.status == "waiting"}:
        load_dataset(name)


def write(protocol: Protocol, failures: Failures, requested: Collection[str]) -> tuple[list[Table], list[str]]:
    """Write the results of all finished runs into the protocol's folder: tables, claims, figures, report.

    Returns the tables, and why figures are missing.
    """
    out = protocol.out
    speed = read_speed(out / SPEED_FILE) if (out / SPEED_FILE).is_file() else None
    tables = all_tables(protocol, failures, requested)
    if speed is not None:
        tables.append(speed_table(speed))
    if claims := all_claims(protocol, speed):
        tables.insert(0, claims_table(claims, protocol, failures))
    write_tables(tables, out / "tables")
    write_results(protocol)
    pictures, problems = write_figures(protocol)
    write_text(out / "report.html", report(protocol, tables, pictures, [*failures.values(), *problems]))
    return tables, problems
