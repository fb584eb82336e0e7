"""A network is encoder -> head -> mask -> decoder; this module assembles them and creates networks by name."""

import fnmatch
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hitnet.core import encoders, heads
from hitnet.core.checkpoint import CONFIG, check_finite, check_weights, load_weights, read_checkpoint, write_checkpoint
from hitnet.core.checks import check_images, check_labels, check_tensor
from hitnet.core.decoder import Decoder, PaperDecoder, PictureDecoder, StandardisedDecoder
from hitnet.core.resizing import resized
from hitnet.core.timm_encoder import PREFIX, TimmEncoder
from hitnet.errors import check_known
from hitnet.files import settle_version
from hitnet.settings import ModelConfig

MODEL_FOLDER = "model"  # inside a run folder
TEST_BATCH = 128  # larger batches overflow the CPU's caches: at 512, compact networks take 1.5 times as long


class Output(NamedTuple):
    """What a network returns for a batch of images."""

    capsules: Tensor
    """(batch, classes, dims)"""
    scores: Tensor
    """(batch, classes); the head's decision says whether the lowest or the highest wins."""
    reconstruction: Tensor | None
    """(batch, channels, height, width) at the size of drawings, or None without a decoder."""


class Loss(NamedTuple):
    """The parts of a loss and their weighted sum, all of shape ()."""

    total: Tensor
    classification: Tensor
    reconstruction: Tensor | None


