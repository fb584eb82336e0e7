"""Training with a frozen encoder: it looks at every picture once, and the rest learns from what it saw.

The memory answers for pictures that the encoder has seen, byte for byte; any other picture, a drawing for example, goes
through the encoder. So the training loop, evaluation and measurements work as they are, only sooner.
"""

import copy
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from hitnet.core.checkpoint import read_tensors, write_tensors
from hitnet.core.model import Model
from hitnet.data import ImageSet, to_bytes, to_float
from hitnet.data.mapped import Images

KEY_BYTES = 16
BATCH = 64  # pictures that go through the encoder together
BATCHES_PER_FILE = 8  # what is lost at most when the run is stopped

Looked = Callable[[int, int], None]
"""Called with the number of pictures just looked at and the number of all: first with those remembered from before."""


class Memory:
    """The features of pictures, found by the pictures' bytes."""

    def __init__(self) -> None:
        self.places: dict[bytes, int] = {}
        self.features: list[Tensor] = []

    def __deepcopy__(self, _: object) -> "Memory":
        return self  # what was seen stays the same for every copy of a model

    def add(self, keys: Sequence[bytes], features: Tensor) -> None:
        """Remember the features of pictures that are new: (count, features)."""
        for key, each in zip(keys, features, strict=True):
            if key not in self.places:
                self.places[key] = len(self.features)
                self.features.append(each)

    def recall(self, images: Tensor) -> Tensor | None:
        """(batch, c, h, w) in [0, 1] -> (batch, features); None unless all of these very pictures are remembered."""
        pixels = to_bytes(images)
        if not torch.equal(to_float(pixels), images.float()):
            return None
        keys = keys_of(pixels)
        if not all(key in self.places for key in keys):
            return None
        return torch.stack([self.features[self.places[key]] for key in keys]).to(images)


class FrozenModel(Model):
    """A model whose encoder no longer learns, and remembers what it saw."""

    def __init__(self, model: Model, memory: Memory) -> None:
        super().__init__(model.encoder.requires_grad_(False), model.head, model.decoder, model.config)
        self.memory = memory
        self.encoder.eval()

    def train(self, mode: bool = True) -> "FrozenModel":
        super().train(mode)
        self.encoder.eval()  # its BatchNorm keeps the averages of the pictures it was trained on
        return self

    def features(self, images: Tensor) -> Tensor:
        remembered = None if images.requires_grad else self.memory.recall(images)
        return super().features(images) if remembered is None else remembered


def as_trained(model: Model, trained: Model) -> Model:
    """A model that was loaded anew, with the memory of the one that was trained if that has one."""
    return FrozenModel(model, trained.memory) if isinstance(trained, FrozenModel) else model


def keys_of(pixels: Tensor) -> list[bytes]:
    """What tells pictures apart: uint8 (count, c, h, w) -> count."""
    return [hashlib.blake2b(each, digest_size=KEY_BYTES).digest() for each in pixels.cpu().contiguous().numpy()]


def look(
    model: FrozenModel,
    training: ImageSet,
    others: Sequence[ImageSet],
    flip: bool,
    folder: Path,
    looked: Looked = lambda done, pictures: None,
) -> None:
    """Look at all pictures once, with `flip` also at the training pictures' mirror images.

    What was seen is kept in `folder`, so a run that is stopped has not lost it.
    """
    # In this memory order, convolutions are up to twice as fast.
    encoder = copy.deepcopy(model.encoder).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    parts = (training, *others)
    batches = [(part.images, start, False) for part in parts for start in range(0, len(part), BATCH)]
    if flip:
        batches += [(training.images, start, True) for start in range(0, len(training), BATCH)]
    files = sorted(folder.glob("*.safetensors"))
    for file in files:
        _remember(model.memory, file)
    # Whole batches: among other pictures, the features of a picture may differ in the last digit.
    new = [batch for batch in batches if any(key not in model.memory.places for key in keys_of(_pixels(*batch)))]
    total, left = (sum(len(_pixels(*batch)) for batch in some) for some in (batches, new))
    looked(total - left, total)
    for start in range(0, len(new), BATCHES_PER_FILE):
        keys, features = [], []
        for batch in new[start : start + BATCHES_PER_FILE]:
            pixels = _pixels(*batch)
            keys += keys_of(pixels)
            features.append(_see(encoder, pixels.to(model.device)))
            looked(len(pixels), total)
        file = folder / f"{len(files) + start // BATCHES_PER_FILE:06d}.safetensors"
        places = torch.tensor([list(key) for key in keys], dtype=torch.uint8)
        write_tensors(file, {"keys": places, "features": torch.cat(features)})
        _remember(model.memory, file)


def _pixels(images: Images, start: int, mirrored: bool) -> Tensor:
    """One batch of uint8 pictures."""
    pixels = images[start : start + BATCH]
    return pixels.flip(-1) if mirrored else pixels


@torch.no_grad()
def _see(encoder: nn.Module, pixels: Tensor) -> Tensor:
    return encoder(to_float(pixels).contiguous(memory_format=torch.channels_last)).float().cpu()


def _remember(memory: Memory, file: Path) -> None:
    tensors, _ = read_tensors(file)
    memory.add([bytes(key) for key in tensors["keys"].numpy()], tensors["features"])
