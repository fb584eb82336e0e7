"""Nothing lost: a run that was killed, interrupted or ran out of disk goes on as if nothing had happened."""

import errno
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from support.tiny import snapshot, write_squares

import hitnet
from hitnet import files
from hitnet.core.checkpoint import read_tensors, write_tensors
from hitnet.runs import finish
from hitnet.runs import train as loop
from hitnet.runs.run import Row, Run
from hitnet.settings import TrainConfig
from hitnet.training import finishing
from hitnet.training.watchers import Watcher

Settings = Callable[..., TrainConfig]

# What must be the same, bit for bit, whatever happened on the way.
LASTING = ("metrics.csv", "model/config.json", "model/model.safetensors")


def lasting(run: Run) -> dict[str, bytes]:
    return {name: content for name, content in snapshot(run.path).items() if name in LASTING}


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


class Stops(Watcher):
    """Stops a run after some epochs."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def epoch_ended(self, row: Row) -> None:
        if row["epoch"] == self.epoch:
            raise Killed


@pytest.fixture
def stopped(settings: Settings) -> Run:
    """A run of 3 epochs that was stopped after 2."""
    with pytest.raises(Killed):
        hitnet.train(settings(), watcher=Stops(2))
    return Run.named(settings(), "squares")


def options(config: TrainConfig) -> list[str]:
    """The command line that gives these settings."""
    usual = {**TrainConfig(model=config.model).to_json(), "model": None}
    given = {name: value for name, value in config.to_json().items() if value != usual[name]}
    return [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", str(value))]


# One process loads torch and forks a child for each attempt, so that many kills cost little. Some come at once, while
# the run is set up; most come soon after an epoch was written.
MANY_KILLS = """
import os, random, sys, time
from pathlib import Path
import torch._dynamo  # the first step of an optimizer would load it, in every child
from hitnet import cli, console
from hitnet.interpret import figures
from hitnet.runs import finish
from hitnet.runs import train as loop

run, seed, *begin = sys.argv[1:]
run, dice, kills = Path(run), random.Random(int(seed)), 0

def written():
    state = run / "state.safetensors"
    return state.stat().st_mtime_ns if state.is_file() else 0

def kill_at_random(child):
    before = written()
    if kills in (1, 2) or dice.random() < 0.6:
        while written() == before and not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            time.sleep(0.002)
    time.sleep(dice.uniform(0, 0.2))
    os.kill(child, 9)

while not (run / "result.json").is_file():
    child = os.fork()
    if child == 0:
        sys.argv = ["hitnet", "train", *(["--resume", str(run)] if (run / "args.json").is_file() else begin)]
        cli.main()
        sys.stdout.flush()
        os._exit(0)
    if kills < 5:
        kill_at_random(child)
    status = os.waitpid(child, 0)[1]
    killed = os.WIFSIGNALED(status)
    assert killed or status == 0, f"exit status {status}"
    kills += killed
