"""The benchmark of audits: both networks are timed and scaled alike, parts share their work; cleanlab is a stand-in."""

import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from hitnet.data import load_dataset
from hitnet.files import read_json, write_json


@pytest.fixture
def benchmark_script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    rank = ModuleType("cleanlab.rank")
    rank.get_label_quality_scores = lambda labels, chances, **_: chances[range(len(labels)), labels]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cleanlab", ModuleType("cleanlab"))
    monkeypatch.setitem(sys.modules, "cleanlab.rank", rank)
    monkeypatch.delitem(sys.modules, "audit_benchmark", raising=False)
    return import_module("audit_benchmark")


class Stopped(Exception):
    pass


def test_the_audit_of_pays_is_the_one_of_flips(benchmark_script: ModuleType, tmp_path: Path, monkeypatch):
    mini, asked = load_dataset("mnist-mini"), []

    def stop(config, **wishes):
        asked.append((config, wishes.get("folds", 1)))
        raise Stopped

    monkeypatch.setattr(benchmark_script, "audit_data", stop)
    monkeypatch.setattr(benchmark_script, "some_of", lambda *_: (mini, mini.train.subset(torch.arange(200))))
    args = Namespace(work=tmp_path, data=["mnist"], images=200, noises=["5"], ways=["one"], seeds=1, folds=3)
    vars(args).update(epochs=None, flip=False, threads=1, workers=1, measured=set())
    for part in (benchmark_script.flips, benchmark_script.pays):
        with pytest.raises(Stopped):
            next(part(args))
    assert asked[0] == asked[1]


def test_what_is_on_record_is_not_measured_again(benchmark_script: ModuleType, tmp_path: Path, monkeypatch):
    mini, asked = load_dataset("mnist-mini"), []

    def stop(config, **_):
        asked.append(config.seed)
        raise Stopped

    monkeypatch.setattr(benchmark_script, "audit_data", stop)
    monkeypatch.setattr(benchmark_script, "some_of", lambda *_: (mini, mini.train.subset(torch.arange(200))))
    rows = [
        {"case": "mnist-200-5", "seed": 0, "way": way, "auroc": 0.9, "score": "HitNet"}
        for way in ("one network", "3 folds", "softmax")
    ]
    write_json(tmp_path / "audit-flips.json", {"rows": rows})
    command = ["x", "flips", "--data", "mnist", "--noises", "5", "--seeds", "2"]
    monkeypatch.setattr(sys, "argv", [*command, "--work", str(tmp_path), "--out", str(tmp_path / "audit")])
    with pytest.raises(Stopped):
        benchmark_script.main()
    assert asked == [1]
    assert read_json(tmp_path / "audit-flips.json") == {"rows": rows}


@pytest.mark.parametrize(
    ("part", "data", "images"),
    [
        ("test_sets", ["mnist", "cifar10"], 20_000),
        ("people", None, 50_000),
        ("flips", ["fashion-mnist", "mnist"], 20_000),
    ],
)
def test_each_part_has_its_own_data_by_default(part: str, data, images: int, benchmark_script, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(benchmark_script, part, lambda args: iter(seen.append(args) or ()))
    monkeypatch.setattr(sys, "argv", ["x", part.replace("_", "-"), "--out", str(tmp_path / "x")])
    benchmark_script.main()
    assert seen[0].images == images
    assert data is None or seen[0].data == data


def test_the_clock_goes_on_after_a_stop_and_stands_when_all_is_done(
    benchmark_script: ModuleType, tmp_path, monkeypatch
):
    now = iter([0.0, 60.0, 100.0, 220.0, 300.0, 900.0])
    monkeypatch.setattr(benchmark_script, "time", SimpleNamespace(monotonic=lambda: next(now)))
    place = tmp_path / "folds"

    def stop() -> None:
        with benchmark_script.timed(place):
            place.mkdir()
            raise Stopped

    with pytest.raises(Stopped):
        stop()
    with benchmark_script.timed(place):
        pass
    assert benchmark_script.minutes(place) == 3
    with benchmark_script.timed(place):
        pass
    assert benchmark_script.minutes(place) == 3


def test_what_was_trained_before_it_was_timed_has_no_minutes(benchmark_script: ModuleType, tmp_path: Path):
    (tmp_path / "folds").mkdir()
    with benchmark_script.timed(tmp_path / "folds"):
        pass
    assert benchmark_script.minutes(tmp_path / "folds") is None


def test_the_fitted_temperature_undoes_the_scale_of_each_networks_logits(benchmark_script: ModuleType):
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (200,), generator=generator)
    logits = torch.randn(200, 3, generator=generator, dtype=torch.float64)
    logits[range(200), labels] += 1
    networks = torch.arange(200) % 2
    scaled = logits * torch.tensor([1.0, 9.0])[networks].unsqueeze(1)
    expected = benchmark_script.fitted(logits, labels, networks)
    assert torch.allclose(benchmark_script.fitted(scaled, labels, networks), expected, atol=1e-3)
    assert not torch.allclose(scaled.softmax(dim=1), expected, atol=1e-2)


def test_the_table_has_the_own_score_and_the_best_of_cleanlabs_of_the_same_outputs(benchmark_script: ModuleType):
    shared = {"case": "clothes", "seed": 0, "minutes": 2.0}
    rows = [
        shared | {"way": "one network", "score": "HitNet", "auroc": 0.9},
        shared | {"way": "one network", "score": "cleanlab self_confidence", "auroc": 0.8},
        shared | {"way": "one network", "score": "cleanlab normalized_margin", "auroc": 0.95},
        shared | {"way": "softmax", "score": "cleanlab self_confidence", "auroc": 0.7},
        shared | {"way": "softmax, fitted", "score": "cleanlab self_confidence", "auroc": 0.75},
    ]
    lines = benchmark_script.table(rows).splitlines()
    assert lines[2:] == [
        "| clothes | one network | 1 | 0.9000 | 0.9500 | 2.0 |",
        "| clothes | softmax | 1 | 0.7500 | 0.7500 | 2.0 |",
    ]
    assert len(benchmark_script.table(rows[:1]).splitlines()) == 3
