"""scripts/committee.py on two tiny runs."""

import runpy
import sys
from pathlib import Path

import pytest
import torch

import hitnet
from hitnet.data import load_dataset, to_float

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "committee.py"


@pytest.fixture
def ask(tmp_path: Path, monkeypatch):
    """Train, ask the committee, read what it wrote: ask("lenet5-hom", "lenet5-hom")."""
    monkeypatch.setattr("hitnet.runs.result.plot", lambda *_: None)

    def run(*models: str) -> tuple[list[Path], str]:
        options = {"train_images": 200, "epochs": 2, "norm_momentum": 0.1, "decoder": "none", "device": "cpu"}
        configs = (
            hitnet.TrainConfig(model=name, seed=seed, out=tmp_path, threads=1, **options)
            for seed, name in enumerate(models)
        )
        runs = [hitnet.train(config).path for config in configs]
        monkeypatch.setattr(sys, "argv", ["committee.py", *map(str, runs), "--out", str(tmp_path / "found")])
        runpy.run_path(str(SCRIPT), run_name="__main__")
        return runs, (tmp_path / "found.md").read_text()

    return run


def test_a_committee_decides_by_the_average_distance(ask):
    runs, table = ask("lenet5-hom", "lenet5-hom")
    test = load_dataset("mnist-mini").test
    nets = [hitnet.load(path).eval() for path in runs]
    with torch.no_grad():
        scores = [net(to_float(test.images)).scores for net in nets]
    wrong = ((scores[0] + scores[1]).argmin(1) != test.labels).double().mean()
    assert table.splitlines()[-1] == f"| **all 2 together** |  |  |  | **{100 * wrong:.2f}** |"
    assert f"| lenet5-hom | none | 1 | 2 | {100 * (scores[1].argmin(1) != test.labels).double().mean():.2f} |" in table


def test_a_network_without_distances_is_refused(ask, capsys):
    with pytest.raises(SystemExit):
        ask("lenet5-hom", "lenet5")
    assert "lenet5, which has no distances to a centre; leave it out" in capsys.readouterr().err
