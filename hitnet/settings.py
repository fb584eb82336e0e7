"""All settings that a user can choose. Imports no torch.

`TrainConfig` is what a user types, on the command line or in Python: None leaves a choice to the network. `resolve`
turns it into `RunSettings`, in which every choice is made; a run's args.json holds those. `ModelConfig` is the part
that a network is built from; a model's config.json holds it.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from numbers import Integral, Real
from operator import index
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hitnet.defaults import LARGEST_CHANGE, PAPER, complete
from hitnet.errors import check_known
from hitnet.files import read_json

DecoderName = Literal["paper", "picture", "standardised", "none"]
Schedule = Literal["constant", "decay", "one-cycle"]
Precision = Literal["auto", "float32", "bfloat16"]
Fill = Literal["zeros", "edge"]
Fit = Literal["stretch", "crop", "pad"]
Augment = Literal["none", "shift", "hybrid", "digits", "objects", "photos"]
ImageShape = tuple[int, int, int]
"""(channels, height, width)"""

Kind = TypeVar("Kind")

# The type hint of every field of a class. Python evaluates them anew for each call, which takes longer than all checks.
_type_hints: Callable[[type], dict[str, Any]] = cache(get_type_hints)

# Far beyond any use; a file that names more is damaged, and would take all memory.
LARGEST = {
    "num_classes": 100_000,
    "capsule_dim": 10_000,
    "style_dim": 10_000,
    "width": 10_000,
    "routing_iterations": 100,
}
LARGEST_SIDE = 10_000
LARGEST_SEED = 2**32 - 1  # as numpy and scikit-learn have it


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """Options of a network, apart from its name and its images."""

    capsule_dim: int = 16
    """Number of components of a capsule (n)."""
    style_dim: int = 0
    """Number of components that only the decoder uses, the same for every class: what an image shows besides its class.
    With 16, drawings explain more, but the capsules' own components then hardly change them."""
    norm: Literal["shared", "separate"] = "shared"
    """BatchNorm of the capsules: statistics shared by all classes, or separate for each."""
    norm_momentum: float | None = None
    """Weight of the newest batch in BatchNorm's running averages; the network's own if not given (paper: 0.01)."""
    norm_eps: float = 1e-3
    """Added to BatchNorm's variances; Keras' default."""
    hit_radius: float = 0.1
    """Radius of the hit zone (m)."""
    miss_radius: float = 0.9
    """Where the miss zone begins (m')."""
    loss_shape: Literal["stepwise", "smooth"] = "stepwise"
    """The centripetal loss in steps, as in the paper, or the parabola that is its limit for ever smaller steps."""
    routing_iterations: int = 3
    """Rounds of routing by agreement (capsnet only)."""
    width: int | None = None
    """Channels of the encoder; the network's own number if not given."""
    decoder: DecoderName | None = None
    """The decoder, which draws images from capsules; the network's own if not given."""
    reconstruction_weight: float | None = None
    """Weight of the reconstruction loss (α); the network's own if not given (paper: 0.392)."""
    draw_size: int | None = 64
    """Longest side of drawings, in pixels. Larger images are drawn smaller, in the same proportions; None draws them at
    their own size."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of a run, apart from its network."""

    data: str = "mnist-mini"
    """mnist-mini, mnist, fashion-mnist, cifar10, svhn, affnist, affnist-like, a folder of class folders, or an .npz."""
    model: str = "hitnet-fast"
    """hitnet-fast, hitnet-deep, hitnet (paper), n1, n2, n2b, capsnet; lenet5, resnet18, densenet40-12, also with -hom;
    timm/NAME."""
    pretrained: str | None = None
    """Start with trained weights of the encoder: --pretrained alone downloads timm's own for timm/NAME; a file or a run
    folder holds those of the same network (safetensors, or .pth, .pt, .bin of weights alone)."""
    freeze: bool = False
    """Keep the pretrained encoder as it is and train the rest: every picture goes through it once. No shifts then."""
    epochs: int | None = None
    """How many times each training image is seen; 10, or for few images more: as many as make about 800 steps."""
    seed: int = 0
    """Seed of all random choices."""
    out: Path = Path("runs")
    """Parent of all run folders; this run goes to OUT/<data>/<model>-s<seed>."""

    schedule: Schedule | None = None
    """Rate: constant, falling 5 % per epoch, or one rise and fall; the network's own if not given (paper: constant)."""
    learning_rate: float | None = None
    """Adam's learning rate, the peak for one-cycle; the network's own if not given (paper: 0.001)."""
    weight_decay: float | None = None
    """In each step, shrink the weights of encoder and capsules by this times the rate (AdamW); the network's own if not
    given (paper: 0)."""
    batch_size: int | None = None
    """Images per step, divided among all processes; 128, or fewer for few images, at least 16 (paper: 128)."""
    augment: Augment = "shift"
    """How training images are varied: none, shift (2 pixels), or a recipe for a kind of data, whose parts the next
    options can set: digits are also turned, slanted and scaled, objects turned, scaled, mirrored and partly erased,
    photos recoloured, mirrored and partly erased. hybrid lets a trained network deform them after the shift."""
    shift: int | None = None
    """Shift training images by up to this many whole pixels in each direction; the recipe's own if not given."""
    shift_fill: Fill | None = None
    """What comes in at the edge of a shifted image: zeros (black), or the edge's own pixels; the network's own if not
    given (paper: zeros)."""
    flip: bool | None = None
    """Mirror each training image in every other epoch: --flip, or --flip False; the recipe's own if not given."""
    rotate: float | None = None
    """Turn training images by up to this many degrees; the recipe's own if not given."""
    scale: float | None = None
    """Make them wider or narrower, taller or shorter, by up to this fraction; the recipe's own if not given."""
    shear: float | None = None
    """Slant them by up to this many degrees; the recipe's own if not given."""
    bend: float | None = None
    """Bend them like rubber: 4×4 points move by up to this fraction of the shorter side, and what lies between them
    follows; the recipe's own if not given."""
    colour: float | None = None
    """Change their saturation, contrast and brightness by up to this fraction; the recipe's own if not given."""
    erase: float | None = None
    """Hide a square of this fraction of their side, which the decoder still has to draw; the recipe's own if not
    given."""
    teacher: Path | None = None
    """The run whose network deforms the images (hybrid only)."""
    hybrid_fraction: float = 1.0
    """Fraction of each batch that the trained network deforms; the rest is varied as without it."""
    snapshots: bool = False
    """Save the decoder after each epoch: `hitnet prototypes RUN --evolution` animates the prototypes."""
    ema: float = 0.0
    """Keep a moving average of the weights with this decay per step, e.g. 0.99; in step s at most (1 + s) / (10 + s). 0
    keeps the final weights."""
    refresh_norm: bool | None = None
    """Before each evaluation, compute BatchNorm's averages anew over training images: after few steps, those of
    training lag behind. The network's own if not given (paper: no)."""
    balance: bool | None = None
    """Show every class equally often, however many images it has. If not given, this is done where the largest class
    has more than 5 times as many as the smallest (paper: no)."""
    finishing: float | None = None
    """Afterwards, train the decoder alone so that the network recognises its own drawings: length of this phase as a
    fraction of the training steps, at least 200 steps; 0 for none; the network's own if not given (paper: 0)."""
    train_images: int | None = None
    """Train on only this many images, in proportion to the class sizes, at least one per class."""
    validation: float | None = None
    """Fraction of the training images held out to find how far from its centre a class usually lands, for verdicts,
    and for patience; the network's own if not given (hitnet-fast: 500 images, within 3 to 10 %,
    and one of each class; paper: 0)."""
    coverage: float = 0.99
    """For verdicts: the true class should lie within its usual distance for this fraction of new images."""
    patience: int = 0
    """Stop when the validation error has not improved for this many epochs, and keep the best; 0 never stops early.
    The rate then falls 5 % per epoch where it would otherwise rise and fall once."""
    no_exemplars: bool = False
    """Keep no training images in the run folder; by default a few small copies are kept, shown beside drawings and in
    plots/inputs.png. Nor are prototypes drawn like a typical image, which makes them less clear."""
    track: Literal["none", "tensorboard"] = "none"
    """tensorboard writes curves, prototypes, reconstructions and histograms of components to RUN/tensorboard."""

    device: str = "auto"
    """auto, cpu, cuda, cuda:1, mps."""
    precision: Precision = "auto"
    """auto is bfloat16 on GPUs that support it, float32 elsewhere."""
    threads: int | None = None
    """Number of CPU threads; torch's default if not given."""

    data_dir: Path | None = None
    """Folder that already holds the data sets; nothing is downloaded then. HITNET_DATA does the same."""
    image_size: int | str | None = None
    """Resize images to squares of this side, or to WIDTHxHEIGHT, as in 32x48."""
    fit: Fit = "stretch"
    """Pictures of another shape than that: stretch them, crop their middle, or pad them with the pixels of their edge.
    New pictures are treated in the same way."""
    cache: Path | None = None
    """Folder for the decoded pictures of large folders, beyond 256 MB; the user's cache folder if not given."""
    test_fraction: float = 0.2
    """Fraction of your own images held out for testing if they have no test split."""
    skip_bad: bool = False
    """Skip unreadable picture files instead of stopping."""
    corrections: Path | None = None
    """Labels to correct and pictures to leave out: a CSV file, as the view Audit of `hitnet explore` writes it."""
    fold: str | None = None
    """Train on all images but one part of them, and test on that part: 2/3 is the second of three, 1/1 trains on all.
    For `hitnet audit`, and for cross-validation."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig(NetworkOptions):
    """Everything needed to rebuild a network; `from_options` fills in what is left open."""

    name: str = "hitnet"
    """The network's name, as in `list_models`."""
    image_shape: ImageShape | None = (1, 28, 28)
    """(channels, height, width); None for a user's own network of unknown image shape."""
    num_classes: int = 10
    class_names: tuple[str, ...] = tuple("0123456789")
    """Names of the classes, in the order of their indices."""
    fit: Fit = "stretch"
    """How pictures of another shape were brought to `image_shape`, and must be."""
    norm_momentum: float = PAPER["norm_momentum"]
    decoder: DecoderName = PAPER["decoder"]
    reconstruction_weight: float = PAPER["reconstruction_weight"]
    normalised: bool = False
    """Whether the encoder normalises images itself, as its pretrained weights expect them (timm networks only)."""
    radii: tuple[float, ...] | None = None
    """How far from the centre each class may land to count as hit, found on held-out images; None: not calibrated."""
    coverage: float | None = None
    """The share of new images of the same kind whose true class lies within its radius, at least."""
    calibrated_on: int | None = None
    """The number of held-out images that the radii come from."""

    @classmethod
    def from_options(cls, **options: Any) -> "ModelConfig":
        """A complete configuration; the error for an unknown option suggests the closest known one."""
        for name in options:
            check_known(name, [known.name for known in fields(cls)], "model option")
        options = {"norm_momentum": None, "decoder": None, "reconstruction_weight": None, "class_names": (), **options}
        if options.get("image_shape") is not None:
            options["image_shape"] = checked_shape(options["image_shape"])
        _check_largest(options)
        if not options["class_names"]:
            options["class_names"] = tuple(str(index) for index in range(options.get("num_classes", cls.num_classes)))
        return cls(**complete(options, options.get("name", cls.name)))

    @property
    def drawing_shape(self) -> ImageShape | None:
        """(channels, height, width) of drawings: the image's, its longest side at most `draw_size`."""
        if self.image_shape is None or self.draw_size is None or max(self.image_shape[1:]) <= self.draw_size:
            return self.image_shape
        channels, *sides = self.image_shape
        height, width = (max(1, round(side * self.draw_size / max(sides))) for side in sides)
        return channels, height, width

    def __post_init__(self) -> None:
        _check_largest(vars(self))
        if self.image_shape is not None:
            checked_shape(self.image_shape)
        if self.draw_size is not None and self.draw_size < 1:
            raise ValueError(f"draw_size must be at least 1 pixel, got {self.draw_size}; the usual one is 64")
        if self.num_classes < 2:
            raise ValueError(
                f"num_classes must be at least 2, got {self.num_classes}; one class leaves nothing to choose"
            )
        if self.capsule_dim < 1:
            raise ValueError(f"capsule_dim must be at least 1, got {self.capsule_dim}; the paper uses 16")
        if self.style_dim < 0:
            raise ValueError(f"style_dim must be at least 0, got {self.style_dim}; 0 means no style")
        if self.style_dim and self.decoder == "none":
            raise ValueError(f"style_dim {self.style_dim} has no use without a decoder; leave it out or add a decoder")
        if len(self.class_names) != self.num_classes:
            raise ValueError(f"class_names must hold {self.num_classes} names, got {len(self.class_names)}")
        if self.routing_iterations < 1:
            raise ValueError(f"routing_iterations must be at least 1, got {self.routing_iterations}; the paper uses 3")
        if self.width is not None and self.width < 1:
            raise ValueError(f"width must be at least 1, got {self.width}; leave it out for the network's own")
        if not 0 < self.norm_momentum <= 1:
            raise ValueError(f"norm_momentum must lie in (0, 1], got {self.norm_momentum}; the paper uses 0.01")
        if not 0 < self.norm_eps < math.inf:
            raise ValueError(f"norm_eps must be positive and finite, got {self.norm_eps}; the paper uses 0.001")
        if not 0 <= self.reconstruction_weight < math.inf:
            got = self.reconstruction_weight
            raise ValueError(f"reconstruction_weight must be finite and at least 0, got {got}; the paper uses 0.392")
        if not 0 < self.hit_radius < self.miss_radius < math.inf:
            raise ValueError(
                f"0 < hit_radius < miss_radius must hold, got {self.hit_radius} and {self.miss_radius}; "
                "the paper uses 0.1 and 0.9"
            )
        if self.radii is not None:
            farthest = self.capsule_dim**0.5 / 2
            most = farthest * (1 + 1e-6)  # distances are rounded
            if len(self.radii) != self.num_classes or not all(0 <= radius <= most for radius in self.radii):
                raise ValueError(
                    f"radii must hold {self.num_classes} distances, each at most {farthest:.3g}, got others; "
                    "find them again with hitnet calibrate"
                )
            if self.coverage is None or not 0 < self.coverage < 1:
                raise ValueError(f"coverage must lie between 0 and 1, got {self.coverage}")
            if self.calibrated_on is None or self.calibrated_on < 1:
                raise ValueError(f"calibrated_on must be at least 1 image, got {self.calibrated_on}")
        elif self.coverage is not None or self.calibrated_on is not None:
            raise ValueError("coverage and calibrated_on go with radii; find all three with hitnet calibrate")


