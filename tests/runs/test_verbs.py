"""hitnet prototypes, explain and augment on a small trained run, and training on what they made."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import hitnet
from hitnet import cli
from hitnet.data import HybridAugmentation, Variation, load_dataset, to_float
from hitnet.data.corrections import Correction, read_corrections, write_corrections
from hitnet.files import read_json, write_json
from hitnet.interpret.quality import quality
from hitnet.runs import augment
from hitnet.runs.atlas import file_name, read_evolution
from hitnet.runs.evaluate import evaluate_run
from hitnet.runs.reopen import reopen_drawing
from hitnet.runs.run import Run
from hitnet.runs.train import resume, train
from hitnet.settings import TrainConfig
from hitnet.training.watchers import Watcher


@pytest.fixture
def run(run_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run_folder, tmp_path / "run"))


@pytest.fixture
def small_run(squares_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(squares_run, tmp_path / "squares"))


def test_a_finished_run_reports_the_quality_of_its_drawings(run_folder):
    result = read_json(run_folder / "result.json")
    assert set(result["quality"]) >= {"r2", "component_r2", "sweep_change", "prototypes_recognised", "dead"}
    assert set(result["quality"]) >= {"sweeps_recognised", "samples_hit", "prototypes_blurred", "edge_energy"}
    for name in ("component_r2", "read_back", "cross_talk"):
        assert len(result["quality"][name]) == 4
    assert result["components"]["expected_deviation"] == pytest.approx(0.05)
    assert 0.3 < result["components"]["mean"] < 0.7
    assert (run_folder / "plots" / "components.png").is_file()


def test_prototypes_draws_the_atlas_and_names_what_components_explain(run, hitnet_says):
    said = hitnet_says("prototypes", run)
    for name in ("prototypes", "atlas/0", "atlas/9"):
        assert (run / "plots" / f"{name}.png").stat().st_size > 1000
        assert (run / "plots" / f"{name}.svg").stat().st_size > 1000
    assert "variation within classes explained" in said
    assert "dead components:" in said
    for feature in range(4):
        assert f"c{feature}" in said


def test_prototypes_says_what_the_network_reads_in_its_own_drawings(small_run, hitnet_says):
    result = read_json(small_run / "result.json")
    found = {"prototypes_hit": 0.9, "sweeps_hit": 0.5, "samples_hit": 0.25, "sweeps_recognised": 0.75}
    found |= {"read_back": [1, 1, 0, 0], "cross_talk": [0.25] * 4, "edge_energy": 0.8, "edge_energy_blurred": 0.6}
    (small_run / "result.json").write_text(json.dumps(result | {"quality": result["quality"] | found}))
    said = hitnet_says("prototypes", small_run)
    assert "prototypes 90 %, sweeps 50 %, samples 25 %" in said
    assert "sweeps 75 %" in said
    assert "0.50 of the change, 0.25 leaks into others" in said
    assert "0.80 of a real image's, 0.60 if both are blurred" in said
    kept = {name: value for name, value in result["quality"].items() if name not in found}
    (small_run / "result.json").write_text(json.dumps(result | {"quality": kept}))
    assert "sweeps" not in hitnet_says("prototypes", small_run), "a run made before says what it measured"


def test_prototypes_and_the_model_card_give_no_share_of_a_variation_that_is_not_there(small_run, hitnet_says, tmp_path):
    model, data = hitnet.load(small_run), load_dataset(read_json(small_run / "args.json")["data"]).test
    alone = quality(model, to_float(data.pixels()[:3]), data.labels[:3])  # one image of each class
    result = read_json(small_run / "result.json")
    (small_run / "result.json").write_text(json.dumps(result | {"quality": alone.to_json()}))
    assert "–: no class has two different test images" in hitnet_says("prototypes", small_run)
    card = hitnet.save_pretrained(small_run, tmp_path / "shared") / "README.md"
    assert "(R²) | –: nothing varies in the test images" in card.read_text()


def test_prototypes_measures_the_quality_of_a_run_that_did_not(small_run, hitnet_says):
    result = read_json(small_run / "result.json")
    expected = result.pop("quality")["r2"]
    (small_run / "result.json").write_text(json.dumps(result))
    assert f"{expected:.3f}" in hitnet_says("prototypes", small_run)


def test_the_evolution_ends_in_the_prototypes_of_the_model_itself(run, hitnet_says):
    model = hitnet.load(run)
    evolution = list(read_evolution(model, Run(run)))
    assert [when for when, _ in evolution] == ["epoch 1", "epoch 2"]
    assert torch.equal(evolution[-1][1], hitnet.prototypes(model))
    hitnet_says("prototypes", run, "--evolution")
    with Image.open(run / "plots" / "evolution.gif") as film:
        assert film.n_frames == 2


def test_an_evolution_without_snapshots_says_how_to_get_them(run, hitnet_says):
    shutil.rmtree(run / "snapshots")
    with pytest.raises(SystemExit, match="train with --snapshots"):
        hitnet_says("prototypes", run, "--evolution")


def test_explain_writes_a_card_for_each_image_it_can_read(run, hitnet_says, tmp_path, capsys):
    data = load_dataset("mnist-mini")
    Image.fromarray(data.test.images[0, 0].numpy()).save(tmp_path / "digit.png")
    (tmp_path / "broken.png").write_bytes(b"no picture")
    (tmp_path / "other").mkdir()
    Image.new("RGB", (40, 30), "red").save(tmp_path / "other" / "digit.png")
    files = [tmp_path / "digit.png", tmp_path / "broken.png", tmp_path / "other" / "digit.png"]
    with pytest.raises(SystemExit) as stop:
        hitnet_says("explain", run, *files)
    assert stop.value.code == 1
    assert "broken.png" in capsys.readouterr().out
    folder = run / "explanations"
    assert sorted(path.name for path in folder.iterdir()) == [
        "digit-card-2.json",
        "digit-card-2.png",
        "digit-card.json",
        "digit-card.png",
    ]
    found = read_json(folder / "digit-card.json")
    expected = hitnet.explain(hitnet.load(run), to_float(data.test.images[0]))
    assert found["class"] == expected.class_name
    assert found["words"] == expected.words
    assert found["deformations"][0]["component"] == expected.deformations[0].component
    assert read_json(folder / "digit-card-2.json")["note"] == "28×28 from 40×30, grey from colour"


def test_explain_takes_folders_and_leaves_the_cards_of_other_pictures(small_run, hitnet_says, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        Image.new("L", (28, 28), 90).save(tmp_path / name / "digit.png")
    for folder in ("one", "two", "one"):
        hitnet_says("explain", small_run, tmp_path / folder)
    cards = {path.name: read_json(path)["file"] for path in (small_run / "explanations").glob("*.json")}
    expected = {"digit-card.json": "one", "digit-card-2.json": "two"}
    assert cards == {name: str(tmp_path / folder / "digit.png") for name, folder in expected.items()}


def test_a_picture_with_the_longest_name_has_a_card(small_run, hitnet_says, tmp_path):
    file = tmp_path / f"{'я' * 125}.png"
    Image.new("L", (28, 28), 90).save(file)
    hitnet_says("explain", small_run, file, "--out", tmp_path / "cards")
    (record,) = (tmp_path / "cards").glob("*.json")
    assert read_json(record)["file"] == str(file)


def test_explain_writes_where_it_is_told(run, hitnet_says, tmp_path):
    Image.new("L", (28, 28)).save(tmp_path / "black.png")
    hitnet_says("explain", run, tmp_path / "black.png", "--out", tmp_path / "cards")
    assert (tmp_path / "cards" / "black-card.png").is_file()


def test_explain_answers_what_would_make_it_the_class_that_is_asked_for(run, hitnet_says, tmp_path):
    Image.new("L", (28, 28)).save(tmp_path / "black.png")
    predicted = int(hitnet.load(run).predict(torch.zeros(1, 1, 28, 28)))
    asked = str((predicted + 5) % 10)
    hitnet_says("explain", run, tmp_path / "black.png", "--rival", asked)
    assert read_json(run / "explanations" / "black-card.json")["what_if"]["class"] == asked
    with pytest.raises(SystemExit, match="there is no class 'ten'"):
        hitnet_says("explain", run, tmp_path / "black.png", "--rival", "ten")


def test_a_network_in_one_file_is_explained_beside_it(run, hitnet_says, tmp_path):
    Image.new("L", (28, 28)).save(tmp_path / "black.png")
    hitnet_says("export", run, "--format", "safetensors")
    hitnet_says("explain", run / "network.safetensors", tmp_path / "black.png")
    assert (run / "explanations" / "black-card.png").is_file()


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Three images of each digit to train on and one to test, as an .npz."""
    data = load_dataset("mnist-mini")
    chosen = torch.cat([(data.train.labels == digit).nonzero()[:4, 0] for digit in range(10)]).view(10, 4)
    parts = {"train": chosen[:, :3].flatten(), "test": chosen[:, 3]}
    arrays = {f"x_{name}": data.train.images[places].numpy() for name, places in parts.items()}
    arrays |= {f"y_{name}": data.train.labels[places].numpy() for name, places in parts.items()}
    np.savez(tmp_path / "few.npz", **arrays)
    return tmp_path / "few.npz"


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("format", ["folder", "npz"])
def test_augment_makes_data_that_can_be_trained_on(run, few, hitnet_says, tmp_path, format):
    out = tmp_path / "more"
    said = hitnet_says("augment", run, "--data", few, "--out", out, "--per-image", 2, "--format", format)
    source = out if format == "folder" else tmp_path / "more.npz"
    assert str(source) in said
    data, before = load_dataset(source), load_dataset(few)
    assert (len(data.train), len(data.test)) == (90, 10)
    assert data.class_names == before.class_names
    assert torch.equal(data.train.labels.bincount(), torch.full((10,), 9))
    # Test images are copied, and every original is still among the training images.
    assert {image.numpy().tobytes() for image in data.test.images} == {
        image.numpy().tobytes() for image in before.test.images
    }
    kept = {image.numpy().tobytes() for image in data.train.images}
    assert {image.numpy().tobytes() for image in before.train.images} < kept
    assert train(settings(tmp_path / "runs", data=str(source), train_images=None)).is_finished


