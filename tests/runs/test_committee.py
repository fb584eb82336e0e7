"""Several networks, or several views of each image, that answer together."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import hitnet
from hitnet.data import load_dataset, to_float
from hitnet.runs.committee import MOVES, View, choose_views, open_committee
from hitnet.runs.evaluate import evaluate_committee

OPTIONS = {"train_images": 200, "epochs": 2, "norm_momentum": 0.1, "decoder": "none", "device": "cpu", "threads": 1}
OPTIONS |= {"validation": 0.1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on mnist-mini: two of lenet5-hom, the second trained with mirrored images, and one of lenet5."""
    place = tmp_path_factory.mktemp("committee")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hitnet.runs.result.plot", lambda *_: None)
        for name, seed, flip in (("lenet5-hom", 0, False), ("lenet5-hom", 1, True), ("lenet5", 0, False)):
            hitnet.train(hitnet.TrainConfig(model=name, seed=seed, flip=flip, out=place, **OPTIONS))
    return place / "mnist-mini"


@pytest.fixture
def runs(folder: Path) -> list[Path]:
    return [folder / "lenet5-hom-s0", folder / "lenet5-hom-s1"]


def error(scores: torch.Tensor) -> float:
    return 100 * float((scores.argmin(1) != load_dataset("mnist-mini").test.labels).double().mean())


def test_a_committee_decides_by_the_mean_distance(runs, hitnet_says):
    images = to_float(load_dataset("mnist-mini").test.images)
    own = [hitnet.load(run).scores(images) for run in runs]
    said = hitnet_says("eval", *runs, "--device", "cpu")
    (path,) = (each for each in runs[0].glob("eval-mnist-mini-committee-*.json"))
    content = json.loads(path.read_text())
    assert content["error"] == pytest.approx(error((own[0] + own[1]) / 2))
    assert [member["error"] for member in content["members"]] == pytest.approx([error(own[0]), error(own[1])])
    assert content["error"] not in [member["error"] for member in content["members"]]
    assert f"{content['error']:.2f} % error" in said
    mistakes = path.with_name(f"{path.stem}-mistakes.csv").read_text().splitlines()
    assert len(mistakes) == 1 + content["mistakes"]


def test_several_views_of_one_network_are_evaluated_on_their_own(runs, hitnet_says):
    said = hitnet_says("eval", runs[0], "--views", "5", "--device", "cpu")
    content = json.loads((runs[0] / "eval-mnist-mini-views-5.json").read_text())
    images = to_float(load_dataset("mnist-mini").test.images)
    assert content["views"] == 5
    assert content["error"] == pytest.approx(error(open_committee(runs[:1], views=5).scores(images)))
    assert f"{content['error']:.2f} % error" in said


def test_each_committee_has_files_of_its_own(runs, tmp_path):
    third = shutil.copytree(runs[1], tmp_path / "third")
    _, first = evaluate_committee(runs, device="cpu")
    _, again = evaluate_committee(runs, device="cpu")
    _, other = evaluate_committee([runs[0], third], device="cpu")
    _, views = evaluate_committee(runs, device="cpu", views=2)
    assert first == again
    assert len({first, other, views}) == 3
    assert {first.parent, other.parent, views.parent} == {runs[0]}


def test_views_average_the_image_and_its_moved_and_mirrored_copies(runs):
    images = 1 - to_float(load_dataset("mnist-mini").test.images[:20])  # bright at the edge
    network = hitnet.load(runs[0])
    padded = torch.nn.functional.pad(images, (1, 1, 1, 1), mode="replicate")
    shown = [padded[:, :, 1 - down : 29 - down, 1 - right : 29 - right] for down, right in MOVES[:5]]
    expected = torch.stack([network.scores(view) for view in shown]).mean(0)
    torch.testing.assert_close(open_committee(runs[:1], views=5).scores(images), expected)
    mirroring = open_committee(runs[1:], views=2)
    expected = (mirroring.model.scores(images) + mirroring.model.scores(images.flip(-1))) / 2
    torch.testing.assert_close(mirroring.scores(images), expected)


