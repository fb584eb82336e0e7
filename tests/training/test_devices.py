"""Where a run computes and in which precision."""

import subprocess
from collections.abc import Callable

import pytest
import torch

import hitnet
from hitnet.data import ImageSet
from hitnet.settings import Precision, TrainConfig
from hitnet.training import devices
from hitnet.training.devices import (
    Team,
    autocast,
    bfloat16_runs,
    choose_device,
    choose_precision,
    faster_in_bfloat16,
    join_team,
)
from hitnet.training.evaluation import evaluate
from hitnet.training.frozen import FrozenModel, Memory

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _forget_trials() -> None:
    bfloat16_runs.cache_clear()


def child_that_ends_with(code: int, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Replace child processes by their exit code; the commands they were started with."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(devices.subprocess, "run", run)
    return commands


@pytest.mark.parametrize("wish", ["gpu", "cuda:99", "meta", "cpu7", ""])
def test_a_device_that_cannot_be_used_is_refused_with_the_choices(wish: str):
    with pytest.raises(ValueError, match="cannot be used .*use auto, cpu, cuda or mps"):
        choose_device(wish)


def test_auto_takes_the_cpu_where_there_is_nothing_better(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device("auto") == CPU


@pytest.mark.parametrize("wish", ["auto", "cuda"])
def test_each_process_of_torchrun_takes_its_own_gpu(wish: str, monkeypatch: pytest.MonkeyPatch):
    current = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    monkeypatch.setattr(torch, "empty", lambda *_, **__: None)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose_device(wish) == torch.device("cuda", 1)
    assert current == [torch.device("cuda", 1)]


def test_the_cpu_computes_in_float32_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch):
    commands = child_that_ends_with(0, monkeypatch)
    assert choose_precision("auto", CPU) == torch.float32
    assert not commands, "nothing to try"


def test_bfloat16_is_tried_in_a_child_process_once(monkeypatch: pytest.MonkeyPatch):
    commands = child_that_ends_with(0, monkeypatch)
    assert choose_precision("bfloat16", CPU) == choose_precision("bfloat16", CPU) == torch.bfloat16
    assert len(commands) == 1
    assert "bfloat16" in commands[0][-1]


def test_bfloat16_is_refused_where_the_child_dies_of_an_illegal_instruction(monkeypatch: pytest.MonkeyPatch):
    child_that_ends_with(-4, monkeypatch)
    with pytest.raises(ValueError, match="bfloat16 does not run on this cpu; use precision float32"):
        choose_precision("bfloat16", CPU)


@pytest.mark.parametrize(
    ("network", "device", "precision", "capabilities", "helps"),
    [
        ("hitnet-fast", "cpu", torch.float32, {"avx512_bf16": True}, True),
        ("hitnet-fast", "cpu", torch.float32, {"avx512_bf16": False}, False),
        ("hitnet-fast", "cpu", torch.float32, {}, False),
        ("hitnet-fast", "cpu", torch.bfloat16, {"avx512_bf16": True}, False),
        ("hitnet-fast", "cuda", torch.float32, {"avx512_bf16": True}, False),
        ("hitnet", "cpu", torch.float32, {"avx512_bf16": True}, False),
        ("lenet5-hom", "cpu", torch.float32, {"avx512_bf16": True}, False),
    ],
)
def test_bfloat16_is_recommended_where_the_processor_and_the_network_gain(
    network: str,
    device: str,
    precision: torch.dtype,
    capabilities: dict[str, bool],
    helps: bool,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    width = {"hitnet": 8, "lenet5-hom": 6}.get(network)
    model = hitnet.create_model(network, num_classes=2, image_shape=(1, 28, 28), width=width)
    assert faster_in_bfloat16(model, torch.device(device), precision) is helps
    assert not faster_in_bfloat16(FrozenModel(model, Memory()), torch.device(device), precision)


@pytest.mark.parametrize(
    ("wish", "supported", "generation", "expected"),
    [
        ("auto", True, 9, torch.bfloat16),
        ("auto", True, 7, torch.float32),  # imitated
        ("bfloat16", True, 7, torch.bfloat16),
        ("auto", False, 6, torch.float32),
        ("float32", True, 9, torch.float32),
    ],
)
def test_a_gpu_computes_in_bfloat16_by_default_if_it_is_made_for_it(
    wish: Precision,
    supported: bool,
    generation: int,
    expected: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: supported)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (generation, 0))
    assert choose_precision(wish, torch.device("cuda")) == expected


def test_autocast_is_only_on_for_bfloat16():
    with autocast(CPU, torch.float32):
        assert not torch.is_autocast_enabled("cpu")
    with autocast(CPU, torch.bfloat16):
        assert torch.is_autocast_enabled("cpu")


def test_a_process_on_its_own_is_a_team_of_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with join_team(CPU) as team:
        assert team == Team(rank=0, size=1)
        assert team.leads
        assert team.sum(torch.tensor(3.0)) == 3
        network = torch.nn.BatchNorm1d(2)
        team.agree(network)
        assert team.wrap(network, CPU) is network


@pytest.mark.usefixtures("no_pictures")
def test_a_run_uses_as_many_threads_as_it_is_told(settings: Callable[..., TrainConfig]):
    torch.set_num_threads(1)
    hitnet.train(settings(threads=2, epochs=1, train_images=6))
    assert torch.get_num_threads() == 2


def test_processes_share_the_images_of_a_test_even_if_some_get_none(small_model, digits, monkeypatch):
    model, data = small_model("lenet5-hom").eval(), ImageSet((255 * digits[0][:3]).byte(), digits[1][:3])
    shares: list[torch.Tensor] = []
    whole = evaluate(model, data)

    def gather(team: Team, totals: torch.Tensor) -> torch.Tensor:
        shares.append(totals)
        return torch.stack(shares).sum(0)

    monkeypatch.setattr(Team, "sum", gather)
    for rank in range(8):
        together = evaluate(model, data, team=Team(rank, 8))
    assert torch.equal(together.confusion, whole.confusion)
    assert together.loss == pytest.approx(whole.loss)