print(kills, "kills")
"""


@pytest.mark.parametrize(
    "extra",
    [{"decoder": "none"}, {"ema": 0.9, "weight_decay": 0.1, "validation": 0.25, "patience": 10}],
    ids=["plain", "ema, decay and patience"],
)
def test_a_run_killed_at_random_moments_ends_in_the_same_weights(
    extra: dict[str, object], settings: Settings, tmp_path: Path
):
    config = settings(epochs=15, schedule="one-cycle", **extra)
    run = Run.named(config, "squares")
    command = [sys.executable, "-c", MANY_KILLS, str(run.path), "7", *options(config)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-2]) >= 3, done.stdout
    assert "resuming after epoch" in done.stdout
    assert not [name for name in snapshot(run.path) if name.endswith(".part") or name.startswith("state")]

    uninterrupted = hitnet.train(settings(epochs=15, schedule="one-cycle", out=tmp_path / "other", **extra))
    assert lasting(run) == lasting(uninterrupted)
    assert run.read_result()["test"] == uninterrupted.read_result()["test"]


@pytest.fixture
def started(settings: Settings) -> Iterator[tuple[subprocess.Popen[str], TrainConfig, Run]]:
    """A real `python -m hitnet train` that has ended its first epochs and would go on for minutes."""
    config = settings(epochs=1500)
    command = [sys.executable, "-m", "hitnet", "train", *options(config)]
    # A test run in the background ignores Ctrl-C, and so would its children.
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=listen)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("epoch   3/"):
            break
    yield process, config, Run.named(config, "squares")
    process.kill()
    process.communicate()


def test_a_real_process_killed_in_the_middle_resumes_where_it_was(
    started: tuple[subprocess.Popen[str], TrainConfig, Run],
):
    process, _, run = started
    process.kill()
    process.wait()
    before = run.read_metrics()
    assert len(before) >= 3
    with pytest.raises(Killed):
        loop.resume(run.path, watcher=Stops(len(before) + 2))
    assert run.read_metrics()[: len(before)] == before
    assert len(run.read_metrics()) == len(before) + 2


def test_ctrl_c_stops_without_a_traceback_and_says_how_to_go_on(
    started: tuple[subprocess.Popen[str], TrainConfig, Run],
):
    process, _, run = started
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert complaint == f"stopped; resume with: hitnet train --resume {run.path}\n"


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("after", [False, True], ids=["before the rename", "after the rename"])
def test_a_kill_at_any_file_write_loses_nothing(after: bool, settings: Settings, tmp_path: Path, monkeypatch):
    """The kill comes at the first, second, … rename of a new run, until one needs no more renames than that."""
    extra = {"epochs": 2, "decoder": "none", "train_images": 24, "ema": 0.9, "validation": 0.25, "patience": 2}
    expected = lasting(hitnet.train(settings(out=tmp_path / "uninterrupted", **extra)))
    rename, fatal = os.replace, 0

    class Dying:
        def __init__(self) -> None:
            self.left = fatal

        def __call__(self, source: Path, target: Path) -> None:
            if after:
                rename(source, target)
            self.left -= 1
            if self.left == 0:
                raise Killed
            if not after:
                rename(source, target)

    while True:
        fatal += 1
        config = settings(out=tmp_path / str(fatal), **extra)
        run = Run.named(config, "squares")
        with monkeypatch.context() as patch:
            patch.setattr(files.os, "replace", Dying())
            try:
                hitnet.train(config)
                break
            except Killed:
                pass
        if not (run.path / "args.json").is_file():
            with pytest.raises(FileNotFoundError, match="there is no run in"):
                loop.resume(run.path)
            hitnet.train(config)
        elif run.is_finished:
            with pytest.raises(ValueError, match="is finished, so there is nothing to resume"):
                loop.resume(run.path)
        else:
            loop.resume(run.path)
        assert lasting(run) == expected, f"killed at write {fatal}"
        assert run.is_finished
        assert not (run.path / "state.safetensors").exists()
    # env.json, args.json, four files an epoch, or two if it is not the best so far, result.json.
    assert fatal - 1 >= 2 + 4 + 2 + 1


NETWORKS = [("hitnet", 8), ("hitnet-fast", 4), ("hitnet-deep", 4), ("resnet18-hom", 8), ("capsnet", 8)]


def test_what_a_decoder_drops_at_random_is_the_same_after_resuming(
    settings: Settings, tmp_path: Path, no_pictures: None
):
    dropping = partial(settings, decoder="standardised", reconstruction_weight=10.0)
    whole = hitnet.train(dropping(out=tmp_path / "whole"))
    with pytest.raises(Killed):
        hitnet.train(dropping(), watcher=Stops(2))
    torch.manual_seed(1)
    resumed = loop.resume(Run.named(settings(), "squares").path)
    assert lasting(resumed) == lasting(whole)


@pytest.mark.parametrize(("model", "width"), NETWORKS)
def test_weights_of_every_memory_order_resume_to_the_same(
    model: str, width: int, settings: Settings, tmp_path: Path, no_pictures: None
):
    whole = hitnet.train(settings(model=model, width=width, finishing=0.0, out=tmp_path / "whole"))
    with pytest.raises(Killed):
        hitnet.train(settings(model=model, width=width, finishing=0.0), watcher=Stops(2))
    resumed = loop.resume(Run.named(settings(model=model), "squares").path)
    assert lasting(resumed) == lasting(whole)


def test_a_run_with_every_variation_resumes_to_the_same(settings: Settings, tmp_path: Path, no_pictures: None):
    varied = partial(settings, augment="photos", rotate=10.0, scale=0.1, shear=5.0, bend=0.05)
    whole, plain = hitnet.train(varied(out=tmp_path / "whole")), hitnet.train(settings(out=tmp_path / "plain"))
    with pytest.raises(Killed):
        hitnet.train(varied(), watcher=Stops(1))
    resumed = loop.resume(Run.named(varied(), "squares").path)
    assert lasting(resumed) == lasting(whole)
    assert lasting(resumed) != lasting(plain)


class StopsFinishing(Watcher):
    """Stops a run after some calls of its finishing phase."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def finishing(self, done: int, steps: int) -> None:
        self.calls -= 1
        if not self.calls:
            raise Killed