def test_a_member_that_keeps_no_pictures_keeps_the_committee_from_showing_any(runs, tmp_path):
    _, file = evaluate_committee(runs, device="cpu")
    assert file.with_name(f"{file.stem}-mistakes.png").is_file()
    private = shutil.copytree(runs[1], tmp_path / "private")
    settings = json.loads((private / "args.json").read_text())
    (private / "args.json").write_text(json.dumps(settings | {"no_exemplars": True}))
    _, file = evaluate_committee([runs[0], private], device="cpu")
    assert not file.with_name(f"{file.stem}-mistakes.png").exists()


def test_the_views_are_all_different_and_only_mirrored_where_training_was():
    plain, mirrored = choose_views(9, mirror=False), choose_views(18, mirror=True)
    assert {view.move for view in plain[1:5]} == {(0, 1), (0, -1), (1, 0), (-1, 0)}
    assert {view.move for view in plain[5:]} == {(1, 1), (-1, -1), (1, -1), (-1, 1)}
    assert len(set(plain)) == 9
    assert len(set(mirrored)) == 18
    assert plain[0] == mirrored[0] == View(False, (0, 0))
    assert not any(view.mirrored for view in plain)


@pytest.mark.parametrize(
    ("count", "mirror", "message"),
    [
        (0, False, r"views must lie in 1\.\.9, got 0; 1 is the image as it is$"),
        (
            10,
            False,
            r"views must lie in 1\.\.9, got 10; there are only 9, or 18 .* with mirrored images$",
        ),
        (19, True, r"views must lie in 1\.\.18, got 19; there are only 18$"),
    ],
)
def test_a_number_of_views_that_there_are_not_is_refused(count, mirror, message):
    with pytest.raises(ValueError, match=message):
        choose_views(count, mirror=mirror)


def test_predict_asks_all_networks_and_gives_no_verdict_of_one(runs, tmp_path, hitnet_says):
    images = load_dataset("mnist-mini").test.images[:1]
    Image.fromarray(images[0, 0].numpy()).save(tmp_path / "digit.png")
    (alone,) = json.loads(hitnet_says("predict", runs[0], tmp_path / "digit.png", "--json", "--device", "cpu"))
    assert alone["verdict"] is not None
    said = hitnet_says("predict", runs[0], tmp_path / "digit.png", "--with", runs[1], "--json", "--device", "cpu")
    (answer,) = json.loads(said)
    mean = sum(hitnet.load(run).scores(to_float(images))[0] for run in runs) / 2
    assert answer["score"] == pytest.approx(float(mean.min()), abs=1e-5)
    assert answer["class_name"] == str(int(mean.argmin()))
    with pytest.raises(SystemExit, match="is a run folder, expected pictures; .* add --with RUN after the pictures"):
        hitnet_says("predict", runs[0], runs[1], tmp_path / "digit.png", "--device", "cpu")
    assert answer["verdict"] is None
    said = hitnet_says("predict", runs[0], tmp_path / "digit.png", "--views", "5", "--device", "cpu")
    assert "no verdicts, no rejected answers: both were calibrated for one network and one view" in said


def test_a_threshold_of_rejection_is_for_one_network_with_one_view(runs, tmp_path, hitnet_says):
    run = shutil.copytree(runs[0], tmp_path / "run")
    Image.fromarray(load_dataset("mnist-mini").test.images[0, 0].numpy()).save(tmp_path / "digit.png")
    hitnet_says("calibrate", run, "--max-error", "0.9", "--device", "cpu")
    (alone,) = json.loads(hitnet_says("predict", run, tmp_path / "digit.png", "--json", "--device", "cpu"))
    assert alone["accepted"] is not None
    for more in (("--views", "2"), ("--with", runs[1])):
        (answer,) = json.loads(hitnet_says("predict", run, tmp_path / "digit.png", "--json", "--device", "cpu", *more))
        assert answer["accepted"] is None


def test_one_network_with_one_view_answers_as_it_always_did(runs):
    images = to_float(load_dataset("mnist-mini").test.images[:9])
    committee = open_committee(runs[:1])
    assert committee.is_one
    assert committee.config is committee.model.config
    assert torch.equal(committee.scores(images), hitnet.load(runs[0]).scores(images))


