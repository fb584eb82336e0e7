"""Many runs on one machine: finished ones are left alone, killed ones go on, failed ones do not stop the others."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from hitnet.experiments import runner
from hitnet.experiments.cost import (
    GPU_OVERHEAD,
    GPU_RATE,
    OVERHEAD,
    epoch_work,
    expected_seconds,
    gpu_hours,
    operations,
    seconds_left,
)
from hitnet.experiments.protocol import SCALES, Protocol, Trial
from hitnet.experiments.runner import ATTEMPTS, Progress, run_local, survey
from hitnet.runs import train
from hitnet.runs.run import Row, Run
from hitnet.settings import ModelConfig
from hitnet.training.watchers import Watcher

Make = Callable[..., Trial]


def quietly(found: list[Progress]) -> None:
    pass


def test_units_become_finished_runs_and_what_is_finished_is_left_alone(tiny: Make, monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: 4)
    trials = [tiny(seed=seed, epochs=1) for seed in range(3)]
    first = survey(trials[:2])
    run_local(first, 2, quietly)
    assert [progress.status for progress in first] == ["done", "done"]
    assert all(progress.epochs == 1 and progress.error is not None for progress in first)
    assert [Run(trial.path).read_environment()["threads"] for trial in trials[:2]] == [2, 2], (
        "two workers split the cores"
    )
    before = {path: path.stat().st_mtime_ns for path in trials[0].path.rglob("*")}
    more = survey(trials)
    assert [progress.status for progress in more] == ["done", "done", "waiting"]
    run_local(more, 1, quietly)
    assert [progress.status for progress in more] == ["done"] * 3
    assert {path: path.stat().st_mtime_ns for path in trials[0].path.rglob("*")} == before


def test_a_run_whose_process_is_killed_goes_on_to_the_same_weights(tiny: Make, tmp_path: Path, lasting):
    trial, calm = tiny(epochs=6), tiny(out=tmp_path / "calm", epochs=6)
    kills = []

    def kill(found: list[Progress]) -> None:
        if not kills and 1 <= found[0].epochs < 6:
            (child,) = multiprocessing.active_children()
            os.kill(child.pid, signal.SIGKILL)
            kills.append(found[0].epochs)

    disturbed = survey([trial])
    run_local(disturbed, 1, kill, pause=0.01)
    assert kills
    assert disturbed[0].status == "done"
    assert disturbed[0].attempts == 2
    runner.do(calm)
    assert lasting(trial) == lasting(calm)


def test_a_class_name_that_the_font_lacks_makes_no_warnings(tiny: Make, tmp_path: Path, monkeypatch):
    figure = Figure()
    figure.text(0.5, 0.5, "日本")
    with pytest.raises(UserWarning, match="Glyph"):
        figure.savefig(tmp_path / "figure.png")
    monkeypatch.setattr("hitnet.runs.train.train", lambda *_, **__: figure.savefig(tmp_path / "figure.png"))
    runner.do(tiny())


def test_runs_in_this_process_tell_of_every_epoch(tiny: Make, tmp_path: Path):
    seen: list[tuple[str, int]] = []
    found = survey([tiny(epochs=2)])
    runner.run_here(found, lambda current: seen.append((current[0].status, current[0].epochs)))
    assert seen == [("waiting", 0), ("running", 0), ("running", 1), ("running", 2), ("done", 2)]
    assert multiprocessing.active_children() == []


def test_a_run_that_always_dies_is_given_up(tiny: Make):
    def kill(found: list[Progress]) -> None:
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGKILL)

    found = survey([tiny(epochs=500)])
    run_local(found, 1, kill, pause=0.01)
    assert found[0].status == "failed"
    assert found[0].attempts == ATTEMPTS
    assert "exit code -9" in found[0].problem


def test_a_failing_run_says_why_and_the_others_go_on(tiny: Make):
    bad = tiny(seed=1, train_images=5)
    pupil = replace(tiny(seed=2, augment="hybrid", teacher=bad.path), teacher=bad)
    found = survey([bad, pupil, tiny(epochs=1)])
    run_local(found, 1, quietly)
    assert [progress.status for progress in found] == ["failed", "failed", "done"]
    assert "train_images must lie between the 10 classes" in found[0].problem
    assert str(bad.path) in found[1].problem


def test_a_pupil_waits_for_its_teacher(tiny: Make):
    teacher = tiny(model="lenet5-hom", epochs=1)
    pupil = tiny(out=teacher.settings.out / "hybrid", epochs=1, augment="hybrid", teacher=teacher.path)
    found = survey([replace(pupil, teacher=teacher), teacher])
    order = []

    def watch(found: list[Progress]) -> None:
        order.extend(progress.trial for progress in found if progress.status == "running")

    run_local(found, 2, watch)
    assert [progress.status for progress in found] == ["done", "done"]
    assert order[0] == teacher


def test_an_interruption_leaves_no_process_and_everything_to_go_on_with(tiny: Make, tmp_path: Path, lasting):
    def interrupt(found: list[Progress]) -> None:
        if found[0].epochs:
            raise KeyboardInterrupt

    trial, calm = tiny(epochs=6), tiny(out=tmp_path / "calm", epochs=6)
    with pytest.raises(KeyboardInterrupt):
        run_local(survey([trial]), 1, interrupt, pause=0.01)
    assert multiprocessing.active_children() == []
    again = survey([trial])
    assert 1 <= again[0].began < 6
    run_local(again, 1, quietly)
    runner.do(calm)
    assert lasting(trial) == lasting(calm)


KILLED = """
import multiprocessing, os, sys
from pathlib import Path
from hitnet.experiments.protocol import Trial
from hitnet.experiments.runner import run_local, survey
from hitnet.settings import TrainConfig

