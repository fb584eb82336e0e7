"""A run folder: what is in it, and who may replace it."""

import csv
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.tiny import snapshot, write_squares

import hitnet
from hitnet.data import ImageSet, load_dataset, to_float
from hitnet.runs.evaluate import evaluate_run, write_mistakes
from hitnet.runs.run import Run, find_runs
from hitnet.settings import TrainConfig

Settings = Callable[..., TrainConfig]


@pytest.fixture
def run(settings: Settings) -> Run:
    return hitnet.train(settings(ema=0.5, validation=0.25, seed=4))


def test_a_finished_run_folder_is_complete(run: Run, settings: Settings, tmp_path: Path):
    assert run.path == tmp_path / "runs" / "squares" / "lenet5-hom-s4"
    assert set(snapshot(run.path)) == {
        "args.json",
        "env.json",
        "exemplars.safetensors",
        "metrics.csv",
        "model/config.json",
        "model/model.safetensors",
        "plots/confusion.png",
        "plots/curves.png",
        "plots/components.png",
        "plots/inputs.png",
        "plots/prototypes.png",
        "result.json",
    }
    assert run.read_settings() == settings(ema=0.5, validation=0.25, seed=4).resolve()

    environment = json.loads((run.path / "env.json").read_text())
    expected = {"hitnet", "torch", "numpy", "python", "platform", "processor", "cores", "threads", "processes"}
    expected |= {"device", "precision", "git", "data", "command", "started"}
    assert set(environment) == expected
    assert (environment["torch"], environment["threads"], environment["processes"]) == (torch.__version__, 1, 1)

    assert [row["epoch"] for row in run.read_metrics()] == [1, 2, 3]
    splits = {f"{split}_{what}" for split in ("train", "validation", "test") for what in ("error", "loss")}
    assert splits <= set(run.read_metrics()[0])

    result = run.read_result()
    assert (result["data"], result["model"], result["epochs"], result["kept_epoch"]) == ("squares", "lenet5-hom", 3, 3)
    assert result["test"]["error"] == run.read_metrics()[-1]["test_error"]
    assert sum(map(sum, result["test"]["confusion"])) == result["test"]["images"] == 30

    for picture in (run.path / "plots").iterdir():
        with Image.open(picture) as image:
            image.load()
            assert image.format == "PNG"
            assert min(image.size) > 100
            assert len(set(image.convert("L").tobytes())) > 10, f"{picture.name} is blank"


def test_the_kept_model_gives_the_reported_error(run: Run):
    content, file = evaluate_run(run.path)
    assert content["error"] == run.read_result()["test"]["error"]
    assert content["confusion"] == run.read_result()["test"]["confusion"]
    assert file == run.path / "eval-squares.json"
    assert json.loads(file.read_text()) == content


@pytest.mark.usefixtures("no_pictures")
def test_a_run_is_not_measured_on_data_that_changed(settings: Settings, squares: Path):
    run = hitnet.train(settings(epochs=1))
    write_squares(squares, train=97)
    with pytest.raises(ValueError, match=r"the data of .* changed since it began .* restore the former data"):
        evaluate_run(run.path)
    assert not (run.path / "eval-squares.json").exists()


@pytest.mark.usefixtures("no_pictures")
class TestASecondRunIntoTheSameFolder:
    def test_is_refused_with_the_remedy(self, settings: Settings):
        run = hitnet.train(settings())
        before = snapshot(run.path)
        with pytest.raises(
            FileExistsError, match=r"\(finished\) in .*; choose another --seed or --out, .* --overwrite"
        ):
            hitnet.train(settings(epochs=1))
        assert snapshot(run.path) == before

    def test_is_told_to_resume_where_the_first_was_stopped(self, settings: Settings):
        run = hitnet.train(settings())
        (run.path / "result.json").unlink()
        with pytest.raises(FileExistsError, match=f"resume it with hitnet train --resume {run.path}"):
            hitnet.train(settings(epochs=1))

    def test_replaces_it_whole_when_asked_to(self, settings: Settings):
        run = hitnet.train(settings())
        (run.path / "eval-squares.json").write_text("{}")
        hitnet.train(settings(epochs=1), overwrite=True)
        assert run.read_result()["epochs"] == 1
        assert not (run.path / "eval-squares.json").exists()

    def test_is_refused_where_other_files_lie(self, settings: Settings):
        run = Run.named(settings(), "squares")
        run.path.mkdir(parents=True)
        (run.path / "thesis.txt").write_text("years of work")
        with pytest.raises(FileExistsError, match=r"something that is not a run in .*; choose .* --overwrite"):
            hitnet.train(settings(epochs=1))
        assert snapshot(run.path) == {"thesis.txt": b"years of work"}

    @pytest.mark.parametrize("step", ["hitnet.files.shutil.rmtree", "hitnet.runs.run.write_json"])
    def test_takes_no_notice_of_what_a_kill_left(self, step: str, settings: Settings, monkeypatch: pytest.MonkeyPatch):
        def kill(*_: object, ignore_errors: bool = False) -> None:
            if not ignore_errors:
                raise KeyboardInterrupt

        run = hitnet.train(settings(epochs=1))
        with monkeypatch.context() as patch:
            patch.setattr(step, kill)
            with pytest.raises(KeyboardInterrupt):
                hitnet.train(settings(epochs=1), overwrite=True)
        assert find_runs(run.path.parent) == []
        assert hitnet.train(settings(epochs=1)).is_finished
        assert list(run.path.parent.iterdir()) == [run.path]


