"""Settings, and where they become complete: what a user may choose, and every choice made. Without torch.

`TrainConfig` is what a user types, on the command line or in Python: None leaves a choice to the network. `resolve`
makes `RunSettings` of it, in which nothing is open; a run's args.json holds those. `ModelConfig` is the part that a
network is built from; a model's config.json holds it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from numbers import Integral, Real
from operator import index
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hitnet.errors import nearest_or_raise
from hitnet.files import read_json

DecoderName = Literal["paper", "standardised", "none"]
Schedule = Literal["constant", "decay", "one-cycle"]
Precision = Literal["auto", "float32", "bfloat16"]
ImageShape = tuple[int, int, int]
"""(channels, height, width)"""

Kind = TypeVar("Kind")

# What depends on the network where the user leaves it open: the paper's values, and those of other networks.
PAPER: dict[str, Any] = {
    "norm_momentum": 0.01,  # Keras' 0.99, seen from torch
    "reconstruction_weight": 0.392,
    "schedule": "constant",
    "learning_rate": 0.001,
}
OWN: dict[str, dict[str, Any]] = {
    "hitnet-fast": {
        "norm_momentum": 0.1,
        "reconstruction_weight": 3.0,
        "schedule": "one-cycle",
        "learning_rate": 0.004,
    }
}


def complete(options: dict[str, Any], network: str) -> dict[str, Any]:
    """The options with the network's own value wherever one of them is None."""
    own = {**PAPER, **OWN.get(network, {})}
    return {name: own.get(name) if value is None else value for name, value in options.items()}


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """What can be chosen about a network, whatever its name and its images."""

    capsule_dim: int = 16
    """Components of a capsule (n)."""
    norm: Literal["shared", "separate"] = "shared"
    """BatchNorm of the capsules: statistics shared by all classes, or separate for each."""
    norm_momentum: float | None = None
    """Weight of the newest batch in BatchNorm's running averages; the network's own if not given (paper: 0.01)."""
    norm_eps: float = 1e-3
    """Added to BatchNorm's variances; Keras' constant."""
    hit_radius: float = 0.1
    """Radius of the hit zone (m)."""
    miss_radius: float = 0.9
    """Where the miss zone begins (m')."""
    loss_shape: Literal["stepwise", "smooth"] = "stepwise"
    """The centripetal loss in steps, as in the paper, or as the parabola that smaller and smaller steps come to."""
    routing_iterations: int = 3
    """Rounds of routing by agreement (capsnet only)."""
    width: int | None = None
    """Channels of the encoder; the network's own number if not given."""
    decoder: DecoderName | None = None
    """What draws images from capsules; the network's own choice if not given."""
    reconstruction_weight: float | None = None
    """Weight of the reconstruction loss (α); the network's own if not given (paper: 0.392)."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What can be chosen about a run, whatever its network."""

    data: str = "mnist-mini"
    """mnist-mini, mnist, fashion-mnist, cifar10, svhn, affnist, affnist-like, a folder of class folders, or an .npz."""
    model: str = "hitnet-fast"
    """hitnet-fast, the paper's hitnet, n1, n2, n2b, capsnet; lenet5, resnet18, densenet40-12, also -hom; timm/NAME."""
    epochs: int = 10
    """How often each training image is seen."""
    seed: int = 0
    """Where everything random comes from."""
    out: Path = Path("runs")
    """Where run folders go; this run's is OUT/<data>/<model>-s<seed>."""

    schedule: Schedule | None = None
    """The rate stays, falls 5 % an epoch, or rises and falls once; the network's own if not given (paper: constant)."""
    learning_rate: float | None = None
    """Adam's rate, the highest one of one-cycle; the network's own if not given (paper: 0.001)."""
    batch_size: int = 128
    """Images a step, shared out among all processes."""
    shift: int = 2
    """Training images are moved by up to this many whole pixels each way."""
    flip: bool = False
    """Mirror half of the training images."""
    augment: Literal["none", "shift", "hybrid"] = "shift"
    """none leaves training images where they are; hybrid lets a trained network deform them after the shift."""
    teacher: Path | None = None
    """The run whose network deforms the images (hybrid only)."""
    hybrid_fraction: float = 1.0
    """How much of each batch is deformed; the rest is only shifted."""
    snapshots: bool = False
    """Keep the decoder after each epoch: `hitnet prototypes RUN --evolution` makes a film of them."""
    ema: float = 0.0
    """Average the weights over the steps with this decay (0.999, say) and keep the average; 0 keeps the last ones."""
    train_images: int | None = None
    """Train on so many images only, of each class in proportion and at least one."""
    validation: float = 0.0
    """Fraction of the training images held out for validation."""
    patience: int = 0
    """Stop when the validation error has not improved for so many epochs, and keep the best epoch; 0 never stops."""
    track: Literal["none", "tensorboard"] = "none"
    """tensorboard writes curves, prototypes, reconstructions and histograms of components to RUN/tensorboard."""

    device: str = "auto"
    """auto, cpu, cuda, cuda:1, mps."""
    precision: Precision = "auto"
    """auto is bfloat16 on GPUs that have it, float32 elsewhere."""
    threads: int | None = None
    """CPU threads; torch's own choice if not given."""

    data_dir: Path | None = None
    """Where data sets lie already; nothing is downloaded then. HITNET_DATA says the same."""
    image_size: int | None = None
    """Resize own pictures to this height and width."""
    test_fraction: float = 0.2
    """Fraction of own pictures split off for testing, where they have no test folder."""
    skip_bad: bool = False
    """Go on without unreadable picture files."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig(NetworkOptions):
    """Everything that is needed to build a network again; `from_options` fills in what is left open."""

    name: str = "hitnet"
    """The network, as `list_models` names it."""
    image_shape: ImageShape | None = (1, 28, 28)
    """(channels, height, width); None where only somebody else's network knows its images."""
    num_classes: int = 10
    class_names: tuple[str, ...] = tuple("0123456789")
    """What the classes are called, in the order of their indices."""
    norm_momentum: float = PAPER["norm_momentum"]
    reconstruction_weight: float = PAPER["reconstruction_weight"]

    @classmethod
    def from_options(cls, **options: Any) -> "ModelConfig":
        """A complete configuration; a wrong option is answered with the nearest right one."""
        for name in options:
            nearest_or_raise(name, [known.name for known in fields(cls)], "model option")
        options = {"norm_momentum": None, "reconstruction_weight": None, "class_names": (), **options}
        if options.get("image_shape") is not None:
            options["image_shape"] = checked_shape(options["image_shape"])
        if not options["class_names"]:
            options["class_names"] = tuple(str(index) for index in range(options.get("num_classes", cls.num_classes)))
        return cls(**complete(options, options.get("name", cls.name)))

    def __post_init__(self) -> None:
        if self.image_shape is not None:
            checked_shape(self.image_shape)
        if self.num_classes < 2:
            raise ValueError(f"num_classes must be at least 2, got {self.num_classes}; a classifier needs a choice")
        if self.capsule_dim < 1:
            raise ValueError(f"capsule_dim must be at least 1, got {self.capsule_dim}; the paper has 16")
        if len(self.class_names) != self.num_classes:
            raise ValueError(f"class_names must hold {self.num_classes} names, got {len(self.class_names)}")
        if self.routing_iterations < 1:
            raise ValueError(f"routing_iterations must be at least 1, got {self.routing_iterations}; the paper has 3")
        if self.width is not None and self.width < 1:
            raise ValueError(f"width must be at least 1, got {self.width}; leave it out for the network's own")
        if not 0 < self.norm_momentum <= 1:
            raise ValueError(f"norm_momentum must lie in (0, 1], got {self.norm_momentum}; the paper has 0.01")
        if not 0 < self.norm_eps < math.inf:
            raise ValueError(f"norm_eps must be positive and finite, got {self.norm_eps}; the paper has 0.001")
        if not 0 <= self.reconstruction_weight < math.inf:
            got = self.reconstruction_weight
            raise ValueError(f"reconstruction_weight must be a number from 0 on, got {got}; the paper has 0.392")
        if not 0 < self.hit_radius < self.miss_radius < math.inf:
            raise ValueError(
                f"0 < hit_radius < miss_radius must hold, got {self.hit_radius} and {self.miss_radius}; "
                "the paper has 0.1 and 0.9"
            )