def kill(found):
    if found[0].epochs:
        print(multiprocessing.active_children()[0].pid, flush=True)
        os.kill(os.getpid(), 9)

if __name__ == "__main__":
    config = TrainConfig(model="lenet5", width=3, train_images=200, epochs=2_000, out=Path(sys.argv[1]))
    run_local(survey([Trial("tiny", config)]), 1, kill, pause=0.01)
"""


def test_when_the_command_is_killed_its_processes_end_too(tmp_path: Path):
    (tmp_path / "killed.py").write_text(KILLED)
    command = [sys.executable, str(tmp_path / "killed.py"), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    child = Path("/proc") / done.stdout.strip()
    deadline = time.monotonic() + 60
    while child.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not child.exists()


def test_a_run_of_other_settings_in_the_same_place_is_an_error(tiny: Make):
    runner.do(tiny(epochs=1))
    with pytest.raises(ValueError, match=r"was made with epochs 1, expected 2; choose another --out"):
        survey([tiny(epochs=2)])
    elsewhere = tiny(epochs=1, threads=2, device="cpu", cache=Path("/elsewhere"))
    assert runner.is_done(elsewhere), "where it is computed and where pictures are decoded does not matter"


def test_a_run_whose_precision_was_left_open_counts_as_what_it_was_computed_in(tiny: Make):
    runner.do(tiny(epochs=1, precision="auto", device="cpu"))
    assert runner.is_done(tiny(epochs=1, precision="float32"))
    with pytest.raises(ValueError, match="was made with precision float32, expected bfloat16"):
        runner.is_done(tiny(epochs=1, precision="bfloat16"))


class Stops(Watcher):
    """Interrupts a run after its first epoch."""

    def epoch_ended(self, row: Row) -> None:
        raise KeyboardInterrupt


def test_an_interrupted_pupil_goes_on_where_it_was_moved_to_with_its_teacher(tiny: Make, tmp_path: Path):
    def pupil_in(out: Path) -> Trial:
        teacher = tiny(out=out, model="lenet5-hom", epochs=1)
        return replace(tiny(out=out / "hybrid", epochs=2, augment="hybrid", teacher=teacher.path), teacher=teacher)

    here, there = pupil_in(tmp_path / "here"), pupil_in(tmp_path / "there")
    runner.do(here.teacher)
    with pytest.raises(KeyboardInterrupt):
        train.train(here.settings, watcher=Stops())
    (tmp_path / "here").rename(tmp_path / "there")
    runner.do(there)
    assert runner.is_done(there)
    assert Run(there.path).read_settings().teacher == there.teacher.path
    with pytest.raises(ValueError, match=r"was made with teacher ../mnist-mini/lenet5-hom-s0, expected ../other"):
        runner.is_done(replace(there, settings=replace(there.settings, teacher=tmp_path / "there" / "other")))


# ---- what it costs


def test_operations_are_those_counted_by_hand():
    # N1: 20·20·256 sums of 81 products, 6·6·256 of 81·256, 10 of 9216; two operations for each product.
    forward = 2 * (20 * 20 * 256 * 81 + 6 * 6 * 256 * 81 * 256 + 10 * 9216)
    found = operations(ModelConfig.from_options(name="n1"))
    assert found.testing == forward
    # Backwards: twice as many, but for the images, whose gradient nobody needs.
    assert found.training == 3 * forward - 2 * 20 * 20 * 256 * 81


@pytest.mark.parametrize("scale", SCALES)
def test_every_unit_has_an_expected_time(scale: str):
    for trial in Protocol(SCALES[scale], Path("out"), runs=1).trials("all"):
        assert expected_seconds(trial.settings) > 0


def test_bfloat16_halves_the_expected_time_of_the_operations_but_not_of_the_steps(tiny: Make):
    slow, fast = (expected_seconds(tiny(model="resnet18", precision=name).settings) for name in ("float32", "bfloat16"))
    overhead = epoch_work(tiny().settings).steps * OVERHEAD
    assert fast - overhead == pytest.approx((slow - overhead) / 2)


def test_the_hours_of_a_gpu_follow_from_operations_and_steps():
    trial = Protocol(SCALES["paper"], Path("out")).trials("table1")[0]
    # N1 on MNIST, 250 epochs: 60,000 images trained, 10,000 tested; 469 and 79 steps.
    each = operations(ModelConfig.from_options(name="n1"))
    epoch = (60_000 * each.training + 10_000 * each.testing) / GPU_RATE + (469 + 79) * GPU_OVERHEAD
    assert gpu_hours([trial, trial]) == pytest.approx(2 * 250 * epoch / 3600)


def test_epochs_that_were_done_correct_the_time_left(tiny: Make):
    one = expected_seconds(tiny().settings)
    found = [Progress(tiny(epochs=4)), Progress(tiny(seed=1, epochs=4), "done", rows=[{}] * 4, began=4)]
    assert seconds_left(found, 0) == pytest.approx(4 * one)
    found[0].rows = [{}]
    assert seconds_left(found, 7.0) == pytest.approx(21)
    assert epoch_work(tiny().settings).steps == 4 + 8