# With the bases in this order, the run's options are listed before the network's.
@dataclass(frozen=True, kw_only=True)
class TrainConfig(NetworkOptions, RunOptions):
    """Train one network. With `model="hitnet"` the defaults are the paper's, except for the epochs (250 there)."""

    def __post_init__(self) -> None:
        for name in ("out", "teacher", "data_dir", "cache", "corrections"):
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, Path(value))
        check_types(vars(self), _type_hints(type(self)))
        for name, lowest in (("epochs", 1), ("batch_size", 2), ("shift", 0), ("patience", 0)):
            if getattr(self, name) is not None and getattr(self, name) < lowest:
                raise ValueError(f"{name} must be at least {lowest}, got {getattr(self, name)}")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise ValueError(f"seed must lie in 0..{LARGEST_SEED}, got {self.seed}")
        if self.draw_size is not None and self.draw_size < 1:
            raise ValueError(f"draw_size must be at least 1 pixel, got {self.draw_size}; the usual one is 64")
        if self.freeze and self.pretrained is None:
            raise ValueError("freeze keeps the encoder as it is, so it needs trained weights: add --pretrained")
        if self.freeze and (
            self.augment not in ("none", "shift") or any(getattr(self, name) for name in ("shift", *LARGEST_CHANGE))
        ):
            raise ValueError(
                "freeze looks at every picture once, which can at most be mirrored; leave out other variation"
            )
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads must be at least 1, got {self.threads}; leave it out for torch's default")
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise ValueError(
                f"learning_rate must be positive and finite, got {self.learning_rate}; the paper uses 0.001"
            )
        for name in ("finishing", "weight_decay"):
            if getattr(self, name) is not None and not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be finite and at least 0, got {getattr(self, name)}; 0 turns it off")
        if (self.learning_rate or 0) * (self.weight_decay or 0) >= 1:
            raise ValueError(
                f"weight_decay × learning_rate must be less than 1, got {self.weight_decay} × {self.learning_rate}: no "
                "weight would survive a step; hitnet-deep uses 0.1 × 0.004"
            )
        for name in ("ema", "validation"):
            if getattr(self, name) is not None and not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)}; 0 turns it off")
        if not 0 < self.coverage < 1:
            raise ValueError(f"coverage must lie between 0 and 1, got {self.coverage}; 0.99 misses one in a hundred")
        if not 0 <= self.hybrid_fraction <= 1:
            raise ValueError(f"hybrid_fraction must lie in [0, 1], got {self.hybrid_fraction}; 1 deforms every image")
        if (self.augment == "hybrid") != (self.teacher is not None):
            raise ValueError("augment hybrid and a teacher go together: --augment hybrid --teacher RUN")
        if self.hybrid_fraction != 1 and self.augment != "hybrid":
            raise ValueError("hybrid_fraction has no effect without a teacher: --augment hybrid --teacher RUN")
        for name, most in LARGEST_CHANGE.items():
            if getattr(self, name) is not None and not 0 <= getattr(self, name) <= most:
                raise ValueError(f"{name} must lie in [0, {most:g}], got {getattr(self, name)}; 0 turns it off")
        for name in ("shift", "flip", *LARGEST_CHANGE):
            if self.augment == "none" and getattr(self, name):
                raise ValueError(f"augment none leaves the images as they are, {name} changes them; choose one")
        if self.fold is not None:
            parse_fold(self.fold)

    def resolve(self, images: int | None = None, uneven: bool = False) -> "RunSettings":
        """The same with every open choice filled in with the network's own value, for so many training images."""
        return RunSettings(**complete(vars(self), self.model, images, uneven))

    def to_json(self) -> dict[str, Any]:
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}