def test_a_folder_that_is_no_run_is_named(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"there is no run in .*nowhere: expected args.json"):
        Run.open(tmp_path / "nowhere")


def test_a_path_with_spaces_is_quoted_in_the_command_to_type(tmp_path: Path):
    assert Run(tmp_path / "my runs").resume_command == f"hitnet train --resume '{tmp_path}/my runs'"


@pytest.mark.usefixtures("no_pictures")
def test_runs_are_found_at_any_depth_and_an_unfinished_one_has_no_result(settings: Settings, tmp_path: Path):
    hitnet.train(settings(epochs=1))
    other = hitnet.train(settings(epochs=1, out=tmp_path / "runs" / "deeper"))
    (other.path / "result.json").unlink()
    found = {run.path: run for run in find_runs(tmp_path / "runs")}
    assert len(found) == 2
    with pytest.raises(ValueError, match="is not finished; resume it with: hitnet train --resume"):
        found[other.path].read_result()


@pytest.mark.usefixtures("no_pictures")
class TestEvaluationOnOtherData:
    def test_says_that_the_classes_have_other_names(self, settings: Settings, tmp_path: Path):
        run = hitnet.train(settings(epochs=1))
        arrays = dict(np.load(settings().data))
        np.savez(tmp_path / "named.npz", **arrays, class_names=np.array(["left", "middle", "right"]))
        content, file = evaluate_run(run.path, str(tmp_path / "named.npz"))
        assert content["error"] == run.read_result()["test"]["error"]
        assert any("other names (left, middle, right)" in note for note in content["notes"])
        assert re.fullmatch(r"eval-named-[0-9a-f]{8}\.json", file.name)

    def test_of_the_same_name_leaves_the_runs_own_evaluation(self, settings: Settings, tmp_path: Path):
        run = hitnet.train(settings(epochs=1))
        _, own = evaluate_run(run.path)
        (tmp_path / "other").mkdir()
        other = write_squares(tmp_path / "other" / "squares.npz", train=97)
        content, file = evaluate_run(run.path, str(other))
        assert file != own
        assert content["source"] == str(other)
        assert json.loads(own.read_text())["source"] == run.read_settings().data

    def test_takes_classes_in_another_order_by_their_names(self, settings: Settings, tmp_path: Path):
        arrays = dict(np.load(settings().data))
        names = np.array(["left", "mid/dle", "right"])
        np.savez(tmp_path / "named.npz", **arrays, class_names=names)
        run = hitnet.train(settings(epochs=1, data=str(tmp_path / "named.npz")))
        turned = {name: (arrays[name] + 1) % 3 for name in ("y_train", "y_test")}
        # As a folder would have them: no slash.
        folders = np.array(["right", "left", "mid-dle"])
        np.savez(tmp_path / "turned.npz", **{**arrays, **turned}, class_names=folders)
        content, _ = evaluate_run(run.path, str(tmp_path / "turned.npz"))
        assert content["confusion"] == run.read_result()["test"]["confusion"]

    def test_refuses_classes_of_which_only_some_are_known(self, settings: Settings, tmp_path: Path):
        arrays = dict(np.load(settings().data))
        for name, last in (("named", "right"), ("other", "up")):
            np.savez(tmp_path / f"{name}.npz", **arrays, class_names=np.array(["left", "middle", last]))
        run = hitnet.train(settings(epochs=1, data=str(tmp_path / "named.npz")))
        with pytest.raises(ValueError, match=r"not up; rename them to the classes it knows: left, middle, right"):
            evaluate_run(run.path, str(tmp_path / "other.npz"))

    def test_refuses_more_classes_than_it_knows_and_measures_fewer(self, settings: Settings, tmp_path: Path):
        run = hitnet.train(settings(epochs=1))
        with pytest.raises(ValueError, match="expects 3 classes .* got 4 classes"):
            evaluate_run(run.path, str(write_squares(tmp_path / "four.npz", classes=4, train=96, test=32)))
        content, _ = evaluate_run(run.path, str(write_squares(tmp_path / "two.npz", classes=2)))
        assert [row["images"] for row in content["per_class"]] == [15, 15, 0]

    def test_gives_colour_in_grey_and_grey_in_colour_as_the_network_knows_it(self, settings: Settings, tmp_path: Path):
        arrays = dict(np.load(settings().data))
        coloured = {name: arrays[name][..., None].repeat(3, axis=-1) for name in ("x_train", "x_test")}
        np.savez(tmp_path / "coloured.npz", **{**arrays, **coloured})
        grey, colour = hitnet.train(settings()), hitnet.train(settings(data=str(tmp_path / "coloured.npz"), seed=1))
        content, _ = evaluate_run(grey.path, str(tmp_path / "coloured.npz"))
        assert content["confusion"] == grey.read_result()["test"]["confusion"]
        assert content["notes"] == ["colour images are given to the network in grey"]
        content, _ = evaluate_run(colour.path, settings().data)
        assert content["confusion"] == colour.read_result()["test"]["confusion"]
        assert content["notes"] == ["grey images are given to the network in three equal channels"]

    def test_lists_every_mistake_with_the_classes_given_and_answered(self, settings: Settings):
        run = hitnet.train(settings(epochs=1, learning_rate=1e-6))  # learns nothing
        content, file = evaluate_run(run.path)
        rows = list(csv.DictReader((run.path / f"{file.stem}-mistakes.csv").read_text().splitlines()))
        assert len(rows) == content["mistakes"] > 0
        assert (run.path / f"{file.stem}-mistakes.png").is_file()
        net, test = hitnet.load(run.path), load_dataset(settings().data).test
        scores = net.scores(to_float(test.images))
        for row in rows:
            index = int(row["image"])
            assert row["given"] == net.config.class_names[int(test.labels[index])] != row["answered"]
            assert float(row["score"]) == pytest.approx(float(scores[index].min()), rel=1e-4)
        assert [float(row["score"]) for row in rows] == sorted(float(row["score"]) for row in rows)

    def test_measures_all_of_it_where_it_has_no_test_part(self, settings: Settings, tmp_path: Path):
        arrays = dict(np.load(settings().data))
        for name, count in (("own", 96), ("other", 40)):
            np.savez(tmp_path / f"{name}.npz", **{key: arrays[key][:count] for key in ("x_train", "y_train")})
        run = hitnet.train(settings(epochs=1, data=str(tmp_path / "own.npz")))
        content, _ = evaluate_run(run.path, str(tmp_path / "other.npz"))
        assert content["images"] == 40
        assert content["notes"] == ["there is no test split: all 40 images are used"]
        # Its own data under another path: what was not trained on.
        (tmp_path / "link.npz").symlink_to("own.npz")
        content, _ = evaluate_run(run.path, str(tmp_path / "link.npz"))
        assert content["confusion"] == run.read_result()["test"]["confusion"]

    def test_resizes_to_what_the_network_knows_and_says_so(self, settings: Settings, tmp_path: Path):
        run = hitnet.train(replace(settings(epochs=1)))
        arrays = dict(np.load(settings().data))
        arrays |= {name: arrays[name].repeat(2, axis=1).repeat(2, axis=2) for name in ("x_train", "x_test")}
        np.savez(tmp_path / "large.npz", **arrays)
        content, _ = evaluate_run(run.path, str(tmp_path / "large.npz"))
        assert content["images"] == 30
        assert any("28×28 from 56×56" in note for note in content["notes"])


