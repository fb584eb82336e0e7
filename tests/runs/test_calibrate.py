"""hitnet calibrate on tiny runs, and what hitnet predict makes of it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.tiny import snapshot, write_squares

import hitnet
from hitnet.data import load_dataset, split_training, to_float
from hitnet.runs.bounds import upper_bound
from hitnet.runs.calibrate import calibrate_run, read_rejection
from hitnet.runs.run import Run
from hitnet.settings import TrainConfig

OPTIONS = {"width": 3, "epochs": 4, "batch_size": 16, "threads": 1, "device": "cpu", "norm_momentum": 0.1}


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A finished run on squares that held half of its images out, made once, to be copied: calm(model, ...)."""
    folder = tmp_path_factory.mktemp("calm")
    data = write_squares(folder / "squares.npz", train=240)
    made: dict[str, Path] = {}

    def make(model: str = "lenet5-hom", **options: object) -> Path:
        if (key := str((model, options))) not in made:
            settings = {**OPTIONS, "data": str(data), "model": model, "validation": 0.5, "decoder": "none", **options}
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("hitnet.runs.result.plot", lambda *_: None)  # takes longer than training
                made[key] = hitnet.train(TrainConfig(out=folder / str(len(made)), **settings)).path
        return made[key]

    return make


@pytest.fixture
def run(calm, tmp_path: Path) -> Path:
    return Path(shutil.copytree(calm(), tmp_path / "run"))


@pytest.mark.parametrize("model", ["lenet5-hom", "lenet5"])
def test_the_threshold_does_to_validation_and_test_images_what_is_reported(calm, model, tmp_path: Path):
    path = Path(shutil.copytree(calm(model), tmp_path / "run"))
    calibrated = calibrate_run(path, max_error=0.2)
    found = calibrated.rejection
    assert found is not None
    assert read_rejection(path) == found
    config, net = Run(path).read_settings(), hitnet.load(path)
    data = load_dataset(config.data)
    held_out = split_training(data, count=config.train_images, validation=config.validation, seed=config.seed)[1]
    assert held_out is not None
    assert len(held_out) == 120
    for images, reported in ((held_out, found.validation), (data.test, found.test)):
        pixels = to_float(images.images)
        answered = hitnet.outlier_score(net, pixels) <= found.threshold
        wrong = net.predict(pixels) != images.labels
        assert reported.images == len(images)
        assert reported.answered == int(answered.sum())
        assert reported.mistakes == int((answered & wrong).sum())
    assert found.validation.answered >= 60
    assert found.test_bound == upper_bound(found.test.mistakes, found.test.answered, 0.95)
    assert calibrated.notes == ()


def test_the_command_line_tells_the_share_and_predict_keeps_to_it(run: Path, hitnet_says, tmp_path: Path):
    said = hitnet_says("calibrate", run, "--max-error", 0.2)
    found = read_rejection(run)
    assert found is not None
    assert f"{found.validation.answered} ({100 * found.validation.answered / 120:.1f} %)" in said
    assert "at most 20 % of such answers are wrong, with 95 % confidence (chosen on 120 validation images)" in said
    images = load_dataset(Run(run).read_settings().data).test.images[:, 0]
    noise = torch.randint(256, (28, 28), dtype=torch.uint8)
    for name, pixels in (("square", images[0]), ("noise", noise)):
        Image.fromarray(pixels.numpy()).save(tmp_path / f"{name}.png")
    files = [tmp_path / "square.png", tmp_path / "noise.png"]
    answers = json.loads(hitnet_says("predict", run, *files, "--json"))
    for answer in answers:
        assert answer["accepted"] == (answer["score"] <= found.threshold)
    said = hitnet_says("predict", run, *files)
    assert "accepted" in said.splitlines()[1]
    assert f"accepted: images with an outlier score up to {found.threshold:.4f}" in said


def test_the_table_bounds_only_what_had_no_say_and_no_confidence_is_rounded_to_certainty(run: Path, hitnet_says):
    said = hitnet_says("calibrate", run, "--max-error", 0.2, "--confidence", 0.9999999)
    found = read_rejection(run)
    assert found is not None
    [row] = [line for line in said.splitlines() if "upper bound" in line]
    assert [cell.strip() for cell in row.split("│")[1:-1]] == [
        "upper bound of their error rate (99.99999 %)",
        "",
        f"{100 * found.test_bound:.3f} %",
    ]
    assert "with 99.99999 % confidence" in said