class Model(nn.Module):
    """Encoder, head and, if capsules are to be drawn, a decoder.

    >>> net = create_model("hitnet", image_shape=(1, 28, 28), num_classes=10)
    >>> out = net(torch.rand(2, 1, 28, 28), labels=torch.tensor([3, 7]))
    >>> out.capsules.shape, out.scores.shape, out.reconstruction.shape
    (torch.Size([2, 10, 16]), torch.Size([2, 10]), torch.Size([2, 1, 28, 28]))
    """

    def __init__(
        self, encoder: encoders.Encoder, head: heads.Head, decoder: Decoder | None, config: ModelConfig
    ) -> None:
        super().__init__()
        if config.radii is not None and not head.has_hit_zone:
            raise ValueError(f"{config.name} has no hit zone, so it cannot have radii; leave them out")
        self.encoder, self.head, self.decoder, self.config = encoder, head, decoder, config

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def forward(self, images: Tensor, labels: Tensor | None = None) -> Output:
        """The reconstruction shows the true class's capsule given `labels` (training), else the predicted one."""
        capsules = self.capsules(images)
        scores = self.head.score(capsules)
        if self.decoder is None:
            return Output(capsules, scores, None)
        drawn = self.head.decide(scores) if labels is None else labels
        return Output(capsules, scores, self.decode(capsules, drawn))

    def capsules(self, images: Tensor) -> Tensor:
        """(batch, channels, height, width) -> (batch, classes, dims)."""
        if self.config.image_shape is not None:
            check_images(images, self.config.image_shape, self.dtype)
        features = self.features(images)
        # In full precision even under autocast: bfloat16 is too coarse to compare distances with the radii.
        with torch.autocast(features.device.type, enabled=False):
            return self.head(features.to(self.dtype))

    def features(self, images: Tensor) -> Tensor:
        """What the encoder sees: (batch, channels, height, width) -> (batch, features)."""
        return self.encoder(images)

    def decode(self, capsules: Tensor, class_indices: Tensor) -> Tensor:
        """Draw one capsule of each image: (batch, classes, dims), (batch,) -> (batch, channels, height, width)."""
        if self.decoder is None:
            remedy = "image_shape=(channels, height, width)" if self.config.image_shape is None else "decoder='paper'"
            raise ValueError(f"{self.config.name} has no decoder, so it cannot draw; create it with {remedy}")
        expected = (self.head.num_classes, self.head.capsule_dim)
        if capsules.dim() != 3 or capsules.shape[1:] != expected:
            raise ValueError(
                f"capsules must have shape (batch, {expected[0]}, {expected[1]}), got {tuple(capsules.shape)}"
                "; a single capsule goes into the row of its class, zeros into the others"
            )
        check_labels(class_indices, *capsules.shape[:2])
        return self.decoder(capsules, class_indices)

    @torch.no_grad()
    def draw(self, capsules: Tensor, class_indices: Tensor) -> Tensor:
        """Draw one picture per capsule, in evaluation mode: (batch, dims), (batch,) -> images."""
        capsules, class_indices = capsules.to(self.device, self.dtype), class_indices.to(self.device)
        # The decoder uses only one class's capsule, so the rows of the others can hold the same one.
        everywhere = capsules.unsqueeze(1).expand(-1, self.head.num_classes, -1)
        with evaluating(self):
            return self.decode(everywhere, class_indices)

    def shrink(self, images: Tensor) -> Tensor:
        """Images at the size of drawings; those that have it stay as they are: (batch, c, h, w) -> same, smaller."""
        return images if self.config.drawing_shape is None else resized(images, self.config.drawing_shape[1:])

    def enlarge(self, drawings: Tensor) -> Tensor:
        """Drawings at the size of images, so that the network can read them: (batch, c, h, w) -> same, larger."""
        shape = self.config.image_shape
        if shape is None or drawings.shape[2:] == shape[1:]:
            return drawings
        return resized(drawings, shape[1:]).clamp(0, 1)  # rounding may leave a little more than 1

    def all_capsules(self, images: Tensor, batch_size: int = TEST_BATCH) -> Tensor:
        """`capsules` of any number of images, in evaluation mode, `batch_size` at a time: -> (count, classes, dims)."""
        return self._of_parts(self.capsules, images, batch_size)

    def scores(self, images: Tensor, batch_size: int = TEST_BATCH) -> Tensor:
        """The score of each class for each image, likewise: -> (count, classes)."""
        return self._of_parts(lambda part: self.head.score(self.capsules(part)), images, batch_size)

    def predict(self, images: Tensor, batch_size: int = TEST_BATCH) -> Tensor:
        """The predicted class of each image, likewise: -> (count,)."""
        return self.head.decide(self.scores(images, batch_size))

    def verdicts(self, scores: Tensor) -> list[heads.Verdict | None]:
        """How certain each answer is; None if the model is not calibrated: (count, classes) -> count."""
        return self.head.verdicts(scores, self.config.radii)

    @torch.no_grad()
    def _of_parts(self, compute: Callable[[Tensor], Tensor], images: Tensor, batch_size: int) -> Tensor:
        check_tensor("images", images)
        with evaluating(self):
            return torch.cat([compute(part) for part in images.split(batch_size)])

    def save(self, path: str | Path) -> None:
        """Write the model as a folder that `hitnet.load` reads."""
        name = self.config.name
        if name not in _MODELS and not name.startswith(PREFIX):
            raise ValueError(
                f"your own {name} cannot be rebuilt by name, so hitnet.load could not read it; "
                "save net.state_dict() and rebuild the network with with_hit_or_miss"
            )
        write_checkpoint(Path(path), self.config, self.state_dict())

    def loss(self, out: Output, images: Tensor, labels: Tensor) -> Loss:
        """The loss of `out`; call backward() on `.total`."""
        classification = self.head.loss(out.scores, labels)
        if out.reconstruction is None:
            return Loss(classification, classification, None)
        reconstruction = F.mse_loss(out.reconstruction, self.shrink(images))
        return Loss(classification + self.config.reconstruction_weight * reconstruction, classification, reconstruction)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards every part returns to its previous mode, so a frozen one stays frozen."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


class Recipe(NamedTuple):
    encoder: Callable[..., encoders.Encoder]
    head: type[heads.Head]


_DECODERS: dict[str, Callable[..., Decoder]] = {
    "paper": PaperDecoder,
    "picture": PictureDecoder,
    "standardised": StandardisedDecoder,
}

_MODELS = {
    "hitnet": Recipe(encoders.PaperEncoder, heads.HitOrMissHead),
    "hitnet-fast": Recipe(encoders.FastEncoder, heads.HitOrMissHead),
    "hitnet-deep": Recipe(encoders.DeepEncoder, heads.HitOrMissHead),
    "n1": Recipe(encoders.PaperEncoder, heads.N1Head),
    "n2": Recipe(encoders.PaperEncoder, heads.N2Head),
    "n2b": Recipe(encoders.PaperEncoder, heads.N2bHead),
    "capsnet": Recipe(partial(encoders.PaperEncoder, final_relu=False), heads.CapsNetHead),
    "lenet5": Recipe(encoders.LeNet5, heads.SoftmaxHead),
    "lenet5-hom": Recipe(encoders.LeNet5, heads.HitOrMissHead),
    "resnet18": Recipe(encoders.ResNet18, heads.SoftmaxHead),
    "resnet18-hom": Recipe(encoders.ResNet18, heads.HitOrMissHead),
    "densenet40-12": Recipe(encoders.DenseNet40, heads.SoftmaxHead),
    "densenet40-12-hom": Recipe(encoders.DenseNet40, heads.HitOrMissHead),
}


