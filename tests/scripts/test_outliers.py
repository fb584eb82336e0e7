"""scripts/outliers.py on two tiny runs."""

import json
import runpy
import sys
from itertools import product
from pathlib import Path

import pytest

import hitnet
from hitnet.data import load_dataset, to_float

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "outliers.py"


def test_auroc_is_the_share_of_pairs_in_which_the_strange_image_is_the_more_unusual_one(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("hitnet.runs.result.plot", lambda *_: None)
    # No clothes are built in; reversed brightness is strange enough.
    clothes = load_dataset("mnist-mini")
    clothes.test.images.copy_(255 - clothes.test.images)
    monkeypatch.setattr("hitnet.data.load_dataset", lambda *_args, **_options: clothes)
    options = {"train_images": 200, "epochs": 2, "norm_momentum": 0.1, "decoder": "none", "device": "cpu", "threads": 1}
    runs = [
        hitnet.train(hitnet.TrainConfig(model=name, out=tmp_path, **options)).path for name in ("lenet5-hom", "lenet5")
    ]
    monkeypatch.setattr(sys, "argv", ["outliers.py", *map(str, runs), "--out", str(tmp_path / "found")])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    rows = json.loads((tmp_path / "found.json").read_text())["runs"]
    own = to_float(load_dataset("mnist-mini").test.images)
    for path, row in zip(runs, rows, strict=True):
        net = hitnet.load(path)
        usual, strange = (hitnet.outlier_score(net, images).tolist() for images in (own, 1 - own))
        wins = sum((b > a) + 0.5 * (a == b) for a, b in product(usual, strange))
        assert row["auroc"]["Fashion-MNIST"] == pytest.approx(wins / len(usual) ** 2, abs=1e-4)
        assert all(0 <= auroc <= 1 for auroc in row["auroc"].values())
    table = (tmp_path / "found.md").read_text().splitlines()
    assert table[0].startswith("| network | seed | training images | epochs | test error, % | Fashion-MNIST |")
    assert table[2].startswith(f"| lenet5-hom | 0 | 200 | 2 | {rows[0]['test_error']:.2f} | ")