def test_a_run_finds_its_radii_after_training_and_again_on_request(run: Path, hitnet_says):
    config, before = hitnet.load(run).config, json.loads((run / "result.json").read_text())
    assert (config.coverage, config.calibrated_on) == (0.99, 120)
    settings = Run(run).read_settings()
    data = load_dataset(settings.data)
    held_out = split_training(data, count=None, validation=settings.validation, seed=settings.seed)[1]
    assert held_out is not None
    net = hitnet.load(run)
    hitnet.calibrate(net, to_float(held_out.images), held_out.labels)
    assert net.config == config
    given = hitnet.verdicts(net, to_float(data.test.images))
    assert before["verdicts"]["sure"] == given.count("sure")
    said = hitnet_says("calibrate", run, "--coverage", 0.5)
    after = json.loads((run / "result.json").read_text())
    assert f"{after['verdicts']['sure']} sure" in said
    assert "for 50 % of new images, by 120 held-out ones" in said
    assert max(hitnet.load(run).config.radii or ()) < max(config.radii or ())
    assert after["verdicts"]["covered"] <= before["verdicts"]["covered"]
    assert {name: after[name] for name in before if name != "verdicts"} == {
        name: value for name, value in before.items() if name != "verdicts"
    }


def test_predict_gives_all_classes_that_an_image_may_be(run: Path, hitnet_says, tmp_path: Path):
    images = load_dataset(Run(run).read_settings().data).test.images[:, 0]
    Image.fromarray(images[0].numpy()).save(tmp_path / "square.png")
    net = hitnet.load(run)
    radii, scores = net.config.radii, net.scores(to_float(images[:1].unsqueeze(1)))[0].tolist()
    assert radii is not None
    [answer] = json.loads(hitnet_says("predict", run, tmp_path / "square.png", "--json"))
    names = net.config.class_names
    within = [name for name, score, radius in zip(names, scores, radii, strict=True) if score <= radius]
    assert answer["candidates"] == within
    assert answer["radius"] == radii[names.index(answer["class_name"])]
    assert answer["verdict"] == hitnet.verdicts(net, to_float(images[:1].unsqueeze(1)))[0]


def test_without_a_threshold_predict_accepts_and_rejects_nothing(run: Path, hitnet_says, tmp_path: Path):
    Image.fromarray(np.zeros((28, 28), np.uint8)).save(tmp_path / "black.png")
    assert json.loads(hitnet_says("predict", run, tmp_path / "black.png", "--json"))[0]["accepted"] is None
    assert "accepted" not in hitnet_says("predict", run, tmp_path / "black.png")


def test_validation_images_that_chose_the_epoch_are_owned_up_to(calm):
    assert "chose the epoch" in calibrate_run(calm(patience=3)).notes[0]


class TestRefusals:
    def test_a_run_that_was_trained_on_all_images(self, calm):
        with pytest.raises(ValueError, match="held out no validation images.*train one with --validation 0.1"):
            calibrate_run(calm(validation=0.0))

    def test_a_run_that_is_not_finished(self, run: Path):
        (run / "result.json").unlink()
        with pytest.raises(ValueError, match="is not finished; resume it with"):
            calibrate_run(run)

    def test_other_images_than_those_that_were_held_out(self, run: Path, tmp_path: Path):
        other = write_squares(tmp_path / "squares.npz", train=240, test_seed=5)
        args = json.loads((run / "args.json").read_text())
        (run / "args.json").write_text(json.dumps({**args, "data": str(other)}))
        with pytest.raises(ValueError, match="the data of .* changed"):
            calibrate_run(run)

    @pytest.mark.parametrize(
        ("wish", "message"),
        [
            ({"coverage": 1.0}, "coverage must lie between 0 and 1, got 1.0; 0.99 misses one true class"),
            ({"max_error": 0.0}, "max_error must lie between 0 and 1, got 0.0; 0.01 is one in a hundred"),
            ({"max_error": 20.0}, "max_error must lie between 0 and 1, got 20.0"),
            (
                {"max_error": 0.1, "confidence": 1.0},
                "confidence must lie between 0 and 1, got 1.0; 0.95 is nineteen in twenty",
            ),
        ],
    )
    def test_shares_that_are_none(self, run: Path, wish, message):
        before = snapshot(run)
        with pytest.raises(ValueError, match=message):
            calibrate_run(run, **wish)
        assert snapshot(run) == before

    @pytest.mark.parametrize("content", ["{}", '{"threshold": "much"}', "[]", "{"])
    def test_a_damaged_calibration(self, run: Path, content: str):
        (run / "calibration.json").write_text(content)
        with pytest.raises(ValueError, match="calibration.json"):
            read_rejection(run)
