"""The settings of a training run: the command line, args.json and the Python interface at once. Without torch."""

import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_type_hints

from hitnet.config import ModelConfig, NetworkOptions, fill_in
from hitnet.files import check_types

Schedule = Literal["constant", "decay", "one-cycle"]


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
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
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


# The bases in this order list the run's options before the network's.
@dataclass(frozen=True, kw_only=True)
class TrainConfig(NetworkOptions, RunOptions):
    """Train one network. Of `model="hitnet"` the defaults are the paper's, but for the number of epochs (250 there)."""

    # Never None once it is made.
    schedule: Schedule = None  # type: ignore[assignment]
    learning_rate: float = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        fill_in(self, self.model)
        check_types(vars(self), get_type_hints(TrainConfig))
        for name, lowest in (("epochs", 1), ("batch_size", 2), ("shift", 0), ("patience", 0), ("seed", 0)):
            if getattr(self, name) < lowest:
                raise ValueError(f"{name} must be at least {lowest}, got {getattr(self, name)}")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads must be at least 1, got {self.threads}; leave it out for torch's own choice")
        if not 0 < self.learning_rate < math.inf:
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

    def model_config(self, image_shape: tuple[int, int, int] | None, class_names: tuple[str, ...]) -> ModelConfig:
        """The network for such images and classes."""
        options = {field.name: getattr(self, field.name) for field in fields(NetworkOptions)}
        return ModelConfig(
            name=self.model, image_shape=image_shape, num_classes=len(class_names), class_names=class_names, **options
        )

    def to_json(self) -> dict[str, Any]:
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}
