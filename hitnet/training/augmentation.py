"""What happens to training images after their shift: nothing, or deformations that a trained network makes of them."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from hitnet.data import Dataset
from hitnet.interpret.hybrid import HybridAugmentation
from hitnet.model import Model, load
from hitnet.training.devices import Team

Augmentation = Callable[[Tensor, Tensor], Tensor]
"""(images, labels) -> images"""


def make_augmentation(teacher: Model | None, fraction: float, generator: torch.Generator, team: Team) -> Augmentation:
    """A `fraction` of each batch deformed by the teacher, if there is one.

    All that is random comes from the run's generator, so that resuming repeats it.
    """
    if teacher is None:
        return lambda images, labels: images
    hybrid = HybridAugmentation(teacher)

    def augment(images: Tensor, labels: Tensor) -> Tensor:
        # One number a batch: processes with differently many images leave the shared generator in the same state.
        seed = int(torch.randint(2**62, (), generator=generator)) + team.rank
        # The batch is shuffled, so its first images are a random choice.
        count = round(fraction * len(images))
        if count == 0:
            return images
        new = hybrid(images[:count], labels[:count], torch.Generator().manual_seed(seed))
        return torch.cat([new, images[count:]])

    return augment


def load_teacher(path: Path, data: Dataset) -> Model:
    """A trained network, frozen, that draws images of the same shape and classes as the data's."""
    teacher = load(path)
    if teacher.decoder is None:
        raise ValueError(f"the teacher in {path}, {teacher.config.name}, has no decoder; take one that draws")
    known, classes = teacher.config.image_shape, teacher.config.class_names
    if known != data.image_shape:
        raise ValueError(f"the teacher in {path} draws images of shape {known}, {data.name} has {data.image_shape}")
    if classes != data.class_names:
        raise ValueError(
            f"the teacher in {path} knows other classes than {data.name}: {', '.join(classes[:5])}, … "
            f"against {', '.join(data.class_names[:5])}, …; train it on the same classes"
        )
    return teacher.requires_grad_(False)


def fingerprint(model: Model) -> str:
    """16 hex digits that change with any weight."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.cpu().contiguous().numpy().data)
    return digest.hexdigest()[:16]
