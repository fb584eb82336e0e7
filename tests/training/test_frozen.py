"""A frozen encoder: it looks at every picture once, stays as it is, and the run resumes bit for bit."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.tiny import snapshot

import hitnet
from hitnet import cli
from hitnet.core.model import Model
from hitnet.data import ImageSet, Variation, to_float
from hitnet.runs import train as training
from hitnet.runs.run import Run
from hitnet.settings import TrainConfig
from hitnet.training import frozen
from hitnet.training.frozen import FrozenModel, Memory, look
from hitnet.training.watchers import Row, Watcher

Settings = Callable[..., TrainConfig]
LASTING = ("metrics.csv", "model/config.json", "model/model.safetensors")


@pytest.fixture
def model() -> FrozenModel:
    torch.manual_seed(0)
    return FrozenModel(hitnet.create_model("hitnet-fast", (1, 16, 16), 3, width=4), Memory())


@pytest.fixture
def pictures() -> ImageSet:
    images = torch.randint(256, (10, 1, 16, 16), generator=torch.Generator().manual_seed(2)).byte()
    return ImageSet(images, torch.arange(10) % 3)


def count_looks(model: Model) -> list[int]:
    looks: list[int] = []
    model.encoder.register_forward_hook(lambda _module, inputs, _output: looks.append(len(inputs[0])))
    return looks


@torch.no_grad()
def test_what_it_remembers_is_what_it_sees(model, pictures, tmp_path: Path):
    images = to_float(pictures.images)
    seen, mirrored = model.encoder(images), model.encoder(images.flip(-1))
    look(model, pictures, [], True, tmp_path)
    looks = count_looks(model)
    torch.testing.assert_close(model.features(images), seen)
    torch.testing.assert_close(model.features(images[[7, 2]].flip(-1)), mirrored[[7, 2]])
    assert looks == []


def test_other_pictures_and_gradients_go_through_the_encoder(model, pictures, tmp_path: Path):
    look(model, pictures, [], False, tmp_path)
    looks = count_looks(model)
    images = to_float(pictures.images)
    model.features(images.flip(-1))
    model.features(images + 1e-4)  # it would round to the same bytes
    drawn = images.clone().requires_grad_()
    model.features(drawn).sum().backward()
    assert looks == [10, 10, 10]
    assert drawn.grad.any()


def test_a_look_that_was_stopped_goes_on_where_it_was(model, pictures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(frozen, "BATCH", 2)
    monkeypatch.setattr(frozen, "BATCHES_PER_FILE", 2)
    whole, stopped = copy.deepcopy(model), copy.deepcopy(model)
    whole.memory, stopped.memory = Memory(), Memory()
    look(whole, pictures, [], False, tmp_path / "whole")

    def stop(done: int, total: int) -> None:
        if done:
            said.append(done)
        if sum(said) == 6:
            raise KeyboardInterrupt

    said: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        look(stopped, pictures, [], False, tmp_path / "stopped", stop)
    again: list[tuple[int, int]] = []
    look(model, pictures, [], False, tmp_path / "stopped", lambda *counts: again.append(counts))
    assert again == [(4, 10), (2, 10), (2, 10), (2, 10)]
    assert torch.equal(torch.stack(model.memory.features), torch.stack(whole.memory.features))


class Stops(Watcher):
    def epoch_ended(self, row: Row) -> None:
        if row["epoch"] == 2:
            raise KeyboardInterrupt


@pytest.fixture
def lender(tmp_path: Path) -> Path:
    """A trained encoder, here one that never saw a picture."""
    torch.manual_seed(3)
    hitnet.create_model("lenet5-hom", (1, 28, 28), 5, width=3).save(tmp_path / "lender")
    return tmp_path / "lender"


def test_a_frozen_encoder_is_shown_mirror_images_where_that_was_asked_for(settings: Settings, lender: Path):
    for flip in (False, True):
        with training.prepare(settings(pretrained=str(lender), freeze=True, flip=flip, seed=2)) as (job, _):
            assert job.batches.variation == Variation(flip=flip, seed=2)


def test_a_run_keeps_the_encoder_looks_once_and_resumes_to_the_same_weights(settings: Settings, lender: Path, tmp_path):
    config = settings(pretrained=str(lender), freeze=True, flip=True, validation=0.2, decoder="picture", ema=0.9)
    whole = training.train(config)
    kept, lent = hitnet.load(whole.path), hitnet.load(lender)
    for name, value in lent.encoder.state_dict().items():
        assert torch.equal(kept.encoder.state_dict()[name], value), name
    assert not whole.features_folder.exists()
    assert whole.read_settings().finishing == 0
    assert kept.config.radii is not None

    again = replace(config, out=tmp_path / "again")
    with pytest.raises(KeyboardInterrupt):
        training.train(again, watcher=Stops())
    run = Run.named(again.resolve(), "squares")
    assert list(run.features_folder.iterdir())
    for file in lender.iterdir():  # the state has all that is needed
        file.unlink()
    training.resume(run.path)
    expected = {name: content for name, content in snapshot(whole.path).items() if name in LASTING}
    assert {name: content for name, content in snapshot(run.path).items() if name in LASTING} == expected


def test_the_head_learns_from_what_a_frozen_encoder_sees(settings: Settings, tmp_path: Path):
    first = training.train(settings(model="hitnet-fast", width=4, finishing=0.0, epochs=4, image_size=16))
    lent = str(first.path)
    second = settings(
        model="hitnet-fast", width=4, image_size=16, pretrained=lent, freeze=True, out=tmp_path / "second"
    )
    assert training.train(second).read_result()["test"]["error"] < 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs trained weights: add --pretrained"),
        ({"pretrained": "x", "augment": "hybrid", "teacher": Path("x")}, "at most be mirrored"),
        ({"pretrained": "x", "rotate": 5.0}, "at most be mirrored"),
    ],
)
def test_a_freeze_that_means_nothing_is_refused(settings: Settings, options, words):
    with pytest.raises(ValueError, match=words):
        settings(freeze=True, **options)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("train --pretrained", "train --pretrained timm"),
        ("train --pretrained --freeze", "train --pretrained timm --freeze"),
        ("train --pretrained a.pth --freeze", "train --pretrained a.pth --freeze"),
        ("train --freeze", "train --freeze"),
        ("train --flip", "train --flip True"),
        ("train --augment photos --flip False --epochs 2", "train --augment photos --flip False --epochs 2"),
        ("audit --flip my-pictures", "audit --flip True my-pictures"),
        ("audit --flip false my-pictures", "audit --flip false my-pictures"),
    ],
)
def test_some_values_may_be_left_out_on_the_command_line(typed: str, meant: str):
    assert cli._with_optional_values(typed.split()) == meant.split()