@dataclass(frozen=True, kw_only=True)
class RunSettings(TrainConfig):
    """The settings of a run: a `TrainConfig` in which no choice is left open."""

    epochs: int = field()
    schedule: Schedule = field()
    learning_rate: float = field()
    weight_decay: float = field()
    batch_size: int = field()
    shift: int = field()
    shift_fill: Fill = field()
    flip: bool = field()
    rotate: float = field()
    scale: float = field()
    shear: float = field()
    bend: float = field()
    colour: float = field()
    erase: float = field()
    refresh_norm: bool = field()
    balance: bool = field()
    finishing: float = field()
    validation: float = field()
    norm_momentum: float = field()
    decoder: DecoderName = field()
    reconstruction_weight: float = field()

    def resolve(self, images: int | None = None, uneven: bool = False) -> "RunSettings":
        return self

    def model_config(self, image_shape: ImageShape | None, class_names: tuple[str, ...]) -> ModelConfig:
        """The configuration of the network for these images and classes."""
        options = {option.name: getattr(self, option.name) for option in fields(NetworkOptions)}
        return ModelConfig(
            name=self.model,
            image_shape=image_shape,
            num_classes=len(class_names),
            class_names=class_names,
            fit=self.fit,
            normalised=self.pretrained is not None and self.model.startswith("timm/"),
            **options,
        )


