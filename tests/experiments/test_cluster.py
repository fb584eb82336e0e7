"""Ray: a real cluster of two nodes on this machine, whose workers are killed in the middle of a run."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from hitnet.experiments import cluster
from hitnet.experiments.protocol import SCALES, Trial
from hitnet.experiments.reproduce import Listener, reproduce
from hitnet.experiments.runner import Progress, survey

pytest.importorskip("ray", reason="ray is not installed; pip install 'hitnet[ray]'")
# Ray leaves sockets and log files to the end of the process.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[str]:
    from ray.cluster_utils import Cluster

    memory = 100 * 2**20
    nodes = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": memory},
    )
    nodes.add_node(num_cpus=1, object_store_memory=memory)
    yield nodes.address
    nodes.shutdown()


EPOCHS = 12


def workers_of_this_test() -> list[int]:
    """Processes below this one that do our task; Ray names them after it."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(folder.name)] = (folder / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue

    def is_ours(process: int) -> bool:
        while process in parents and process != os.getpid():
            process = parents[process]
        return process == os.getpid()

    return [process for process, name in names.items() if name.startswith(b"ray::train_on_node") and is_ours(process)]


class Kills(Listener):
    """Kills the workers once a run that is under way has an epoch on disk."""

    def __init__(self) -> None:
        self.began: dict[Path, int] = {}

    def changed(self, all_progress: list[Progress], seconds_left: float) -> None:
        under_way = [found for found in all_progress if found.status == "running" and 1 <= found.epochs < EPOCHS]
        workers = workers_of_this_test()
        if self.began or not under_way or not workers:
            return
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        # Written when a run begins, and never again.
        files = [progress.trial.path / "env.json" for progress in under_way]
        self.began = {file: file.stat().st_mtime_ns for file in files}


def settings(model: str, data: str) -> dict[str, object]:
    return {"epochs": EPOCHS, "train_images": 200, "batch_size": 50, "width": 3}


def test_the_table_of_a_cluster_that_lost_its_workers_is_that_of_a_calm_machine(two_nodes, tmp_path, monkeypatch):
    lenets = replace(SCALES["smoke"], settings=settings, runs=lambda experiment, model, data: int("lenet" in model))
    monkeypatch.setitem(SCALES, "smoke", lenets)
    disturbed, calm, kills = tmp_path / "disturbed", tmp_path / "calm", Kills()
    assert reproduce("table3", "smoke", disturbed, ray=two_nodes, listener=kills)
    assert kills.began, "workers were killed"
    assert all(file.stat().st_mtime_ns == time for file, time in kills.began.items()), (
        "and their runs did not begin anew"
    )
    assert reproduce("table3", "smoke", calm)
    for name in ("table3.md", "table3.csv", "table3-decrease.md", "claims.md"):
        assert (disturbed / "tables" / name).read_text() == (calm / "tables" / name).read_text()
    assert (disturbed / "tables" / "table3.md").read_text().count("(1)") == 2, "it is complete"


def test_a_failing_task_says_why_and_the_others_go_on(two_nodes: str, tiny: Callable[..., Trial]):
    found = survey([tiny(seed=1, train_images=5), tiny(epochs=1)])
    cluster.run_on_ray(found, two_nodes, lambda found: None)
    assert [progress.status for progress in found] == ["failed", "done"]
    assert "train_images must lie between the 10 classes" in found[0].problem


def test_a_task_that_fails_without_a_word_is_named_by_its_kind(tiny: Callable[..., Trial]):
    import ray

    def fail(reference: object) -> None:
        raise ray.exceptions.RayError

    progress = Progress(tiny(), "running")
    cluster._end(progress, None, SimpleNamespace(get=fail, exceptions=ray.exceptions))
    assert (progress.status, progress.problem) == ("failed", "RayError: ")


def test_a_cluster_that_is_not_there_is_told_with_the_remedy(tiny: Callable[..., Trial]):
    with pytest.raises(
        RuntimeError, match=r"there is no Ray cluster at 127.0.0.1:1 .*; start one with: ray start --head"
    ):
        cluster.run_on_ray(survey([tiny()]), "127.0.0.1:1", lambda found: None)


def test_a_cluster_without_a_processor_is_told_with_the_remedy(tiny: Callable[..., Trial], monkeypatch):
    empty = SimpleNamespace(
        init=lambda **_: None, shutdown=lambda: None, cluster_resources=dict, remote=lambda **_: lambda work: None
    )
    monkeypatch.setattr(cluster, "_import_ray", lambda: empty)
    with pytest.raises(RuntimeError, match="the Ray cluster at auto has neither CPU nor GPU, expected at least one"):
        cluster.run_on_ray(survey([tiny()]), "auto", lambda found: None)


def test_a_run_comes_back_whole_from_a_node_with_a_disk_of_its_own(tiny: Callable[..., Trial], tmp_path: Path):
    far = tiny(out=tmp_path / "far", epochs=1)
    files = cluster.train_on_node(far, {})
    near = tmp_path / "near" / "run"
    cluster.unpack(files, near)
    assert {path.relative_to(near) for path in near.rglob("*")} == {
        path.relative_to(far.path) for path in far.path.rglob("*")
    }
    assert (near / "result.json").read_bytes() == (far.path / "result.json").read_bytes()
    cluster.unpack({"result.json": b"{}"}, near)
    assert (near / "result.json").read_bytes() != b"{}", "what is finished stays"
