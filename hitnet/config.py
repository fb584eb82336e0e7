"""What a network is made of, as data: enough to build it again. Without torch, so that the command line starts fast."""

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import index
from typing import Any, Literal

DecoderName = Literal["paper", "standardised", "none"]
ImageShape = tuple[int, int, int]
"""(channels, height, width)"""

# Settings that depend on the network: the paper's, and what others bring along instead.
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


def fill_in(settings: Any, network: str) -> None:
    """Give a frozen dataclass the network's own value wherever it has None."""
    for name, value in {**PAPER, **OWN.get(network, {})}.items():
        if getattr(settings, name, value) is None:
            object.__setattr__(settings, name, value)


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
class ModelConfig(NetworkOptions):
    """Everything that is needed to build a network again; a checkpoint's config.json holds the same."""

    name: str = "hitnet"
    """The network, as `list_models` names it."""
    image_shape: ImageShape | None = (1, 28, 28)
    """(channels, height, width); None where only somebody else's network knows its images."""
    num_classes: int = 10
    class_names: tuple[str, ...] = ()
    """What the classes are called, in the order of their indices; 0, 1, 2, … if not given."""

    # Never None once it is made.
    norm_momentum: float = None  # type: ignore[assignment]
    reconstruction_weight: float = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        fill_in(self, self.name)
        if self.image_shape is not None:
            object.__setattr__(self, "image_shape", checked_shape(self.image_shape))
        if self.num_classes < 2:
            raise ValueError(f"num_classes must be at least 2, got {self.num_classes}; a classifier needs a choice")
        if self.capsule_dim < 1:
            raise ValueError(f"capsule_dim must be at least 1, got {self.capsule_dim}; the paper has 16")
        if not self.class_names:
            object.__setattr__(self, "class_names", tuple(str(index) for index in range(self.num_classes)))
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

    @classmethod
    def from_options(cls, **options: Any) -> "ModelConfig":
        """Like the constructor, but a wrong option is answered with the nearest right one."""
        for name in options:
            nearest_or_raise(name, [field.name for field in fields(cls)], "model option")
        return cls(**options)


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


def nearest_or_raise(name: str, known: Iterable[str], what: str) -> str:
    """The name itself if it is known, otherwise an error that suggests the nearest one."""
    known = list(known)
    if name in known:
        return name
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    suggestion = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"there is no {what} {name!r}; {suggestion}known: {', '.join(known)}")