def parse_fold(fold: str) -> tuple[int, int]:
    """`2/3`, the second of three parts, as (2, 3)."""
    found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", fold)
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count:
        raise ValueError(f"fold must be one of so many parts, as in 1/3, 2/3 or 3/3, got {fold!r}")
    return number, count


def checked_shape(image_shape: Sequence[int]) -> ImageShape:
    """(channels, height, width) as a tuple, from any sequence."""
    try:
        channels, height, width = (index(size) for size in image_shape)
    except (TypeError, ValueError):
        channels = height = width = 0
    if min(channels, height, width) < 1:
        raise ValueError(
            f"image_shape must be (channels, height, width), all at least 1, got {image_shape!r}"
            "; grey images have 1 channel, colour images 3"
        )
    if max(channels, height, width) > LARGEST_SIDE:
        raise ValueError(f"image_shape must be at most {LARGEST_SIDE:,} in each direction, got {image_shape!r}")
    return channels, height, width


def _check_largest(options: dict[str, Any]) -> None:
    for name, most in LARGEST.items():
        if (value := options.get(name)) is not None and value > most:
            raise ValueError(f"{name} must be at most {most:,}, got {min(value, 10**18):.3g}; check it")


# What former versions did, whose files say nothing about it.
FORMER = {
    "weight_decay": 0.0,
    "finishing": 0.0,
    "shift_fill": "zeros",
    "refresh_norm": False,
    "balance": False,
    "draw_size": None,
}
FORMER_MODEL = {"draw_size": None}


