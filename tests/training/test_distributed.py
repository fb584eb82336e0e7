"""Two real processes train one network, as torchrun starts them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.tiny import snapshot

import hitnet
from hitnet.files import read_json
from hitnet.runs.run import Run
from hitnet.settings import TrainConfig

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

# The command line itself, but the run folder is copied after 2 epochs, as a kill would leave it then.
TRAIN_AND_COPY = """
import shutil
from hitnet import cli, console

show = console.TrainingView.epoch_ended

def epoch_ended(view, row):
    show(view, row)
    if row["epoch"] == 2:
        shutil.copytree(view.run.path, view.run.path.with_name("stopped"))

console.TrainingView.epoch_ended = epoch_ended
cli.main()
"""


def torchrun(*arguments: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*TORCHRUN, *arguments], capture_output=True, text=True, timeout=240, env=environment, check=False
    )
    assert (done.returncode != 0) == fails, done.stderr
    return done


@pytest.mark.usefixtures("no_pictures")
def test_two_processes_follow_one(settings: Callable[..., TrainConfig], tmp_path: Path):
    one = hitnet.train(settings(epochs=4, schedule="decay", ema=0.5, out=tmp_path / "one"))
    command = ["train", "--data", settings().data, "--model", "lenet5-hom", "--width", "3", "--batch-size", "32"]
    command += ["--epochs", "4", "--schedule", "decay", "--ema", "0.5", "--out", str(tmp_path / "two")]
    done = torchrun("-m", "hitnet", *command)
    two = Run(tmp_path / "two" / "squares" / "lenet5-hom-s0")

    # The first process alone speaks and writes.
    assert done.stdout.count("run folder:") == 1
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("epoch ")] == [
        f"{epoch}/4" for epoch in range(1, 5)
    ]
    written = [{name for name in snapshot(run.path) if "plots" not in name} for run in (one, two)]
    assert written[0] == written[1]
    assert read_json(two.path / "env.json")["processes"] == 2

    # Same steps and schedule. The losses are close but not equal: each process takes BatchNorm's statistics from its
    # own 16 of the 32 images, and a standard deviation of 16·classes samples scatters by some 10 %.
    assert [row["learning_rate"] for row in two.read_metrics()] == [row["learning_rate"] for row in one.read_metrics()]
    for ours, theirs in zip(two.read_metrics(), one.read_metrics(), strict=True):
        assert ours["train_loss"] == pytest.approx(theirs["train_loss"], rel=0.1)
        assert ours["train_reconstruction"] == pytest.approx(theirs["train_reconstruction"], rel=0.1)

    # All processes measure the averaged model that the first one writes.
    assert two.read_metrics()[-1]["test_error"] == two.read_result()["test"]["error"]
    assert two.read_metrics()[-1]["test_loss"] == pytest.approx(two.read_result()["test"]["loss"], rel=1e-6)


@pytest.mark.usefixtures("no_pictures")
def test_two_processes_resume_to_the_same_weights(settings: Callable[..., TrainConfig], tmp_path: Path):
    script = tmp_path / "train_and_copy.py"
    script.write_text(TRAIN_AND_COPY)
    # A decoder that draws random numbers, and batches whose two halves differ in size.
    command = ["train", "--data", settings().data, "--width", "4", "--batch-size", "35", "--decoder", "standardised"]
    torchrun(str(script), *command, "--epochs", "3", "--out", str(tmp_path / "two"))
    two = Run(tmp_path / "two" / "squares" / "hitnet-fast-s0")
    stopped = Run(two.path.with_name("stopped"))
    assert len(stopped.read_metrics()) == 2
    assert not stopped.is_finished
    torchrun("-m", "hitnet", "train", "--resume", str(stopped.path))
    for name in ("metrics.csv", "model/model.safetensors"):
        assert (stopped.path / name).read_bytes() == (two.path / name).read_bytes()


@pytest.mark.usefixtures("no_pictures")
def test_an_error_of_the_first_process_ends_them_all(settings: Callable[..., TrainConfig]):
    config = settings(epochs=1)
    run = hitnet.train(config)
    before = snapshot(run.path)
    command = ["train", "--data", config.data, "--model", "lenet5-hom", "--epochs", "1", "--out", str(config.out)]
    done = torchrun("-m", "hitnet", *command, fails=True)
    assert f"hitnet: error: there is already a run (finished) in {run.path}" in done.stderr
    assert snapshot(run.path) == before


# Every folder counts as large.
FROM_A_FILE = """
from hitnet import cli
from hitnet.data import reading

reading.MOST_IN_MEMORY = 0
cli.main()
"""


@pytest.mark.usefixtures("no_pictures")
def test_two_processes_share_one_file_of_decoded_pictures(folder_of_pictures: Path):
    script = folder_of_pictures / "from_a_file.py"
    script.write_text(FROM_A_FILE)
    command = ["train", "--data", str(folder_of_pictures / "my-pictures"), "--model", "lenet5-hom", "--width", "2"]
    command += ["--epochs", "1", "--cache", str(folder_of_pictures / "cache"), "--out", str(folder_of_pictures)]
    done = torchrun(str(script), *command)
    (place,) = (path for path in (folder_of_pictures / "cache").iterdir() if path.is_dir())
    assert (place / "pixels.uint8").stat().st_size == 21 * 3 * 24 * 30
    assert f"decoded pictures are kept in {place}" in done.stdout
    assert Run(folder_of_pictures / "my-pictures" / "lenet5-hom-s0").is_finished