def find_recipe(name: str) -> Recipe:
    """How to build the network of this name; timm networks get a Hit-or-Miss head."""
    if name.startswith(PREFIX):
        return Recipe(partial(TimmEncoder, name.removeprefix(PREFIX)), heads.HitOrMissHead)
    return _MODELS[check_known(name, _MODELS, "model")]


def list_models(pattern: str = "*") -> list[str]:
    """The names `create_model` accepts besides timm's, or those that match an fnmatch pattern.

    >>> list_models("lenet*")
    ['lenet5', 'lenet5-hom']
    """
    return [name for name in _MODELS if fnmatch.fnmatch(name, pattern)]


def create_model(
    name: str,
    image_shape: tuple[int, int, int] = (1, 28, 28),
    num_classes: int = 10,
    capsule_dim: int = 16,
    **options: Any,
) -> Model:
    """A new network by name, including timm/NAME; `options` are the other fields of `ModelConfig`.

    >>> create_model("lenet5-hom", image_shape=(3, 32, 32), num_classes=5).predict(torch.rand(2, 3, 32, 32)).shape
    torch.Size([2])
    """
    return build(
        ModelConfig.from_options(
            name=name, image_shape=image_shape, num_classes=num_classes, capsule_dim=capsule_dim, **options
        )
    )


def build(config: ModelConfig) -> Model:
    """The network that a configuration describes, with newly initialised weights."""
    recipe = find_recipe(config.name)
    if config.image_shape is None:
        raise ValueError(f"{config.name} needs an image_shape, got None; give (channels, height, width)")
    if config.normalised and not config.name.startswith(PREFIX):
        raise ValueError(f"only timm networks normalise images themselves, got {config.name}; leave out normalised")
    if config.width is not None and config.name.startswith(PREFIX):
        raise ValueError(f"{config.name} has a fixed width, got {config.width}; choose another timm network")
    options: dict[str, Any] = {} if config.width is None else {"width": config.width}
    if config.normalised:
        options["normalised"] = True
    encoder = recipe.encoder(config.image_shape, **options)
    head = recipe.head(encoder.num_features, config)
    return Model(encoder, head, make_decoder(config, head), config)


def load(path: str | Path) -> Model:
    """A saved model, in evaluation mode: from a folder written by `Model.save`, a run folder, or a safetensors file."""
    place = Path(path)
    settle_version(place / MODEL_FOLDER)
    if not (place / CONFIG).is_file() and (place / MODEL_FOLDER).is_dir():
        place = place / MODEL_FOLDER
    config, weights = read_checkpoint(place)
    check_finite(weights, str(place))
    if not config.name.startswith(PREFIX):  # timm may compute with what it builds
        with torch.device("meta"):  # takes no memory, however large the network
            check_weights(build(config), weights, str(place))
    model = build(config)
    load_weights(model, weights, str(place))
    return model.eval()


def make_decoder(config: ModelConfig, head: heads.Head) -> Decoder | None:
    """The decoder that a configuration names, for the head's capsules."""
    kind = config.decoder
    if kind == "none":
        return None
    if kind not in _DECODERS:
        known = ", ".join([*_DECODERS, "none"])
        raise ValueError(f"decoder must be one of {known}, got {kind!r}; leave it out for the network's own")
    if config.drawing_shape is None:
        raise ValueError("a decoder needs an image_shape, got None; give (channels, height, width)")
    if kind != "paper" and not head.in_hypercube:
        raise ValueError(f"the {kind} decoder needs capsules with a centre, {config.name} has none; use 'paper'")
    return _DECODERS[kind](config.drawing_shape, head.num_classes, head.capsule_dim, head.unit)
