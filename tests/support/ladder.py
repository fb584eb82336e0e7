"""Networks whose weights are set by hand, so that every drawing is known; and one small trained run."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from hitnet.core.decoder import Decoder
from hitnet.core.encoders import Encoder
from hitnet.core.heads import HitOrMissHead
from hitnet.core.model import Model
from hitnet.settings import ModelConfig


class Ladder(Decoder):
    """A decoder that can be read off: pixel i shows component i of the capsule, the last pixel the class.

    Pixels are the components themselves, so that moving one by d moves one pixel by d and no other.
    """

    def __init__(self, image_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.image_shape, self.classes = image_shape, classes
        self.scale = nn.Parameter(torch.ones(()))

    def inputs(self, capsules: Tensor, class_indices: Tensor) -> Tensor:
        own = capsules[torch.arange(len(capsules)), class_indices.long()] * self.scale
        return torch.cat([own, (class_indices / self.classes).unsqueeze(1).to(own)], dim=1)

    def picture(self, inputs: Tensor) -> Tensor:
        pixels = torch.zeros(len(inputs), *self.image_shape).flatten(1).to(inputs)
        pixels[:, : inputs.shape[1] - 1] = inputs[:, :-1]
        pixels[:, -1] = inputs[:, -1]
        return pixels.unflatten(1, self.image_shape)


class Reader(Encoder):
    """An encoder that sees the pixels as they are."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1)


class Scripted(HitOrMissHead):
    """Capsules as the image says: component i of every class is pixel i, 0.2 further away for each class."""

    def forward(self, features: Tensor) -> Tensor:
        own = features[:, : self.capsule_dim].unsqueeze(1)
        steps = 0.2 * torch.arange(self.num_classes, device=features.device).to(features)
        return own + steps[:, None] / self.capsule_dim**0.5


@pytest.fixture
def ladder() -> Callable[..., Model]:
    """`Reader`, `Scripted` and `Ladder` as a model: ladder(image_shape, classes, dims, **options)."""

    def make(
        image_shape: tuple[int, int, int] = (1, 4, 5), classes: int = 3, dims: int = 4, **options: object
    ) -> Model:
        if "radii" in options:
            options = {"coverage": 0.99, "calibrated_on": 100, **options}
        config = ModelConfig.from_options(image_shape=image_shape, num_classes=classes, capsule_dim=dims, **options)
        features = torch.Size(image_shape).numel()
        head = Scripted(features, config)
        return Model(Reader(features), head, Ladder(image_shape, classes), config)

    return make


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of lenet5-hom on a few digits, with snapshots; copy it before writing into it."""
    from hitnet.runs.train import train
    from hitnet.settings import TrainConfig

    out = tmp_path_factory.mktemp("runs")
    config = TrainConfig(
        model="lenet5-hom",
        epochs=2,
        batch_size=128,
        train_images=200,
        out=out,
        snapshots=True,
        norm_momentum=0.1,
        capsule_dim=4,
    )
    return train(config).path
