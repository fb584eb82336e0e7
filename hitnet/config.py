"""What a network is made of, as data: enough to build it again. Without torch, so that the command line starts fast."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal


@dataclass(frozen=True)
class ModelConfig:
    """Everything `create_model` needs to build a network; a checkpoint's config.json holds the same."""

    name: str = "hitnet"
    """The network, as `list_models` names it."""
    image_shape: tuple[int, int, int] | None = (1, 28, 28)
    """(channels, height, width); None where the images are known only to a network of somebody else's."""
    num_classes: int = 10
    capsule_dim: int = 16
    """Components of a capsule (n)."""
    norm: Literal["shared", "separate"] = "shared"
    """BatchNorm of the capsules: statistics shared by all classes, or separate for each."""
    norm_momentum: float = 0.01
    """Weight of the newest batch in BatchNorm's running averages; Keras' 0.99 seen from torch."""
    norm_eps: float = 1e-3
    hit_radius: float = 0.1
    """Radius of the hit zone (m)."""
    miss_radius: float = 0.9
    """Where the miss zone begins (m')."""
    routing_iterations: int = 3
    """Rounds of routing by agreement (capsnet only)."""
    width: int | None = None
    """Channels of the encoder; the network's own number if not given."""
    decoder: Literal["paper", "none"] | None = None
    """What draws images from capsules; the network's own choice if not given."""
    reconstruction_weight: float = 0.392
    """Weight of the reconstruction loss (α)."""

    def __post_init__(self) -> None:
        if self.num_classes < 2:
            raise ValueError(f"num_classes must be at least 2, got {self.num_classes}; a classifier needs a choice")
        if self.routing_iterations < 1:
            raise ValueError(f"routing_iterations must be at least 1, got {self.routing_iterations}; the paper has 3")
        if self.width is not None and self.width < 1:
            raise ValueError(f"width must be at least 1, got {self.width}; leave it out for the network's own")
        if not 0 < self.hit_radius < self.miss_radius:
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


def nearest_or_raise(name: str, known: Iterable[str], what: str) -> str:
    """The name itself if it is known, otherwise an error that suggests the nearest one."""
    known = list(known)
    if name in known:
        return name
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    suggestion = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"there is no {what} {name!r}; {suggestion}known: {', '.join(known)}")