def test_augment_makes_a_folder_that_can_be_read_where_a_class_has_no_test_image(few, tmp_path):
    model, before = hitnet.create_model("lenet5-hom", width=2), load_dataset(few)
    data = replace(before, test=before.test.subset(torch.arange(9)))
    loaded = load_dataset(augment.write_augmented(model, data, tmp_path / "more", 1))
    assert loaded.class_names == before.class_names
    assert (len(loaded.train), len(loaded.test)) == (60, 9)


def test_validation_pictures_of_a_folder_go_along(few, hitnet_says, tmp_path):
    model, before = hitnet.create_model("lenet5-hom", width=2), load_dataset(few)
    data = replace(before, validation=before.test.subset(torch.arange(5)))
    loaded = load_dataset(augment.write_augmented(model, data, tmp_path / "more", 1))
    assert loaded.validation is not None
    assert torch.equal(loaded.validation.images, before.test.images[:5])
    with pytest.raises(ValueError, match="has no place for the pictures of val/; write a folder"):
        augment.write_augmented(model, data, tmp_path / "more.npz", 1, format="npz")


def test_a_folder_is_not_given_the_name_of_a_file(run, few, tmp_path):
    with pytest.raises(ValueError, match="add --format npz"):
        augment.write_augmented(hitnet.load(run), load_dataset(few), tmp_path / "more.npz", 1)
    assert not (tmp_path / "more.npz").exists()