def test_networks_that_cannot_answer_together_are_refused(runs, folder, small_model, tmp_path):
    with pytest.raises(
        ValueError, match="is lenet5, which does not decide by the smallest distance to a centre; leave"
    ):
        open_committee([runs[0], folder / "lenet5-s0"])
    small_model("lenet5-hom", class_names=tuple("abcdefghij")).save(tmp_path / "letters")
    with pytest.raises(ValueError, match=r"knows other classes than .*: a, b, c, … instead of 0, 1, 2, …"):
        open_committee([runs[0], tmp_path / "letters"])
    for names, difference in (
        (tuple("0123456789ab"), "12 against 10"),
        (tuple("1023456789"), "the same in another order"),
    ):
        small_model("lenet5-hom", class_names=names, num_classes=len(names)).save(tmp_path / "others")
        with pytest.raises(ValueError, match=f"others knows other classes than .*: {difference}; a committee"):
            open_committee([runs[0], tmp_path / "others"])
    for what, shape, option in (
        (r"image_shape \(3, 28, 28\), .* has \(1, 28, 28\)", (3, 28, 28), {}),
        ("fit crop, .* has stretch", (1, 28, 28), {"fit": "crop"}),
        ("capsule_dim 64, .* has 16", (1, 28, 28), {"capsule_dim": 64}),
    ):
        small_model("lenet5-hom", shape, **option).save(tmp_path / "other")
        with pytest.raises(ValueError, match=f"other has {what}; a committee needs networks for the same images"):
            open_committee([runs[0], tmp_path / "other"])
    hitnet.load(runs[0]).save(tmp_path / "copy")
    for same in (runs[0].parent / "." / runs[0].name, runs[0] / "model", tmp_path / "copy"):
        with pytest.raises(ValueError, match="needs different networks, got the same one twice"):
            open_committee([runs[0], runs[1], same])
    network = small_model("lenet5-hom", decoder="picture")
    network.save(tmp_path / "before")
    next(network.decoder.parameters()).data.mul_(2)
    network.save(tmp_path / "finished")
    with pytest.raises(ValueError, match="needs different networks, got the same one twice"):
        open_committee([tmp_path / "before", tmp_path / "finished"])


def test_the_model_in_a_run_folder_is_shown_the_views_that_the_run_is(runs):
    for place in (runs[1], runs[1] / "model"):
        assert open_committee([place], views=2).members[0].views[1].mirrored, place
    assert not open_committee([runs[0] / "model"], views=2).members[0].views[1].mirrored


def test_runs_trained_on_other_data_are_not_tested_on_each_others_images(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("hitnet.runs.result.plot", lambda *_: None)
    test = load_dataset("mnist-mini").test
    np.savez(tmp_path / "part.npz", x_train=test.images[:300, 0].numpy(), y_train=test.labels[:300].numpy())
    other = hitnet.train(
        hitnet.TrainConfig(model="lenet5-hom", data=str(tmp_path / "part.npz"), out=tmp_path, **OPTIONS)
    )
    with pytest.raises(
        ValueError, match="was trained on .*part.npz, .* on mnist-mini; give runs trained on the same data"
    ):
        evaluate_committee([runs[0], other.path], device="cpu")


def test_a_member_that_split_the_same_data_otherwise_is_refused_and_its_own_data_are_split_as_it_did(
    runs, tmp_path, monkeypatch
):
    monkeypatch.setattr("hitnet.runs.result.plot", lambda *_: None)
    test = load_dataset("mnist-mini").test
    source = str(tmp_path / "part.npz")
    np.savez(source, x_train=test.images[:300, 0].numpy(), y_train=test.labels[:300].numpy())
    options = {**OPTIONS, "data": source, "model": "lenet5-hom", "train_images": 100}
    usual, half = (
        hitnet.train(hitnet.TrainConfig(test_fraction=share, out=tmp_path / name, **options)).path
        for name, share in (("usual", 0.2), ("half", 0.5))
    )
    with pytest.raises(ValueError, match=r"trained on other images of .* than .* \(another --fit, --test-fraction"):
        evaluate_committee([usual, half], device="cpu")
    both = [evaluate_committee(order, source, device="cpu")[0] for order in ([runs[0], usual], [usual, runs[0]])]
    assert [content["images"] for content in both] == [60, 60], "the test images of the one that was trained on them"
    assert both[0]["error"] == both[1]["error"]