def read_run_settings(path: Path) -> RunSettings:
    """The settings of a run from its args.json."""
    content = {**FORMER, **read_json(path)}
    if content.get("augment") == "none" or content.get("freeze"):
        content["shift"] = 0  # former versions recorded the shift that they would have used
    return _revive(_with_decoder(content, "model"), TrainConfig, TrainConfig, path).resolve()


def read_model_config(path: Path) -> ModelConfig:
    """The configuration of a model from its config.json."""
    return revive_model_config(read_json(path), path)


def revive_model_config(content: dict[str, Any], source: Path) -> ModelConfig:
    """The same from the JSON object itself; errors name `source`, the file it came from."""
    content = {**FORMER_MODEL, **content}
    return _revive(_with_decoder(content, "name"), ModelConfig, ModelConfig.from_options, source)


def _with_decoder(content: dict[str, Any], network: str) -> dict[str, Any]:
    """Files of former versions need not name the decoder; hitnet-fast's own was the standardised one then."""
    if content.get("decoder") is not None:
        return content
    former = {"decoder": "standardised"} if content.get(network) == "hitnet-fast" else {}
    return {name: value for name, value in content.items() if name != "decoder"} | former


def _revive(content: dict[str, Any], kind: type[Kind], make: Callable[..., Kind], source: Path) -> Kind:
    """A dataclass from its JSON object; an unknown field or a wrong type is an error."""
    hints = _type_hints(kind)
    if unknown := sorted(content.keys() - hints.keys()):
        raise ValueError(
            f"{source} does not hold a valid {kind.__name__}: unknown fields {', '.join(unknown)}; "
            f"the fields are {', '.join(hints)}"
        )
    values = {name: _from_json(value, hints[name]) for name, value in content.items()}
    try:
        check_types(values, hints)
        return make(**values)
    except ValueError as error:
        raise ValueError(f"{source} does not hold a valid {kind.__name__}: {error}") from None


def check_types(values: dict[str, Any], hints: dict[str, Any]) -> None:
    """Raise an error for a value that does not match its field's type hint."""
    for name, value in values.items():
        if not _fits(value, hints[name]):
            raise ValueError(f"{name} must be {_in_words(hints[name])}, got {value!r}")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value matches a type hint; numpy's numbers count as Python's."""
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
    """A type hint as errors name it: int, Path or None, one of constant, decay."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_in_words(part) for part in parts)
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if hint is type(None):
        return "None"
    return str(getattr(hint, "__name__", hint)) if origin is None else str(hint)


def _from_json(value: Any, hint: Any) -> Any:
    """Restore the types that JSON lacks: tuples and paths."""
    if isinstance(value, list):
        return tuple(value)
    return Path(value) if isinstance(value, str) and Path in (hint, *get_args(hint)) else value
