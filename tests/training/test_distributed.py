"""Two real processes train one network, as torchrun starts them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny import snapshot

import hitnet
from hitnet.files import read_json
from hitnet.training.config import TrainConfig
from hitnet.training.run import Run

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

# In each process: the first run goes through; the second is stopped after 2 epochs, resumed, and so finished.
TWO_RUNS = """
import sys
from pathlib import Path
from dataclasses import replace
from torch import distributed
from hitnet.training import finish, loop
from hitnet.training.config import TrainConfig
from hitnet.training.run import Run

class Stops(loop.Watcher):
    def epoch_ended(self, row):
        if row["epoch"] == 2:
            distributed.barrier()  # until the first process has written the epoch
            raise KeyboardInterrupt

data, out = sys.argv[1:]
finish.draw = lambda *_: None
config = TrainConfig(data=data, out=Path(out), model="lenet5-hom", width=3, batch_size=32, epochs=4, threads=1, ema=0.5)
loop.train(config)
other = replace(config, out=Path(out) / "resumed")
try:
    loop.train(other, watcher=Stops())
except KeyboardInterrupt:
    pass
loop.resume(Run.named(other, "squares").path)
"""


def torchrun(*arguments: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*TORCHRUN, *arguments], capture_output=True, text=True, timeout=90, env=environment, check=False
    )
    assert (done.returncode != 0) == fails, done.stderr
    return done


@pytest.mark.usefixtures("no_pictures")
def test_two_processes_follow_one(settings: Callable[..., TrainConfig], tmp_path: Path):
    one = hitnet.train(settings(epochs=4, schedule="decay", out=tmp_path / "one", norm_momentum=0.1))
    command = ["train", "--data", str(settings().data), "--model", "lenet5-hom", "--width", "3", "--batch-size", "32"]
    command += ["--epochs", "4", "--schedule", "decay", "--norm-momentum", "0.1", "--out", str(tmp_path / "two")]
    done = torchrun("-m", "hitnet", *command)
    two = Run(tmp_path / "two" / "squares" / "lenet5-hom-s0")

    # The first process alone speaks and writes.
    assert done.stdout.count("run folder:") == 1
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("epoch ")] == [
        f"{epoch}/4" for epoch in range(1, 5)
    ]
    assert {name for name in snapshot(two.path) if "plots" not in name} == set(snapshot(one.path))
    assert read_json(two.path / "env.json")["processes"] == 2

    # Same steps and schedule. The losses are close but not equal: each process takes BatchNorm's statistics from its
    # own 16 of the 32 images, and a standard deviation of 16·classes samples scatters by some 10 %.
    assert [row["learning_rate"] for row in two.metrics] == [row["learning_rate"] for row in one.metrics]
    for ours, theirs in zip(two.metrics, one.metrics, strict=True):
        assert ours["train_loss"] == pytest.approx(theirs["train_loss"], rel=0.1)
        assert ours["train_reconstruction"] == pytest.approx(theirs["train_reconstruction"], rel=0.1)

    # All processes measure the model that the first one writes.
    assert two.metrics[-1]["test_error"] == two.result["test"]["error"]
    assert two.metrics[-1]["test_loss"] == pytest.approx(two.result["test"]["loss"], rel=1e-6)


def test_two_processes_resume_to_the_same_weights_and_measure_the_averaged_model(squares: Path, tmp_path: Path):
    script = tmp_path / "two_runs.py"
    script.write_text(TWO_RUNS)
    torchrun(str(script), str(squares), str(tmp_path / "runs"))
    through, resumed = (Run(tmp_path / "runs" / where / "squares" / "lenet5-hom-s0") for where in ("", "resumed"))
    for name in ("metrics.csv", "model/model.safetensors"):
        assert (through.path / name).read_bytes() == (resumed.path / name).read_bytes()
    assert resumed.metrics[-1]["test_loss"] == pytest.approx(resumed.result["test"]["loss"], rel=1e-6)


@pytest.mark.usefixtures("no_pictures")
def test_an_error_of_the_first_process_ends_them_all(settings: Callable[..., TrainConfig]):
    config = settings(epochs=1)
    run = hitnet.train(config)
    before = snapshot(run.path)
    command = ["train", "--data", config.data, "--model", "lenet5-hom", "--epochs", "1", "--out", str(config.out)]
    done = torchrun("-m", "hitnet", *command, fails=True)
    assert f"hitnet: error: there is a run in {run.path} already" in done.stderr
    assert snapshot(run.path) == before
