"""The programs and the notebook in examples/ run; the loss for pytorch-metric-learning keeps that library's rules."""

import importlib.util
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
import torch
from nbclient import NotebookClient
from pytorch_metric_learning import miners, reducers
from pytorch_metric_learning.utils.loss_and_miner_utils import convert_to_weights

from hitnet import centripetal_loss

EXAMPLES = Path(__file__).parent.parent / "examples"


def read(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_an_example_learns_the_digits_in_one_epoch(name: str):
    assert read(name).main(epochs=1) > 0.8


def test_every_cell_of_the_tour_runs_and_every_picture_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tour = nbformat.read(EXAMPLES / "tour.ipynb", as_version=4)
    cells = [cell for cell in tour.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in cells), "clear the outputs before you commit the notebook"
    monkeypatch.setenv("HITNET_TOUR_QUICK", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    NotebookClient(tour, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    drawn = [cell for cell in cells if cell.source.splitlines()[-1].startswith("figures.")]
    assert len(drawn) == 7
    assert all("image/png" in cell.outputs[-1].data for cell in drawn)


@pytest.fixture
def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(12, 8), torch.arange(12) % 3


def test_the_metric_learning_loss_is_the_centripetal_loss_of_each_image(batch):
    embeddings, labels = batch
    loss = read("metric_learning").HitOrMissLoss(3, 8, capsule_dim=4, reducer=reducers.DoNothingReducer()).eval()
    loss.requires_grad_(False)
    each = centripetal_loss(loss.distances(embeddings), labels, capsule_dim=4, reduction="none")
    torch.testing.assert_close(loss(embeddings, labels)["loss"]["losses"], each)
    loss.reducer = reducers.MeanReducer()
    torch.testing.assert_close(loss(embeddings, labels), each.mean())
    loss.reducer = reducers.ThresholdReducer(low=each.median().item())
    torch.testing.assert_close(loss(embeddings, labels), each[each > each.median()].mean())


def test_a_miner_weighs_the_images(batch):
    embeddings, labels = batch
    loss = read("metric_learning").HitOrMissLoss(3, 8, reducer=reducers.DoNothingReducer()).eval()
    pairs = miners.MultiSimilarityMiner()(embeddings, labels)
    plain, mined = (loss(embeddings, labels, found)["loss"]["losses"] for found in (None, pairs))
    weights = convert_to_weights(pairs, labels, dtype=plain.dtype)
    assert weights.min() < 1
    torch.testing.assert_close(mined, plain * weights)


def test_logits_decide_as_distances_do(batch):
    embeddings, _ = batch
    loss = read("metric_learning").HitOrMissLoss(3, 8).eval()
    assert torch.equal(loss.get_logits(embeddings).argmax(1), loss.distances(embeddings).argmin(1))
