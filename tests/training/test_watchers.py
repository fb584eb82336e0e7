"""Training as TensorBoard shows it."""

from collections import Counter
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.tiny import snapshot
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

import hitnet
from hitnet import errors
from hitnet.interpret.prototypes import prototypes
from hitnet.runs import train
from hitnet.runs.run import Run
from hitnet.settings import TrainConfig
from hitnet.training import watchers
from hitnet.training.watchers import Watcher

Settings = Callable[..., TrainConfig]
pytestmark = pytest.mark.usefixtures("no_pictures")


def read(run: Run) -> EventAccumulator:
    found = EventAccumulator(str(run.path / "tensorboard"), size_guidance={"images": 0, "scalars": 0, "histograms": 0})
    return found.Reload()


def counts(run: Run) -> Counter[tuple[str, int]]:
    """How often each number or picture of each epoch was written, whatever a reader makes of it."""
    return Counter(
        (value.tag, event.step)
        for file in (run.path / "tensorboard").iterdir()
        for event in LegacyEventFileLoader(str(file)).Load()
        for value in event.summary.value
    )


def test_scalars_pictures_and_histograms_of_every_epoch_are_there(settings: Settings):
    run = hitnet.train(settings(track="tensorboard", epochs=2, validation=0.25))
    found = read(run)
    for tag, column in {
        "error/test": "test_error",
        "loss/train": "train_loss",
        "error/validation": "validation_error",
    }.items():
        values = [event.value for event in found.Scalars(tag)]
        assert values == pytest.approx([row[column] for row in run.read_metrics()])
    assert {"learning_rate", "reconstruction/train", "classification/train"} <= set(found.Tags()["scalars"])
    assert found.Tags()["images"] == ["prototypes", "reconstructions"]
    names = {"components", *(f"component/c{feature:02d}" for feature in range(16))}
    assert set(found.Tags()["histograms"]) == names
    assert [event.step for event in found.Histograms("components")] == [1, 2]
    assert found.Histograms("component/c03")[-1].histogram_value.num == 30, "one for each test image"


def test_the_last_picture_shows_the_prototypes_of_the_model_that_was_kept(settings: Settings):
    run = hitnet.train(settings(track="tensorboard", epochs=2))
    with Image.open(BytesIO(read(run).Images("prototypes")[-1].encoded_image_string)) as picture:
        shown = np.asarray(picture.convert("L")).astype(int)
    expected = (prototypes(hitnet.load(run.path)) * 255).squeeze(1).numpy()
    assert shown.shape == (28, 3 * 29 - 1)
    for index in range(3):
        assert np.abs(shown[:, 29 * index : 29 * index + 28] - expected[index]).max() <= 1


def test_a_tracked_run_ends_in_the_same_weights_as_another(settings: Settings, tmp_path: Path):
    tracked = hitnet.train(settings(track="tensorboard", decoder="standardised"))
    other = hitnet.train(settings(out=tmp_path / "other", decoder="standardised"))
    assert snapshot(tracked.path / "model") == snapshot(other.path / "model")


@pytest.mark.parametrize("moment", ["before", "in the middle of", "after"])
def test_resuming_neither_repeats_nor_misses_an_epoch(settings: Settings, monkeypatch, moment: str):
    class Killed(BaseException):
        pass

    def kill(*arguments: object) -> None:
        raise Killed

    method = {"before": "epoch_ended", "in the middle of": "_write_components"}.get(moment)
    original = getattr(watchers.TensorBoard, method) if method else None

    class Stops(Watcher):
        """The next epoch's pictures are not written, or only in part; or the run stops after they were."""

        def epoch_ended(self, row: dict[str, float]) -> None:
            if row["epoch"] == 1 and method:
                monkeypatch.setattr(watchers.TensorBoard, method, kill)
            elif row["epoch"] == 2:
                raise Killed

    config = settings(track="tensorboard", epochs=4)
    with pytest.raises(Killed):
        hitnet.train(config, watcher=Stops())
    if method:
        monkeypatch.setattr(watchers.TensorBoard, method, original)
    run = train.resume(Run.named(config, "squares").path)
    found = counts(run)
    assert set(found.values()) == {1}
    assert {step for tag, step in found if tag == "component/c15"} == {1, 2, 3, 4}
    assert {step for tag, step in found if tag == "error/test"} == {1, 2, 3, 4}


@pytest.mark.parametrize("model", ["n1", "n2"])
def test_other_networks_show_what_they_have(settings: Settings, model: str):
    run = hitnet.train(settings(track="tensorboard", epochs=1, model=model, width=8))
    tags = read(run).Tags()
    assert "error/test" in tags["scalars"]
    assert ("reconstruction/train" in tags["scalars"]) == (model == "n2")
    assert tags["images"] == ([] if model == "n1" else ["prototypes", "reconstructions"])
    assert tags["histograms"] == []


def test_more_classes_than_images_for_histograms_have_one_image_each(settings: Settings, monkeypatch):
    monkeypatch.setattr(watchers, "MEASURED", 2)
    found = read(hitnet.train(settings(track="tensorboard", epochs=1)))
    assert found.Histograms("component/c00")[0].histogram_value.num == 3


def test_any_number_of_pictures_fills_its_rows():
    assert watchers._pasted(torch.rand(23, 3, 5, 6)).shape == (3 * 6 - 1, 10 * 7 - 1, 3)
    assert watchers._pasted(torch.rand(2, 1, 5, 6)).shape == (5, 2 * 7 - 1, 3)


def test_without_tensorboard_the_extra_is_named_and_nothing_is_written(settings: Settings, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"needs tensorboard; install: pip install 'hitnet\[tensorboard\]'"):
        hitnet.train(settings(track="tensorboard"))
    assert not (tmp_path / "runs").exists()