# The bases in this order list the run's options before the network's.
@dataclass(frozen=True, kw_only=True)
class TrainConfig(NetworkOptions, RunOptions):
    """Train one network. Of `model="hitnet"` the defaults are the paper's, but for the number of epochs (250 there)."""

    def __post_init__(self) -> None:
        check_types(vars(self), get_type_hints(type(self)))
        for name, lowest in (("epochs", 1), ("batch_size", 2), ("shift", 0), ("patience", 0), ("seed", 0)):
            if getattr(self, name) < lowest:
                raise ValueError(f"{name} must be at least {lowest}, got {getattr(self, name)}")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads must be at least 1, got {self.threads}; leave it out for torch's own choice")
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise ValueError(
                f"learning_rate must be positive and finite, got {self.learning_rate}; the paper has 0.001"
            )
        for name in ("ema", "validation"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)}; 0 for none")
        if not 0 <= self.hybrid_fraction <= 1:
            raise ValueError(f"hybrid_fraction must lie in [0, 1], got {self.hybrid_fraction}; 1 deforms every image")
        if (self.augment == "hybrid") != (self.teacher is not None):
            raise ValueError("augment hybrid and a teacher go together: --augment hybrid --teacher RUN")
        if self.hybrid_fraction != 1 and self.augment != "hybrid":
            raise ValueError("hybrid_fraction does nothing without a teacher: --augment hybrid --teacher RUN")
        if self.augment == "none" and self.flip:
            raise ValueError("augment none leaves the images as they are, flip mirrors them; choose one of them")
        if self.patience and not self.validation:
            raise ValueError("patience needs a validation split to watch; add validation=0.1, say")

    def resolve(self) -> "RunSettings":
        """The same with every choice made: the network's own value wherever one is left open."""
        return RunSettings(**complete(vars(self), self.model))

    def to_json(self) -> dict[str, Any]:
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}


