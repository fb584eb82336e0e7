"""`hitnet finish`: a finished run gets a picture decoder, its classifier and error stay, and a kill loses nothing."""

import shutil
from pathlib import Path

import pytest
import torch

import hitnet
from hitnet.files import write_json
from hitnet.runs import finish
from hitnet.runs.atlas import read_evolution
from hitnet.runs.run import Run
from hitnet.runs.train import resume


@pytest.fixture
def run(squares_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(squares_run, tmp_path / "squares" / "run"))


def classifier(path: Path) -> dict[str, torch.Tensor]:
    weights = hitnet.load(path).state_dict()
    return {name: value for name, value in weights.items() if not name.startswith("decoder.")}


def test_a_run_gets_a_picture_decoder_and_keeps_its_classifier(run: Path, hitnet_says):
    before, former = classifier(run), Run(run).read_result()
    hitnet_says("prototypes", run)
    write_json(Run(run).result_file, former | {"test": {"error": 99.0}})  # it is measured anew
    said = hitnet_says("finish", run, "--steps", "3")
    assert not (run / "plots" / "atlas").exists(), "it shows the former decoder's drawings"
    assert "PaperDecoder" in said
    assert "PictureDecoder" in said
    assert all(torch.equal(value, before[name]) for name, value in classifier(run).items())
    result = Run(run).read_result()
    assert result["test"] | {"loss": 0} == former["test"] | {"loss": 0}, "that of drawings is another"
    assert result["finishing"]["steps"] == 3
    assert hitnet.load(run).config.decoder == "picture"
    assert not Run(run).finishing_file.exists()
    assert not list(run.glob(".*"))
    assert "evolution.gif" in hitnet_says("prototypes", run, "--evolution"), "snapshots hold the former decoder"
    (*_, (_, last), (when, finished)) = read_evolution(hitnet.load(run), Run(run))
    assert when == "finished"
    assert torch.equal(finished, hitnet.prototypes(hitnet.load(run)))
    assert not torch.equal(finished, last)


@pytest.mark.usefixtures("no_pictures")
def test_a_killed_phase_resumes_to_the_same_weights(run: Path, tmp_path: Path, monkeypatch):
    whole = Path(shutil.copytree(run, tmp_path / "squares" / "whole"))
    monkeypatch.setattr(finish, "SAVED_EVERY", 2)
    finish.finish_run(whole, steps=5)
    calls = []

    def kill(done: int, steps: int) -> None:
        calls.append(done)
        if len(calls) == 4:  # the first call tells how far a former phase came
            raise KeyboardInterrupt

    before = hitnet.load(run).state_dict()
    with pytest.raises(KeyboardInterrupt):
        finish.finish_run(run, steps=5, stepped=kill)
    assert all(torch.equal(value, before[name]) for name, value in hitnet.load(run).state_dict().items())
    with pytest.raises(ValueError, match="nothing to resume"):
        resume(run)  # by mistake; the phase is not lost
    seen = []
    finish.finish_run(run, steps=5, stepped=lambda done, steps: seen.append(done))
    assert seen == [2, 1, 1, 1]
    expected = hitnet.load(whole).state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in hitnet.load(run).state_dict().items())


@pytest.mark.usefixtures("no_pictures")
def test_a_network_without_a_centre_is_refused(settings):
    run = hitnet.train(settings(model="lenet5", epochs=1))
    with pytest.raises(ValueError, match=r"lenet5, whose capsules have no centre to draw; choose a run of hitnet-fast"):
        finish.finish_run(run.path)


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("rename", [1, 2, 3])
def test_a_kill_at_any_rename_leaves_a_whole_model(run: Path, rename: int, monkeypatch):
    real, count = Path.rename, iter(range(1, 10))

    def kill(path: Path, target: Path) -> Path:
        if next(count) == rename:
            raise KeyboardInterrupt
        return real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", kill)
        with pytest.raises(KeyboardInterrupt):
            finish.finish_run(run, steps=1)
    assert hitnet.load(run).config.decoder in ("paper", "picture")
    finish.finish_run(run, steps=1)
    assert hitnet.load(run).config.decoder == "picture"


def test_another_number_of_steps_does_not_resume(run: Path, monkeypatch):
    monkeypatch.setattr(finish, "SAVED_EVERY", 1)

    def kill(done: int, steps: int) -> None:
        if Run(run).finishing_file.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        finish.finish_run(run, steps=5, stepped=kill)
    with pytest.raises(ValueError, match=r"cannot be resumed \(its phase has 5 steps, this one 3\)"):
        finish.finish_run(run, steps=3)
    Run(run).finishing_file.write_bytes(b"half")
    with pytest.raises(ValueError, match="cannot be resumed .* remove the file to start again"):
        finish.finish_run(run, steps=5)


@pytest.mark.usefixtures("no_pictures")
def test_a_run_is_finished_with_its_own_number_of_threads(run: Path):
    torch.set_num_threads(2)
    finish.finish_run(run, steps=1)
    assert torch.get_num_threads() == Run(run).read_settings().threads == 1


def test_a_run_finished_twice_is_sifted_once(run: Path):
    finish.finish_run(run, steps=1)
    first = hitnet.load(run).decoder.first.weight.clone()
    finish.finish_run(run, steps=1)
    torch.testing.assert_close(hitnet.load(run).decoder.first.weight, first, rtol=0, atol=0.01)


def test_a_finished_run_is_exported(run: Path, hitnet_says):
    finish.finish_run(run, steps=1)
    assert "decoder.onnx" in hitnet_says("export", run, "--format", "onnx")
    hitnet_says("export", run, "--format", "html")
