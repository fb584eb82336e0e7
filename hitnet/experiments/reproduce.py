"""From a target to its tables: what is missing is trained, what is there is read."""

import time
from pathlib import Path

from hitnet.experiments.claims import all_claims, claims_table
from hitnet.experiments.cluster import run_on_ray
from hitnet.experiments.cost import seconds_left
from hitnet.experiments.figures import write_figures
from hitnet.experiments.lock import only_command
from hitnet.experiments.outcome import Failures, single_results
from hitnet.experiments.protocol import SCALES, Protocol, ScaleName, Target
from hitnet.experiments.report import report
from hitnet.experiments.runner import Progress, run_local, survey
from hitnet.experiments.speed import Speed, measure_speed, speed_table
from hitnet.experiments.tables import Table, all_tables, write_results, write_tables
from hitnet.files import read_json, write_json, write_text


class Listener:
    """Told how the experiments go, so that it can be shown. This one is silent."""

    def planned(self, all_progress: list[Progress], seconds: float) -> None: ...

    def timing(self) -> None: ...

    def changed(self, all_progress: list[Progress], seconds_left: float) -> None: ...

    def written(self, all_progress: list[Progress], tables: list[Table], path: Path) -> None: ...


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
    """Do what the target still lacks and write what was found; whether every run could be finished."""
    if ray is not None and workers != 1:
        raise ValueError("workers are for one machine, ray is for many; choose one of them")
    for name, value in (("runs", runs), ("workers", workers)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    # In full: a run names its teacher, and whoever resumes it may start in another folder.
    protocol = Protocol(SCALES[scale], out.resolve(), runs)
    with only_command(protocol.out):
        return _reproduce(target, protocol, workers, ray, listener or Listener())


def _reproduce(target: Target, protocol: Protocol, workers: int, ray: str | None, listener: Listener) -> bool:
    out = protocol.out
    all_progress = survey(protocol.units(target))
    # What cannot enter the tables is refused now, not after hours of training.
    single_results(protocol)
    listener.planned(all_progress, seconds_left(all_progress, 0))
    try:
        if target in ("speed", "all") and not (out / SPEED_FILE).is_file():
            # Before the runs: it is to be alone on the machine.
            listener.timing()
            write_json(out / SPEED_FILE, measure_speed(**protocol.scale.speed).to_json())
        began = time.monotonic()

        def watch(found: list[Progress]) -> None:
            listener.changed(found, seconds_left(found, time.monotonic() - began))

        if ray is None:
            run_local(all_progress, workers, watch)
        else:
            run_on_ray(all_progress, ray, watch)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; the same command goes on from the last epochs in {out}") from None
    failures = {progress.unit: progress.failure for progress in all_progress if progress.failure is not None}
    tables = write(protocol, failures)
    listener.written(all_progress, tables, out)
    return all(progress.state == "done" for progress in all_progress)


SPEED_FILE = "speed.json"


def write(protocol: Protocol, failures: Failures) -> list[Table]:
    """Everything that the finished runs say, into the protocol's folder: tables, claims, figures, report."""
    out = protocol.out
    speed = Speed(**read_json(out / SPEED_FILE)) if (out / SPEED_FILE).is_file() else None
    tables = all_tables(protocol, failures)
    if speed is not None:
        tables.append(speed_table(speed))
    if claims := all_claims(protocol, speed):
        tables.insert(0, claims_table(claims, protocol, failures))
    write_tables(tables, out / "tables")
    write_results(protocol)
    pictures = write_figures(protocol)
    write_text(out / "report.html", report(protocol, tables, pictures, failures))
    return tables