def test_a_mistake_is_listed_whatever_its_file_is_called(small_model, tmp_path):
    model = small_model("lenet5-hom", num_classes=3)
    files = (os.fsdecode(b"a/caf\xe9.png"), "b/two\rlines.png")
    images = ImageSet(torch.zeros(2, 1, 28, 28, dtype=torch.uint8), torch.tensor([0, 1]), files)
    scores = torch.tensor([[1.0, 2.0, 0.1], [1.0, 2.0, 0.2]])  # distances: both are taken for the third class
    write_mistakes(model.head, model.config, scores, images, tmp_path / "mistakes.csv")
    with (tmp_path / "mistakes.csv").open(errors="surrogateescape", newline="") as text:
        assert [row["file"] for row in csv.DictReader(text)] == list(files)


def test_what_is_made_from_the_model_in_a_run_goes_to_the_run(squares_run):
    """`hitnet finish` replaces the model's folder and all that is in it."""
    assert Run.around(squares_run / "model").path == squares_run.resolve()
    assert Run.around(squares_run / "model" / "model.safetensors").path == squares_run.resolve()
    assert Run.around(squares_run).path == squares_run


def test_what_is_made_from_a_model_alone_goes_to_its_folder(squares_run, tmp_path):
    alone = Path(shutil.copytree(squares_run / "model", tmp_path / "model"))
    assert Run.around(alone).path == alone


@pytest.mark.parametrize("classes", [12, 3])
def test_where_one_image_of_each_class_is_more_than_a_tenth_the_run_says_so(settings, no_pictures, tmp_path, classes):
    labels = np.arange(36) % classes
    images = np.random.default_rng(0).integers(0, 255, (36, 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "few.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    few = {"data": str(tmp_path / "few.npz"), "model": "hitnet-fast", "width": 4, "epochs": 1, "decoder": "none"}
    words = "12 of 36 training images are held out, one of each class at least (--validation 0 trains on all)"
    assert (words in hitnet.train(settings(**few)).read_result()["notes"]) == (classes == 12)
