"""HitNetClassifier among the tools of scikit-learn: its own suite of checks, then images, labels and probabilities."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import hitnet
from hitnet import HitNetClassifier
from hitnet.core.model import evaluating
from hitnet.estimator import best_temperature, split

CORNERS = np.array(["left", "middle", "right"])


@parametrize_with_checks([HitNetClassifier()])
def test_scikit_learn_finds_nothing_wrong(estimator, check):
    check(estimator)


def draw_squares(count: int, channels: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noisy bytes with a bright square whose place tells the class: (count, channels, 12, 12), and names (count,)."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    images = random.integers(0, 60, (count, channels, 12, 12))
    for image, label in zip(images, labels, strict=True):
        image[:, 4:8, 4 * label : 4 * label + 4] += 180
    return images.astype(np.uint8), CORNERS[labels]


def small(**options: object) -> HitNetClassifier:
    """A classifier of images that learns squares in a fraction of a second."""
    return HitNetClassifier(
        **{"width": 4, "capsule_dim": 4, "epochs": 12, "batch_size": 8, "finishing": 0, "random_state": 0, **options}
    )


@pytest.fixture(scope="module")
def squares() -> tuple[np.ndarray, np.ndarray]:
    return draw_squares(60)


@pytest.fixture(scope="module")
def fitted(squares) -> HitNetClassifier:
    return small().fit(*squares)


@pytest.fixture(scope="module")
def iris() -> tuple[np.ndarray, np.ndarray]:
    return load_iris(return_X_y=True)


class TestImages:
    def test_squares_are_learned_and_named(self, fitted):
        images, names = draw_squares(30, seed=1)
        assert fitted.score(images, names) == 1
        assert fitted.classes_.tolist() == ["left", "middle", "right"]

    @pytest.mark.parametrize("channels", [1, 3])
    def test_every_layout_gives_the_same_network(self, channels):
        images, names = draw_squares(24, channels)
        layouts = {"channels first": images, "channels last": images.transpose(0, 2, 3, 1), "floats": images / 255}
        layouts["lists"] = images.tolist()
        if channels == 1:
            layouts["without channels"] = images[:, 0]
        expected = small(epochs=1).fit(images, names).decision_function(images)
        for layout, same in layouts.items():
            found = small(epochs=1).fit(same, names).decision_function(same)
            np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=layout)
        flat = images.reshape(24, -1)
        classifier = small(epochs=1, image_shape=(channels, 12, 12)).fit(flat, names)
        np.testing.assert_allclose(classifier.decision_function(flat), expected, atol=1e-5)

    def test_prototypes_are_those_of_the_network(self, fitted):
        assert fitted.prototypes_.shape == (3, 1, 12, 12)
        np.testing.assert_array_equal(fitted.prototypes_, hitnet.prototypes(fitted.net_).numpy())

    def test_finishing_makes_prototypes_that_are_recognised_and_changes_no_prediction(self, fitted, squares):
        finished = small(finishing=None).fit(*squares)
        np.testing.assert_array_equal(finished.decision_function(squares[0]), fitted.decision_function(squares[0]))
        assert finished.predict(finished.prototypes_).tolist() == ["left", "middle", "right"]
        assert all(weight.requires_grad for weight in finished.net_.parameters())
        before = finished.prototypes_
        finished.partial_fit(*squares)
        assert not np.array_equal(finished.prototypes_, before), "training goes on with the same decoder"

    def test_a_shift_moves_what_is_trained_on(self, squares):
        plain, moved = (small(epochs=1, shift=limit).fit(*squares).decision_function(squares[0]) for limit in (0, 2))
        assert not np.allclose(plain, moved)

    def test_any_network_with_hit_or_miss_will_do(self, squares):
        assert small(model="lenet5-hom", width=3, epochs=1).fit(*squares).net_.config.name == "lenet5-hom"

    def test_any_of_them_can_be_finished(self, squares, monkeypatch):
        monkeypatch.setattr("hitnet.training.finishing.FEWEST_STEPS", 1)
        assert small(model="lenet5-hom", width=3, finishing=0.1).fit(*squares).net_.config.decoder == "picture"


class TestAnswers:
    def test_decisions_are_distances_turned_round(self, fitted, squares):
        images = torch.from_numpy(squares[0]).float() / 255
        with torch.no_grad(), evaluating(fitted.net_):
            out = fitted.net_(images)
        np.testing.assert_allclose(fitted.decision_function(squares[0]), -out.scores.numpy(), atol=1e-5)
        np.testing.assert_allclose(fitted.transform(squares[0]), out.capsules.flatten(1).numpy(), atol=1e-5)
        assert (fitted.predict(squares[0]) == fitted.classes_[out.scores.argmin(1).numpy()]).all()

    def test_probabilities_are_the_softmax_of_distances_over_the_temperature(self, fitted, squares):
        powers = np.exp(fitted.decision_function(squares[0]) / fitted.temperature_)
        expected = powers / powers.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(fitted.predict_proba(squares[0]), expected, atol=1e-5)

    def test_the_temperature_that_made_the_labels_is_found_again(self):
        distances = torch.rand(20_000, 4, dtype=torch.float64)
        labels = torch.multinomial(torch.softmax(-distances / 0.2, dim=1), 1).squeeze(1)
        assert best_temperature(distances, labels) == pytest.approx(0.2, rel=0.05)

    def test_few_right_answers_do_not_make_the_others_certain(self):
        distances = torch.tensor([[0.1, 0.9], [0.9, 0.1]], dtype=torch.float64)
        temperature = best_temperature(distances, torch.tensor([0, 1]))
        # Of two right answers out of two Platt makes 3/4.
        assert torch.softmax(-distances / temperature, dim=1)[0, 0] == pytest.approx(0.75, abs=1e-3)

    def test_without_validation_the_temperature_is_the_hit_radius_until_it_is_fitted_on_other_data(self, iris):
        X, y = iris
        classifier = HitNetClassifier(validation=0, random_state=0).fit(X[::2], y[::2])
        assert classifier.temperature_ == 0.1
        distances = torch.from_numpy(-classifier.decision_function(X[1::2]))
        expected = best_temperature(distances, torch.from_numpy(y[1::2]))
        assert classifier.calibrate(X[1::2], y[1::2]).temperature_ == expected != 0.1

    def test_sets_and_verdicts_are_those_of_the_distances_and_radii(self, fitted, squares):
        distances = fitted._distances(fitted._checked(squares[0])).numpy()
        expected = distances <= np.asarray(fitted.net_.config.radii, distances.dtype)
        np.testing.assert_array_equal(fitted.predict_set(squares[0]), expected)
        nearest = expected[np.arange(len(distances)), distances.argmin(axis=1)]
        alone = expected.sum(axis=1) == 1
        np.testing.assert_array_equal(fitted.verdicts(squares[0]) == "sure", nearest & alone)

    def test_a_set_contains_the_true_class_of_new_rows_as_often_as_promised(self, iris):
        X, y = np.tile(iris[0], (8, 1)), np.tile(iris[1], 8)
        X = X + np.random.default_rng(0).normal(0, 0.3, X.shape)  # so that no row is there twice
        order = np.random.default_rng(1).permutation(len(X))
        seen, new = order[:600], order[600:]
        classifier = HitNetClassifier(epochs=5, validation=0.3, coverage=0.9, random_state=0).fit(X[seen], y[seen])
        covered = classifier.predict_set(X[new])[np.arange(len(new)), y[new]].mean()
        assert covered >= 0.83  # 0.9, less three standard deviations of 180 held-out and 600 new rows
        assert classifier.net_.config.calibrated_on == 180

    def test_training_on_drops_radii_until_it_is_calibrated_again(self, iris):
        X, y = iris
        classifier = HitNetClassifier(epochs=2, random_state=0).fit(X, y)
        assert classifier.predict_set(X).shape == (150, 3)
        with pytest.raises(ValueError, match="predict_set needs radii, .*call calibrate with other data"):
            classifier.partial_fit(X[::2], y[::2]).predict_set(X)
        assert set(classifier.calibrate(X[1::2], y[1::2]).verdicts(X)) <= {"sure", "ambiguous", "unknown"}

    def test_a_class_with_one_member_leaves_the_temperature_as_it_was(self, iris):
        X, y = iris[0][:101], iris[1][:101]
        assert HitNetClassifier(epochs=1).fit(X, y).temperature_ == 0.1


@pytest.mark.parametrize(
    ("classes", "members", "others", "held_out"),
    [(2, 10, 0, 2), (2, 5, 0, 0), (37, 2, 0, 0), (37, 2, 1000, 107), (37, 1, 1000, 0), (2, 1, 0, 0)],
)
def test_a_tenth_is_held_out_or_nothing(classes, members, others, held_out):
    labels = torch.cat([torch.arange(classes).repeat(members), torch.zeros(others, dtype=torch.long)])
    kept, held = split(labels, 0.1, seed=0)
    assert len(held) == held_out
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(len(labels)))


class TestFeatures:
    def test_other_units_give_the_same_answers(self, iris):
        X, y = iris
        others = X * [1e-4, 1e5, 2, 1e-3] + [0.1, -1e6, 50, 0]
        expected, found = (small(epochs=4).fit(data, y).decision_function(data) for data in (X, others))
        np.testing.assert_allclose(found, expected, atol=1e-3)

    def test_a_feature_that_was_constant_may_change_a_little_later(self, iris):
        X, y = np.c_[iris[0], np.full(150, 3.0)], iris[1]
        classifier = small(epochs=4).fit(X, y)
        expected = classifier.decision_function(X)
        X[:, 4] += 1e-3
        np.testing.assert_allclose(classifier.decision_function(X), expected, atol=0.01)

    def test_units_are_those_of_all_rows_learned_from(self, iris):
        X = np.c_[iris[0], np.arange(150) // 75 * 1e6]
        classifier = small()
        for part in (slice(75), slice(75, 150)):
            classifier.partial_fit(X[part], iris[1][part], classes=range(3))
        np.testing.assert_allclose(classifier.scaler_.mean_, X.mean(axis=0))
        np.testing.assert_allclose(classifier.scaler_.scale_, X.std(axis=0))

    def test_a_device_without_double_precision_is_not_used(self, iris, monkeypatch):
        monkeypatch.setattr("hitnet.estimator.choose_device", lambda wish: torch.device("mps"))
        assert next(small(epochs=1).fit(*iris).net_.parameters()).device.type == "cpu"


class TestTools:
    def test_pandas_comes_in_and_goes_out(self):
        X, y = load_iris(return_X_y=True, as_frame=True)
        names = y.map(dict(enumerate(load_iris().target_names))).astype("category")
        classifier = HitNetClassifier(capsule_dim=2, epochs=10, random_state=0).set_output(transform="pandas")
        capsules = classifier.fit(X, names).transform(X)
        assert list(classifier.feature_names_in_) == list(X.columns)
        assert list(capsules.columns) == [f"{name}_c{c}" for name in load_iris().target_names for c in range(2)]
        assert isinstance(capsules, pd.DataFrame)
        assert classifier.score(X, names) > 0.9

    def test_pandas_may_be_the_wish_for_all_transformers(self, iris):
        with config_context(transform_output="pandas"):
            assert isinstance(small(epochs=1).fit(*iris).transform(iris[0]), pd.DataFrame)

    def test_flat_images_from_a_pipeline_are_searched_and_cross_validated(self, squares):
        X, y = squares[0].reshape(60, -1), squares[1]
        pipeline = make_pipeline(MinMaxScaler(clip=True), small(image_shape=(1, 12, 12)))
        search = GridSearchCV(pipeline, {"hitnetclassifier__epochs": [1, 12]}, cv=2).fit(X, y)
        assert search.best_params_ == {"hitnetclassifier__epochs": 12}
        assert search.best_estimator_[-1].prototypes_.shape == (3, 1, 12, 12)
        assert cross_val_score(pipeline, X, y, cv=2).mean() > 0.9

    def test_a_clone_has_the_settings_and_nothing_learned(self, fitted):
        copy = clone(fitted)
        assert copy.get_params() == fitted.get_params()
        assert not hasattr(copy, "net_")

    def test_a_pickled_classifier_answers_and_goes_on_learning_alike(self, squares):
        original = small(epochs=1).fit(*squares)
        copy = pickle.loads(pickle.dumps(original))
        for classifier in (original, copy):
            classifier.partial_fit(*squares)
        np.testing.assert_array_equal(copy.decision_function(squares[0]), original.decision_function(squares[0]))

    def test_the_seed_decides_and_other_random_numbers_do_not_notice(self, squares):
        expected = torch.rand(3)
        torch.manual_seed(0)
        first, again = (small(epochs=1).fit(*squares).decision_function(squares[0]) for _ in range(2))
        assert torch.equal(torch.rand(3), expected)
        np.testing.assert_array_equal(first, again)
        assert not np.allclose(first, small(epochs=1, random_state=1).fit(*squares).decision_function(squares[0]))


class TestGoingOn:
    def test_warm_start_goes_on_where_fit_ended(self, squares):
        classifier = small(epochs=1, warm_start=True).fit(*squares)
        net, first = classifier.net_, -classifier.decision_function(squares[0]).max(axis=1).mean()
        for _ in range(8):
            classifier.fit(*squares)
        assert classifier.net_ is net
        assert -classifier.decision_function(squares[0]).max(axis=1).mean() < first  # nearer to the centre

    def test_warm_start_never_trains_on_what_it_held_out(self, squares, monkeypatch):
        seen = []
        monkeypatch.setattr("hitnet.estimator.fit", lambda net, optimizer, inputs, *_: seen.append(inputs))
        classifier = small(warm_start=True)
        for _ in range(3):
            classifier.fit(*squares)
        assert [len(inputs) for inputs in seen] == [54, 54, 54]
        assert torch.equal(seen[0], seen[1])
        assert torch.equal(seen[0], seen[2])

    def test_without_it_fit_begins_anew(self, squares):
        classifier = small(epochs=1).fit(*squares)
        net = classifier.net_
        assert classifier.fit(*squares).net_ is not net

    def test_partial_fit_learns_from_parts_that_lack_classes(self):
        images, names = draw_squares(60)
        order = names.argsort()
        classifier = small()
        for _ in range(12):
            for part in (order[:40], order[20:]):
                classifier.partial_fit(images[part], names[part], classes=CORNERS)
        assert classifier.score(images, names) > 0.9
        assert classifier.temperature_ == 0.1


class TestFailures:
    def test_a_failed_fit_leaves_nothing_that_answers(self, squares):
        classifier = small(learning_rate=1e30)
        with pytest.raises(ValueError, match="try a tenth of it"):
            classifier.fit(*squares)
        with pytest.raises(NotFittedError):
            classifier.predict(squares[0])
        assert vars(classifier) == classifier.get_params()

    @pytest.mark.parametrize(
        ("way", "rows", "warm"), [("fit", 8, False), ("fit", 12, True), ("partial_fit", 12, False)]
    )
    def test_a_failed_refit_keeps_what_was_learned(self, squares, way, rows, warm):
        classifier = small(epochs=1, warm_start=warm).fit(*squares)
        expected = classifier.predict_proba(squares[0])
        classifier.set_params(learning_rate=1e30)
        with pytest.raises(ValueError, match="try a tenth of it"):
            getattr(classifier, way)(squares[0][:, :, :rows], squares[1])
        np.testing.assert_array_equal(classifier.predict_proba(squares[0]), expected)


@pytest.mark.parametrize(
    ("options", "shape", "message"),
    [
        ({"model": "n1"}, (1, 28, 28), "must be a network with Hit-or-Miss, got 'n1'"),
        ({"model": "hitnet-fats"}, (1, 12, 12), "did you mean 'hitnet-fast'"),
        ({"model": "hitnet-fats"}, (4,), "did you mean 'hitnet-fast'"),
        ({"model": "lenet5-hom"}, (4,), "model and shift are for images, got model='lenet5-hom'.*give image_shape"),
        ({"shift": 2}, (4,), "model and shift are for images.*shift=2"),
        ({"image_shape": (1, 5, 5)}, (24,), r"images of shape \(1, 5, 5\) have 25 values, got 24"),
        ({"image_shape": (5, 5)}, (25,), r"image_shape must be \(channels, height, width\)"),
        ({}, (2, 12, 12), r"must be \(count, h, w\)"),
        ({"epochs": 0}, (4,), "epochs must be at least 1, got 0"),
        ({"learning_rate": 1e30}, (1, 12, 12), "try a tenth of it"),
        ({"device": "gpu"}, (4,), "use auto, cpu, cuda or mps"),
        ({"validation": -0.1}, (4,), r"validation must lie in \[0, 1\), got -0.1"),
        ({"width": 0}, (4,), "width must be at least 1, got 0; leave it out for the network's own"),
        ({"width": -1}, (4,), "width must be at least 1, got -1"),
        ({"width": 2.5}, (4,), "'width' parameter of HitNetClassifier must be .*'int' or None. Got 2.5"),
        ({"epochs": "2"}, (4,), "'epochs' parameter of HitNetClassifier must be .*'int' or None. Got '2'"),
        ({"validation": "x"}, (4,), "'validation' parameter of HitNetClassifier must be .*'float'. Got 'x'"),
        ({"model": None}, (4,), "'model' parameter of HitNetClassifier must be .*'str'. Got None"),
        ({"random_state": "a"}, (4,), "'random_state' parameter of HitNetClassifier must be"),
        ({"image_shape": 5}, (25,), r"image_shape must be \(channels, height, width\), all at least 1, got 5"),
        ({"image_shape": (1, "a", 5)}, (25,), "image_shape must be .*got \\(1, 'a', 5\\)"),
    ],
)
def test_a_mistake_is_answered_with_the_remedy(options, shape, message):
    X, y = np.random.default_rng(0).random((12, *shape)), np.arange(12) % 2
    with pytest.raises(ValueError, match=message):
        HitNetClassifier(**options).fit(X, y)


def test_the_deep_network_is_prepared_and_its_weights_decay(squares):
    classifier = small(model="hitnet-deep", epochs=1).fit(*squares)
    assert classifier.net_.encoder.whitened
    assert [group["weight_decay"] for group in classifier.optimizer_.param_groups] == [0.0, 0.1]


def test_other_data_than_it_was_fitted_on_is_refused(fitted, squares, iris):
    with pytest.raises(ValueError, match=r"floats in \[0, 1\], got values from 0 to 2.*\(255 for bytes\)"):
        fitted.predict(squares[0].astype(float))
    with pytest.raises(ValueError, match=r"whole numbers in 0..255, got values from -128 to 1.*MinMaxScaler"):
        fitted.predict(squares[0].astype(int) - 128)
    with pytest.raises(
        ValueError, match=r"fit got images of shape \(1, 12, 12\), this X has images of shape \(1, 6, 24\)"
    ):
        fitted.predict(squares[0].reshape(60, 1, 6, 24))
    with pytest.raises(ValueError, match="got also \\['top'\\]"):
        fitted.calibrate(squares[0], np.where(squares[1] == "left", "top", squares[1]))
    features = HitNetClassifier(epochs=1).fit(*iris)
    with pytest.raises(ValueError, match="fit got plain features, this X has images"):
        features.predict(np.zeros((2, 2, 2)))
    with pytest.raises(AttributeError, match="only images have prototypes"):
        features.prototypes_  # noqa: B018
    with pytest.raises(ValueError, match="must name all classes"):
        HitNetClassifier().partial_fit(*iris)
    with pytest.raises(ValueError, match="'batch_size' parameter of HitNetClassifier must be .*'int' or None. Got '8'"):
        HitNetClassifier(batch_size="8").partial_fit(*iris, classes=range(3))
    with pytest.raises(ValueError, match=r"the classes are \[0, 1, 2\], got classes=\[0, 1, 2, 3\]"):
        features.partial_fit(*iris, classes=range(4))


def test_scikit_learn_is_loaded_only_when_asked_for_and_missed_in_plain_words():
    code = """
import sys, hitnet, hitnet.training.loop
assert "sklearn" not in sys.modules
sys.modules["sklearn"] = None
from hitnet import *
try:
    hitnet.HitNetClassifier
except ImportError as error:
    assert "pip install 'hitnet[sklearn]'" in str(error), error
else:
    raise AssertionError("scikit-learn was not missed")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
