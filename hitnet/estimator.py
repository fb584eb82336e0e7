"""HitNet as a scikit-learn classifier, for images in any layout and for plain feature vectors."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from hitnet.core.model import Model, build, find_recipe
from hitnet.core.transplant import with_hit_or_miss
from hitnet.data import channels_first, stratified_split
from hitnet.errors import require
from hitnet.interpret.label_quality import best_temperature
from hitnet.interpret.prototypes import prototypes
from hitnet.interpret.verdicts import calibrate_on
from hitnet.settings import ImageShape, RunSettings, Schedule, TrainConfig, checked_shape
from hitnet.training.devices import choose_device, seeded
from hitnet.training.finishing import count_steps
from hitnet.training.fit import finish, fit
from hitnet.training.state import make_optimizer

require("HitNetClassifier", ["sklearn"], "sklearn")

from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils import check_random_state  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets  # noqa: E402
from sklearn.utils.validation import check_is_fitted, validate_data  # noqa: E402

Array = npt.NDArray[Any]


class HitNetClassifier(TransformerMixin, ClassifierMixin, BaseEstimator):
    """A Hit-or-Miss network as a scikit-learn classifier.

    Images are arrays (N, H, W), (N, C, H, W) or (N, H, W, C) with 1 or 3 channels, or flat with `image_shape`: whole
    numbers 0..255, or floats in [0, 1]. Everything else, (N, features), goes through a small fully connected network.

    model: the network for images, any of `hitnet.list_models()` with Hit-or-Miss.
    image_shape: (channels, height, width) of images that come as flat arrays, channel by channel.
    width: channels of the encoder, or units per layer for plain features; the network's own if not given.
    epochs, batch_size: the network's own for so many images if not given, as on the command line; for plain features 30
        epochs in batches of 32.
    learning_rate: Adam's highest rate in `fit`, where it rises and falls once, and the rate of `partial_fit`; the
        network's own if not given.
    shift: training images are moved by up to this many whole pixels each way.
    validation: fraction of the data that `fit` holds out for the temperature of `predict_proba` and the radii of
        `predict_set` and `verdicts`. If that is less than one row per class, or a class has only one row, nothing is
        held out, the temperature is the hit radius, and there are no radii.
    coverage: `predict_set` should contain the true class for this fraction of new rows.
    finishing: after `fit`, train the decoder alone so that the network recognises its own drawings, for this fraction
        of the training steps; predictions stay the same, and 0 leaves it out. The network's own if not given.
    warm_start: `fit` continues with the network it has, and holds out the same rows of the same data.

        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> HitNetClassifier(random_state=0).fit(X, y).transform(X).shape
        (150, 48)
    """

    # Types only; TrainConfig and ModelConfig check the values.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "model": [str],
        "capsule_dim": [Integral],
        "width": [Integral, None],
        "epochs": [Integral, None],
        "batch_size": [Integral, None],
        "learning_rate": [Real, None],
        "shift": [Integral],
        "validation": [Real],
        "coverage": [Real],
        "finishing": [Real, None],
        "warm_start": ["boolean"],
        "device": [str],
        "random_state": ["random_state"],
    }

    classes_: Array
    net_: Model
    """The network itself, for `hitnet.explain` and everything else."""
    scaler_: StandardScaler | None
    """Standardises plain features before the network; None for images."""
    temperature_: float
    image_shape_: ImageShape | None
    """None for plain features."""
    optimizer_: torch.optim.Optimizer

    def __init__(
        self,
        model: str = "hitnet-fast",
        *,
        image_shape: ImageShape | None = None,
        capsule_dim: int = 16,
        width: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        shift: int = 0,
        validation: float = 0.1,
        coverage: float = 0.99,
        finishing: float | None = None,
        warm_start: bool = False,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.model, self.image_shape, self.capsule_dim, self.width = model, image_shape, capsule_dim, width
        self.epochs, self.batch_size, self.learning_rate, self.shift = epochs, batch_size, learning_rate, shift
        self.validation, self.coverage, self.finishing = validation, coverage, finishing
        self.warm_start, self.device, self.random_state = warm_start, device, random_state

    def fit(self, X: Any, y: Any) -> "HitNetClassifier":
        """Train on all but the validation data, then calibrate on those."""
        self._validate_params()
        fresh = not (self.warm_start and hasattr(self, "net_"))
        with self._wholly_or_not_at_all(fresh):
            inputs, y = self._checked(X, y, fresh=fresh)
            if fresh:
                self._start(np.unique(y))
            labels, settings = self._indices(y), self._settings(len(y), epochs=self.epochs, schedule="one-cycle")
            kept, held_out = split(labels, self.validation, self._split_seed)
            self._learn(inputs[kept], labels[kept], settings)
            if self.image_shape_ is not None and settings.finishing:
                steps = count_steps(settings.finishing, settings.epochs * math.ceil(len(kept) / settings.batch_size))
                finish(self.net_, inputs[kept], labels[kept], steps=steps, seed=settings.seed)
            if len(held_out):
                self._calibrate(inputs[held_out], labels[held_out])
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> "HitNetClassifier":
        """Train one epoch at a constant rate; the first call names all classes. Follow it with `calibrate`."""
        self._validate_params()
        fresh = not hasattr(self, "net_")
        if fresh and classes is None:
            raise ValueError("the first call of partial_fit must name all classes; give classes=[...]")
        if not fresh and classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"the classes are {self.classes_.tolist()}, got classes={np.unique(classes).tolist()}; "
                "leave them out, or start over with a clone"
            )
        with self._wholly_or_not_at_all(fresh):
            inputs, y = self._checked(X, y, fresh=fresh)
            if fresh:
                self._start(np.unique(classes))
            self._learn(inputs, self._indices(y), self._settings(len(y), epochs=1, schedule="constant"))
        return self

    def calibrate(self, X: Any, y: Any) -> "HitNetClassifier":
        """Fit temperature and radii again on other data, which must not have been used for training."""
        check_is_fitted(self)
        inputs, y = self._checked(X, y)
        self._calibrate(inputs, self._indices(y))
        return self

    def predict(self, X: Any) -> Array:
        """The class whose capsule lies nearest to the centre: (N,)."""
        check_is_fitted(self)
        return self.classes_[self._distances(self._checked(X)).argmin(dim=1).numpy()]

    def predict_proba(self, X: Any) -> Array:
        """softmax(−distance / temperature), which is not in the paper: (N, classes)."""
        check_is_fitted(self)
        return torch.softmax(-self._distances(self._checked(X)) / self.temperature_, dim=1).numpy()

    def predict_set(self, X: Any) -> Array:
        """Which classes are within their usual distance (split conformal prediction): (N, classes), True or False."""
        distances, radii = self._distances_and_radii(X, "predict_set")
        return self.net_.head.within(distances, radii).numpy()

    def verdicts(self, X: Any) -> Array:
        """Of each answer of `predict`: sure, if its class alone is in `predict_set`, unknown or ambiguous: (N,)."""
        distances, radii = self._distances_and_radii(X, "verdicts")
        return np.asarray(self.net_.head.verdicts(distances, radii), dtype=object)

    def decision_function(self, X: Any) -> Array:
        """−distance: (N, classes). With two classes, how much nearer the second one is: (N,)."""
        check_is_fitted(self)
        distances = self._distances(self._checked(X)).numpy()
        return distances[:, 0] - distances[:, 1] if len(self.classes_) == 2 else -distances

    def transform(self, X: Any) -> Array:
        """The capsules of all classes side by side: (N, classes · capsule_dim)."""
        check_is_fitted(self)
        return self._capsules(self._checked(X)).flatten(1).numpy()

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns of `transform`: class and component, as in `setosa_c3`."""
        check_is_fitted(self)
        names = [f"{name}_c{component}" for name in self.classes_ for component in range(self.net_.head.capsule_dim)]
        return np.asarray(names, dtype=object)

    @property
    def prototypes_(self) -> Array:
        """What each class looks like, drawn without any image: (classes, channels, height, width)."""
        check_is_fitted(self)
        if self.image_shape_ is None:
            raise AttributeError("only images have prototypes, but fit got plain features; give image_shape")
        return prototypes(self.net_).cpu().numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    @contextmanager
    def _wholly_or_not_at_all(self, fresh: bool) -> Iterator[None]:
        """If training fails or is interrupted, restore the classifier as it was before, fitted or not."""
        # Continued training changes the network in place, so it must be copied.
        before = self.__dict__.copy() if fresh else deepcopy(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _checked(self, X: Any, y: Any = "no_validation", *, fresh: bool = False) -> Any:
        """X as the network's inputs and, if given, y as validated by scikit-learn; errors in them are raised here."""
        flat, shape = flattened(X, self.image_shape if fresh else self.image_shape_)
        if isinstance(y, str):
            flat = validate_data(self, flat, reset=fresh)
        else:
            # BatchNorm needs at least two rows.
            flat, y = validate_data(self, flat, y, reset=fresh, ensure_min_samples=2)
            check_classification_targets(y)
        if fresh:
            self.image_shape_ = shape
        if shape != self.image_shape_:
            raise ValueError(f"fit got {in_words(self.image_shape_)}, this X has {in_words(shape)}; give the same kind")
        inputs = to_features(flat) if shape is None else to_images(flat, shape)
        return inputs if isinstance(y, str) else (inputs, y)

    def _start(self, classes: Array) -> None:
        """A new network for these classes."""
        if len(classes) < 2:
            raise ValueError(f"a classifier needs at least 2 classes, got {len(classes)} class; check y")
        self._random = check_random_state(self.random_state)
        settings, device = self._settings(), choose_device(self.device)
        if self.image_shape_ is None and device.type == "mps":
            device = torch.device("cpu")  # plain features are in double precision, which mps does not have
        with seeded(settings.seed, device):
            net = make_net(settings, self.image_shape_, self.n_features_in_, tuple(map(str, classes))).to(device)
        self.classes_, self.net_, self.temperature_ = classes, net, net.config.hit_radius
        self._split_seed = settings.seed  # kept for warm_start: rows that were held out are never trained on
        # Arrays even if scikit-learn is configured to output pandas: they become tensors.
        self.scaler_ = StandardScaler().set_output(transform="default") if self.image_shape_ is None else None
        self.optimizer_ = make_optimizer(net, settings.learning_rate, settings.weight_decay)

    def _settings(
        self, rows: int | None = None, epochs: int | None = None, schedule: Schedule | None = None
    ) -> RunSettings:
        """This classifier's parameters as settings for so many rows, which checks them; every call has a new seed."""
        if not find_recipe(self.model).head.has_hit_zone:
            raise ValueError(f"model must be a network with Hit-or-Miss, got {self.model!r}; try 'hitnet-fast'")
        if self.image_shape_ is None and (self.shift or self.model != "hitnet-fast"):
            raise ValueError(
                f"model and shift are for images, got model={self.model!r}, shift={self.shift} and plain features; "
                "give image_shape, or leave them out"
            )
        batch_size = self.batch_size
        if self.image_shape_ is None:
            epochs, batch_size = 30 if epochs is None else epochs, 32 if batch_size is None else batch_size
        config = TrainConfig(
            model=self.model,
            epochs=epochs,
            batch_size=batch_size,
            schedule=schedule,
            shift=self.shift,
            capsule_dim=self.capsule_dim,
            width=self.width,
            learning_rate=self.learning_rate,
            validation=self.validation,
            coverage=self.coverage,
            finishing=self.finishing,
            decoder="picture" if self.finishing else None,
            seed=self._random.randint(2**31 - 1),
        )
        return config.resolve(rows)

    def _calibrate(self, inputs: Tensor, labels: Tensor) -> None:
        distances = self._distances(inputs)
        self.temperature_ = best_temperature(distances, labels)
        calibrate_on(self.net_, distances, labels, self.coverage)

    def _distances_and_radii(self, X: Any, what: str) -> tuple[Tensor, tuple[float, ...]]:
        check_is_fitted(self)
        if self.net_.config.radii is None:
            raise ValueError(
                f"{what} needs radii, and none were found since the last training; "
                "let fit hold out more rows (validation), or call calibrate with other data"
            )
        return self._distances(self._checked(X)), self.net_.config.radii

    def _indices(self, y: Array) -> Tensor:
        """Labels as class indices: (N,)."""
        if unknown := np.setdiff1d(y, self.classes_).tolist():
            raise ValueError(f"the classes are {self.classes_.tolist()}, got also {unknown}; start with all classes")
        return torch.from_numpy(np.searchsorted(self.classes_, y))

    def _learn(self, inputs: Tensor, labels: Tensor, settings: RunSettings) -> None:
        if self.scaler_ is not None:
            self.scaler_.partial_fit(inputs.numpy())
        self.net_.config = replace(self.net_.config, radii=None, coverage=None, calibrated_on=None)
        fit(self.net_, self.optimizer_, self._scaled(inputs), labels, settings)

    def _scaled(self, inputs: Tensor) -> Tensor:
        """Features standardised by the mean and spread of all training rows; images unchanged."""
        return inputs if self.scaler_ is None else torch.from_numpy(self.scaler_.transform(inputs.numpy()))

    def _capsules(self, inputs: Tensor) -> Tensor:
        """(N, …) -> (N, classes, dims)."""
        return self.net_.all_capsules(self._scaled(inputs).to(self.net_.device)).cpu()

    def _distances(self, inputs: Tensor) -> Tensor:
        """How far the capsule of each class lands from the centre: (N, …) -> (N, classes)."""
        return self.net_.head.score(self._capsules(inputs))


def flattened(X: Any, image_shape: Any) -> tuple[Any, ImageShape | None]:
    """Images in any layout -> (N, channels · height · width) and their shape; flat input is returned unchanged."""
    shape = None if image_shape is None else checked_shape(image_shape)
    if isinstance(X, (list, tuple)):
        X = np.asarray(X)
    if getattr(X, "ndim", 2) <= 2:
        return X, shape
    pixels = channels_first(np.asarray(X), "X")
    return pixels.reshape(len(pixels), -1), checked_shape(pixels.shape[1:])


def to_features(flat: Array) -> Tensor:
    """In double precision, as in scikit-learn: a prediction must not depend on the other rows of its batch."""
    return torch.from_numpy(np.array(flat, dtype=np.float64))


def to_images(flat: Array, shape: ImageShape) -> Tensor:
    """(N, channels · height · width) -> (N, channels, height, width) in [0, 1]; whole numbers become x/255."""
    if flat.shape[1] != math.prod(shape):
        raise ValueError(
            f"images of shape {shape} have {math.prod(shape)} values, got {flat.shape[1]}; check image_shape"
        )
    limit, kind = (255, "whole numbers in 0..255") if flat.dtype.kind in "iu" else (1, "floats in [0, 1]")
    if flat.min() < 0 or flat.max() > limit:
        raise ValueError(
            f"images must be {kind}, got values from {flat.min():g} to {flat.max():g}; divide by the largest value "
            "that a pixel can have (255 for bytes), or scale with MinMaxScaler(clip=True)"
        )
    return torch.from_numpy(np.array(flat, dtype=np.float32) / limit).unflatten(1, shape)


def in_words(image_shape: ImageShape | None) -> str:
    return "plain features" if image_shape is None else f"images of shape {image_shape}"


def make_net(settings: RunSettings, image_shape: ImageShape | None, features: int, names: tuple[str, ...]) -> Model:
    config = settings.model_config(image_shape, names)
    if image_shape is not None:
        return build(config)
    width = 64 if config.width is None else config.width
    layers = nn.Sequential(
        *(nn.Linear(features, width), nn.ReLU()),
        *(nn.Linear(width, width), nn.ReLU()),
        nn.Linear(width, len(names)),
    )
    options: dict[str, Any] = {"class_names": names, "norm_momentum": config.norm_momentum}
    return with_hit_or_miss(layers, len(names), config.capsule_dim, classifier="4", **options).double()


def split(labels: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """(indices to train on, indices held out); nothing is held out if that would be less than one row per class."""
    counts = labels.unique(return_counts=True)[1]
    if round(fraction * len(labels)) < len(counts) or counts.min() < 2:
        return torch.arange(len(labels)), torch.arange(0)
    return stratified_split(labels, fraction, torch.Generator().manual_seed(seed))
