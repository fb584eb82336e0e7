"""The simple classifier beside the network."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import hitnet
from hitnet import console
from hitnet.data import load_dataset, split_training
from hitnet.files import write_json
from hitnet.runs import baseline as simple


def test_a_small_set_of_ones_own_gets_the_error_of_a_forest_on_the_same_split(settings, tmp_path):
    noise = np.random.default_rng(0).integers(256, size=(126, 6, 6), dtype=np.uint8)  # each forest errs otherwise
    classes = np.arange(126) % 3
    np.savez(tmp_path / "noise.npz", x_train=noise[:96], y_train=classes[:96], x_test=noise[96:], y_test=classes[96:])
    config = settings(
        epochs=1,
        decoder="none",
        train_images=60,
        validation=0.25,
        data=str(tmp_path / "noise.npz"),
        model="hitnet-fast",
    )
    found = hitnet.train(config).read_result()["baseline"]
    data = load_dataset(config.data)
    training, _ = split_training(data, count=60, validation=0.0, seed=0)
    forest = RandomForestClassifier(100, random_state=0)
    forest.fit(training.images.flatten(1).numpy(), training.labels.numpy())
    expected = 100 * np.mean(forest.predict(data.test.images.flatten(1).numpy()) != data.test.labels.numpy())
    assert found == {"name": "random forest on pixels", "error": pytest.approx(expected)}


def test_large_and_named_sets_get_none(settings, monkeypatch):
    digits = load_dataset("mnist-mini")
    assert simple.baseline(digits, digits.train) is None
    monkeypatch.setattr(simple, "MOST_IMAGES", 95)
    data = load_dataset(settings().data)
    assert simple.baseline(data, data.train) is None


def test_it_is_said_when_the_forest_does_better(settings, monkeypatch, capsys):
    monkeypatch.setattr("hitnet.runs.result.baseline", lambda *_: {"name": "random forest on pixels", "error": -1.0})
    console.show_result(hitnet.train(settings(epochs=1)))
    assert "a random forest on pixels does better on these pictures" in " ".join(capsys.readouterr().out.split())


def test_it_is_said_when_few_answers_are_sure(settings, capsys):
    run = hitnet.train(settings(epochs=1, validation=0.2))
    result = run.read_result()
    forests = ({"name": "random forest on pixels", "error": error} for error in (100.0, 100.0, -1.0))
    # Where a forest does better, the network has learned too little to blame the labels.
    for forest, sure, said in zip(forests, (14, 15, 14), (True, False, False), strict=True):
        verdicts = {**result["verdicts"], "images": 30, "sure": sure}
        write_json(run.result_file, {**result, "baseline": forest, "verdicts": verdicts})
        console.show_result(run)
        assert ("few answers are sure" in capsys.readouterr().out) == said