@dataclass(frozen=True, kw_only=True)
class RunSettings(TrainConfig):
    """What a run is made with: a `TrainConfig` in which no choice is left to the network."""

    schedule: Schedule = field()
    learning_rate: float = field()
    norm_momentum: float = field()
    reconstruction_weight: float = field()

    def resolve(self) -> "RunSettings":
        return self

    def model_config(self, image_shape: ImageShape | None, class_names: tuple[str, ...]) -> ModelConfig:
        """The network for such images and classes."""
        options = {option.name: getattr(self, option.name) for option in fields(NetworkOptions)}
        return ModelConfig(
            name=self.model, image_shape=image_shape, num_classes=len(class_names), class_names=class_names, **options
        )


def checked_shape(image_shape: Sequence[int]) -> ImageShape:
    """(channels, height, width) as a tuple, whatever sequence it came in."""
    try:
        channels, height, width = (index(size) for size in image_shape)
    except (TypeError, ValueError):
        channels = height = width = 0
    if min(channels, height, width) < 1:
        raise ValueError(
            f"image_shape must be (channels, height, width), all at least 1, got {image_shape!r}"
            "; grey images have 1 channel, colour images 3"
        )
    return channels, height, width


def read_run_settings(path: Path) -> RunSettings:
    """The settings of a run from its args.json."""
    return _revive(read_json(path), TrainConfig, TrainConfig, path).resolve()


def read_model_config(path: Path) -> ModelConfig:
    """The configuration of a model from its config.json."""
    return revive_model_config(read_json(path), path)


def revive_model_config(content: dict[str, Any], source: Path) -> ModelConfig:
    """The same from the JSON object itself; `source` is the file that is named where it is wrong."""
    return _revive(content, ModelConfig, ModelConfig.from_options, source)


def _revive(content: dict[str, Any], kind: type[Kind], make: Callable[..., Kind], source: Path) -> Kind:
    """A dataclass from its JSON object; a field of another name or type is an error."""
    hints = get_type_hints(kind)
    if unknown := sorted(content.keys() - hints.keys()):
        raise ValueError(
            f"{source} has no valid {kind.__name__}: there is no {', '.join(unknown)}; "
            f"the fields are {', '.join(hints)}"
        )
    values = {name: _from_json(value, hints[name]) for name, value in content.items()}
    try:
        check_types(values, hints)
        return make(**values)
    except ValueError as error:
        raise ValueError(f"{source} has no valid {kind.__name__}: {error}") from None


def check_types(values: dict[str, Any], hints: dict[str, Any]) -> None:
    """Refuse a value that is not what its field's type hint says."""
    for name, value in values.items():
        if not _fits(value, hints[name]):
            raise ValueError(f"{name} must be {_in_words(hints[name])}, got {value!r}")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of such a type; numpy's numbers are as good as Python's."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, parts[0]) for item in value)
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, {int: Integral, float: Real}.get(hint, hint))


def _in_words(hint: Any) -> str:
    """A type as an error names it: int, Path or None, one of constant, decay."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_in_words(part) for part in parts)
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if hint is type(None):
        return "None"
    return str(getattr(hint, "__name__", hint)) if origin is None else str(hint)


def _from_json(value: Any, hint: Any) -> Any:
    """What JSON does not know: tuples and paths."""
    if isinstance(value, list):
        return tuple(value)
    return Path(value) if isinstance(value, str) and Path in (hint, *get_args(hint)) else value