def test_augment_with_tweak_zero_repeats_the_images(run, few, tmp_path):
    out = augment.write_augmented(hitnet.load(run), load_dataset(few), tmp_path / "same.npz", 1, 0.0, format="npz")
    images = load_dataset(out).train.images
    assert torch.equal(images[::2], images[1::2])


def test_augment_never_touches_what_is_there_and_leaves_nothing_half_written(run, few, hitnet_says, tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(SystemExit, match="already exists"):
        hitnet_says("augment", run, "--data", few, "--out", tmp_path / "there")

    def fail(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        augment.write_augmented(hitnet.load(run), load_dataset(few), tmp_path / "new", 1, done=fail)
    assert not list(tmp_path.glob("*new*"))
    assert not list(tmp_path.glob(".*new*"))


def test_augment_without_a_place_says_what_to_add(run, hitnet_says):
    with pytest.raises(SystemExit, match="--out FOLDER"):
        hitnet_says("augment", run)


def test_the_preview_draws_only_the_papers_figure(run, few, hitnet_says):
    hitnet_says("augment", run, "--data", few, "--preview")
    assert (run / "plots" / "hybrid.png").is_file()


def test_class_names_become_folder_and_file_names():
    assert augment._folder_names(("T-shirt/top", "Bag")) == ["T-shirt-top", "Bag"]
    with pytest.raises(ValueError, match="same name"):
        augment._folder_names(("a/b", "a-b"))
    assert [file_name(3, "3", 10), file_name(3, "T-shirt/top", 100)] == ["3", "03-T-shirt-top"]


def settings(tmp_path: Path, **options: object) -> TrainConfig:
    base = {"model": "lenet5-hom", "width": 2, "capsule_dim": 4, "epochs": 2, "train_images": 60, "out": tmp_path}
    return TrainConfig(**{**base, **options})  # type: ignore[arg-type]


class Stop(Watcher):
    def epoch_ended(self, row: dict[str, float]) -> None:
        raise KeyboardInterrupt


def weights(run: Path) -> dict[str, torch.Tensor]:
    return hitnet.load(run).state_dict()


@pytest.mark.usefixtures("no_pictures")
def test_a_hybrid_run_repeats_itself_and_resumes_to_the_same_weights(run_folder, tmp_path):
    options = {"augment": "hybrid", "teacher": run_folder, "hybrid_fraction": 0.5, "snapshots": True}
    whole = train(settings(tmp_path / "whole", **options))
    with pytest.raises(KeyboardInterrupt):
        train(settings(tmp_path / "stopped", **options), watcher=Stop())
    stopped = resume(next((tmp_path / "stopped").rglob("args.json")).parent)
    for name, value in weights(whole.path).items():
        assert torch.equal(value, weights(stopped.path)[name]), name
    first, second = (path / "snapshots" / "epoch-0001.safetensors" for path in (whole.path, stopped.path))
    assert first.read_bytes() == second.read_bytes()
    plain = train(settings(tmp_path / "plain"))
    assert any(not torch.equal(value, weights(plain.path)[name]) for name, value in weights(whole.path).items())


@pytest.mark.parametrize("name", ["teacher", "pretrained"])
def test_a_run_that_would_replace_what_it_starts_from_is_refused(run_folder, tmp_path, name):
    source = Path(shutil.copytree(run_folder, tmp_path / "mnist-mini" / "lenet5-hom-s0"))
    options = (
        {"augment": "hybrid", "teacher": source} if name == "teacher" else {"pretrained": str(source), "width": None}
    )
    with pytest.raises(ValueError, match=rf"holds what --{name} names and would be replaced; choose another --seed"):
        train(settings(tmp_path, **options), overwrite=True)
    assert (source / "result.json").is_file()


@pytest.mark.parametrize("name", ["corrections", "data"])
def test_nor_may_it_replace_its_own_data_or_corrections(squares, tmp_path, name):
    run = tmp_path / "squares" / "lenet5-hom-s0"
    run.mkdir(parents=True)
    data = shutil.copy(squares, run) if name == "data" else squares
    write_corrections(run / "decided.csv", [Correction("train/0", "leave out")])
    corrections = run / "decided.csv" if name == "corrections" else None
    with pytest.raises(ValueError, match=rf"holds what --{name} names and would be replaced"):
        train(settings(tmp_path, data=str(data), corrections=corrections), overwrite=True)
    assert (run / "decided.csv").is_file()


@pytest.mark.usefixtures("no_pictures")
def test_a_run_keeps_the_corrections_it_was_trained_with(squares, tmp_path):
    decided = tmp_path / "decided.csv"
    write_corrections(decided, [Correction("train/0", "leave out"), Correction("test/1", "leave out")])
    options = {"data": str(squares), "corrections": decided, "epochs": 2}
    whole = train(settings(tmp_path / "whole", **options))
    with pytest.raises(KeyboardInterrupt):
        train(settings(tmp_path / "stopped", **options), watcher=Stop())
    write_corrections(decided, [*read_corrections(decided), Correction("train/2", "leave out")])
    stopped = resume(next((tmp_path / "stopped").rglob("args.json")).parent)
    for name, value in weights(whole.path).items():
        assert torch.equal(value, weights(stopped.path)[name]), name
    content, _ = evaluate_run(whole.path)
    assert content["error"] == whole.read_result()["test"]["error"]


@pytest.mark.usefixtures("no_pictures")
def test_a_run_whose_teacher_changed_is_not_resumed(run_folder, tmp_path):
    teacher = Path(shutil.copytree(run_folder, tmp_path / "teacher"))
    with pytest.raises(KeyboardInterrupt):
        train(settings(tmp_path / "runs", augment="hybrid", teacher=teacher), watcher=Stop())
    hitnet.create_model("lenet5-hom", capsule_dim=4).save(teacher / "model")
    with pytest.raises(ValueError, match=r"the teacher of .* changed since it began .* start a new run"):
        resume(tmp_path / "runs" / "mnist-mini" / "lenet5-hom-s0")


def test_the_fraction_of_a_batch_that_is_not_deformed_stays_as_it_is(ladder):
    teacher, images = ladder(), torch.full((10, 1, 4, 5), 0.5)
    variation = Variation(hybrid=HybridAugmentation(teacher), hybrid_fraction=0.3)
    generator, bytes_of = torch.Generator().manual_seed(0), (255 * images).byte()
    choices = variation.choose(torch.arange(10), 0, generator, images.device)
    varied = variation.apply(bytes_of, torch.zeros(10, dtype=torch.long), choices, generator)
    changed = (varied != to_float(bytes_of)).flatten(1).any(1)
    assert changed.tolist() == [True] * 3 + [False] * 7


@pytest.mark.usefixtures("no_pictures")
def test_augment_none_is_a_run_without_shifts(tmp_path):
    none = train(settings(tmp_path / "none", augment="none", epochs=1))
    still = train(settings(tmp_path / "still", shift=0, epochs=1))
    for name, value in weights(none.path).items():
        assert torch.equal(value, weights(still.path)[name]), name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"augment": "hybrid"}, "go together"),
        ({"teacher": Path("runs")}, "go together"),
        ({"augment": "none", "flip": True}, "choose one"),
        ({"hybrid_fraction": 1.5}, "hybrid_fraction must lie in"),
        ({"hybrid_fraction": 0.5}, "has no effect without a teacher"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**options)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("lenet5", {}, "has no decoder"),
        ("lenet5-hom", {"image_shape": (1, 20, 20)}, "takes images of shape"),
        ("lenet5-hom", {"class_names": tuple("abcdefghij")}, "has other classes"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused_before_anything_is_written(tmp_path, model, options, message):
    hitnet.create_model(model, width=2, **options).save(tmp_path / "teacher")
    with pytest.raises(ValueError, match=message):
        train(settings(tmp_path / "runs", augment="hybrid", teacher=tmp_path / "teacher"))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("model", "remedy"), [("lenet5", "--model hitnet-fast"), ("lenet5-hom", "--decoder picture")])
def test_a_run_that_does_not_draw_names_what_would(tmp_path, model, remedy):
    hitnet.create_model(model, width=2, decoder="none").save(tmp_path / "model")
    write_json(tmp_path / "args.json", {"model": model})
    with pytest.raises(ValueError, match=f"has no decoder, so it cannot draw; train one with {remedy}"):
        reopen_drawing(tmp_path)
    with pytest.raises(ValueError, match=remedy):
        cli.explain(tmp_path, (tmp_path / "picture.png",))


def test_snapshots_of_a_network_that_does_not_draw_are_refused(tmp_path):
    with pytest.raises(ValueError, match="leave out --snapshots"):
        train(settings(tmp_path / "runs", model="lenet5", snapshots=True))
    assert not (tmp_path / "runs").exists()