@pytest.mark.parametrize("calls", [1, 4, 6])
def test_the_finishing_phase_resumes_to_the_same(
    calls: int, settings: Settings, tmp_path: Path, no_pictures: None, monkeypatch
):
    monkeypatch.setattr(finishing, "FEWEST_STEPS", 5)
    monkeypatch.setattr(finish, "SAVED_EVERY", 2)
    fast = partial(settings, model="hitnet-fast", width=4, epochs=1)
    whole = hitnet.train(fast(out=tmp_path / "whole"))
    with pytest.raises(Killed):
        hitnet.train(fast(), watcher=StopsFinishing(calls))
    run = Run.named(fast().resolve(), "squares")
    seen: list[int] = []
    watcher = Watcher()
    monkeypatch.setattr(watcher, "finishing", lambda done, steps: seen.append(done))
    resumed = loop.resume(run.path, watcher=watcher)
    assert seen == [calls // 2 * 2 - 2 if calls > 2 else 0, *[1] * (5 - seen[0])]
    assert lasting(resumed) == lasting(whole)
    assert resumed.read_result()["finishing"]["steps"] == 5
    assert not run.finishing_file.exists()


def test_what_a_kill_left_half_written_is_swept_away(stopped: Run, no_pictures: None):
    (stopped.path / ".state.safetensors.01234567.part").write_bytes(b"half")
    (stopped.path / "model" / ".model.safetensors.01234567.part").write_bytes(b"half")
    loop.resume(stopped.path)
    assert not [name for name in snapshot(stopped.path) if name.endswith(".part")]


@pytest.mark.usefixtures("no_pictures")
def test_a_full_disk_is_named_and_leaves_the_last_epoch_whole(settings: Settings, tmp_path: Path, monkeypatch):
    expected = lasting(hitnet.train(settings(out=tmp_path / "other")))
    config = settings()
    run = Run.named(config, "squares")
    sync, writes, at_epoch_1 = os.fsync, 0, {}

    def full(handle: int) -> None:
        nonlocal writes
        writes += 1
        if writes == 7:  # env, args, 4 files of the first epoch; then the second epoch's model
            at_epoch_1.update({name: content for name, content in snapshot(run.path).items() if ".part" not in name})
        if writes >= 7:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot write .*config.json \(No space left on device\); make room"):
        hitnet.train(config)
    assert snapshot(run.path) == at_epoch_1
    assert set(at_epoch_1) >= {"args.json", "state.safetensors", *LASTING}
    monkeypatch.setattr(files.os, "fsync", sync)
    assert lasting(loop.resume(run.path)) == expected


def test_a_folder_that_cannot_be_written_is_named(settings: Settings, tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=r"cannot write .*file/runs/squares/.*\(Not a directory\).*another folder"):
        hitnet.train(settings(out=tmp_path / "file" / "runs"))
    assert (tmp_path / "file").read_bytes() == b""


class Payload:
    """Unpickled, it makes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.target,))


class TestADamagedState:
    @pytest.fixture(autouse=True)
    def _refused_and_untouched(self, stopped: Run) -> Iterator[None]:
        yield
        before = snapshot(stopped.path)
        with pytest.raises(ValueError, match="state.safetensors") as refused:
            loop.resume(stopped.path)
        assert len(str(refused.value)) < 600
        assert snapshot(stopped.path) == before

    @pytest.mark.parametrize("share", [0.0, 0.00001, 0.5, 0.999999])
    def test_that_is_truncated_is_refused(self, share: float, stopped: Run):
        state = stopped.path / "state.safetensors"
        content = state.read_bytes()
        state.write_bytes(content[: int(share * len(content))])

    def test_that_is_a_pickle_is_refused_and_never_executed(self, stopped: Run, tmp_path: Path):
        (stopped.path / "state.safetensors").write_bytes(pickle.dumps(Payload(tmp_path / "owned")))
        with pytest.raises(ValueError, match="not a complete safetensors file"):
            loop.resume(stopped.path)
        assert not (tmp_path / "owned").exists()
        pickle.loads(pickle.dumps(Payload(tmp_path / "owned")))
        assert (tmp_path / "owned").exists(), "the payload works, it only was not run"

    def test_that_torch_saved_is_refused(self, stopped: Run):
        torch.save({"model": torch.zeros(3)}, stopped.path / "state.safetensors")

    def test_of_another_network_is_refused(self, stopped: Run, settings: Settings, no_pictures: None):
        other = settings(model="lenet5", seed=1)
        with pytest.raises(Killed):
            hitnet.train(other, watcher=Stops(1))
        os.replace(Run.named(other, "squares").path / "state.safetensors", stopped.path / "state.safetensors")

    @pytest.mark.parametrize("lost", ["optimizer.0.exp_avg", "generator.data", "generator.torch", "progress"])
    def test_that_lacks_a_part_is_refused(self, lost: str, stopped: Run):
        tensors, metadata = read_tensors(stopped.path / "state.safetensors")
        tensors.pop(lost, None)
        metadata.pop(lost, None)
        write_tensors(stopped.path / "state.safetensors", tensors, metadata)


@pytest.mark.usefixtures("no_pictures")
class TestResuming:
    def test_a_finished_run_is_refused_and_loses_a_forgotten_state(self, settings: Settings):
        run = hitnet.train(settings(epochs=1))
        (run.path / "state.safetensors").write_bytes(b"left by a kill just after result.json")
        with pytest.raises(ValueError, match="is finished, so there is nothing to resume"):
            loop.resume(run.path)
        assert not (run.path / "state.safetensors").exists()

    def test_with_other_data_is_refused(self, stopped: Run, squares: Path):

        write_squares(squares, train=95)
        before = snapshot(stopped.path)
        with pytest.raises(ValueError, match=r"the data of .* changed since it began .* start a new run"):
            loop.resume(stopped.path)
        assert snapshot(stopped.path) == before

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"{", "not valid JSON"),
            (b"[]", "must hold a JSON object, got list"),
            (b"\x80\x04\x95", "not valid JSON"),
            (b'{"epocs": 3}', "unknown fields epocs; the fields are"),
            (b'{"epochs": "3"}', "epochs must be int or None, got '3'"),
            (b'{"epochs": 0}', "epochs must be at least 1"),
            (b'{"out": 7}', "out must be Path, got 7"),
            (b'{"schedule": "linear"}', "schedule must be .*constant.*, got 'linear'"),
        ],
    )
    def test_with_damaged_settings_is_refused(self, content: bytes, message: str, stopped: Run):
        (stopped.path / "args.json").write_bytes(content)
        with pytest.raises(ValueError, match=rf"args.json .*{message}"):
            loop.resume(stopped.path)

    def test_a_run_whose_last_epoch_is_done_only_finishes_it(self, settings: Settings, tmp_path: Path):
        expected = lasting(hitnet.train(settings(out=tmp_path / "other")))
        with pytest.raises(Killed):
            hitnet.train(settings(), watcher=Stops(3))
        run = Run.named(settings(), "squares")
        epochs = []

        class Counts(Watcher):
            def epoch_ended(self, row: Row) -> None:
                epochs.append(row)

        loop.resume(run.path, watcher=Counts())
        assert run.is_finished
        assert lasting(run) == expected
        assert not epochs
