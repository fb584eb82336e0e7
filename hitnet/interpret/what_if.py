"""What would make it another class: the nearest picture of that class, and the way from one to the other."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from hitnet.core.layer import CENTRE
from hitnet.core.model import Model, evaluating

STEPS, FIRST, LAST = 10, 0.5, 0.05
"""How often the capsule moves, and how far at first and at last, in hit radii."""
READING = 0.2
"""The cost of a drawing that is read 1.0 outside the hit zone, in mean squared pixel differences."""
FRAMES = 5


@dataclass(frozen=True)
class WhatIf:
    """What would make an image another class; pictures are (channels, height, width)."""

    class_index: int
    capsule: Tensor
    """(dims,), in the hit zone of that class."""
    frames: Tensor
    """From the image's reconstruction to `picture`, drawn on the way: (frames, channels, height, width)."""
    scores: list[float]
    """How the network reads `picture`: one score for each class."""
    read_as: int
    """The class it reads there; usually, but not always, the one that was asked for."""

    @property
    def picture(self) -> Tensor:
        return self.frames[-1]

    @property
    def change(self) -> Tensor:
        """What to add to the reconstruction (above 0) and what to remove (below 0)."""
        return self.frames[-1] - self.frames[0]


def what_if(model: Model, image: Tensor, own: int, capsule: Tensor, other: int) -> WhatIf:
    """`image`, of class `own` with `capsule`, as class `other`: (channels, height, width), (dims,)."""
    image, classes = image.unsqueeze(0), torch.tensor([own, other], device=image.device)
    nearest = nearest_capsules(model, image, classes[1:])
    frames = morph(model, torch.cat([capsule.unsqueeze(0), nearest]), classes, FRAMES)
    scores = model.scores(model.enlarge(frames[-1:]))
    return WhatIf(other, nearest[0], frames, scores[0].tolist(), int(model.head.decide(scores)))


def nearest_capsules(model: Model, images: Tensor, class_indices: Tensor) -> Tensor:
    """Capsules in the hit zone whose drawings are most like the images: (batch, c, h, w), (batch,) -> (batch, dims).

    Found by steps down the gradient from the centre, with the images' own style, never leaving the hit zone. The
    network should also read the drawings as the class: by pixels alone, one in four is only the image again, drawn
    badly.
    """
    head, radius, rows = model.head, model.head.hit_radius, torch.arange(len(images), device=model.device)
    capsules = model.all_capsules(images)[rows, class_indices]
    capsules[:, : head.counted_dim] = CENTRE
    images = model.shrink(images)
    with torch.enable_grad(), evaluating(model):
        for step in range(STEPS):
            capsules.requires_grad_()
            drawn = model.decode(capsules.unsqueeze(1).expand(-1, head.num_classes, -1), class_indices)
            read = head.score(model.capsules(model.enlarge(drawn)))[rows, class_indices]
            cost = (drawn - images).square().flatten(1).mean(1) + READING * F.relu(read - radius)
            (slope,) = torch.autograd.grad(cost.sum(), capsules)
            length = radius * FIRST * (LAST / FIRST) ** (step / (STEPS - 1))
            moved = capsules.detach() - CENTRE - length * F.normalize(slope, dim=1)
            outside = torch.linalg.vector_norm(moved[:, : head.counted_dim], dim=1, keepdim=True) / radius
            moved[:, : head.counted_dim] /= outside.clamp(min=1)
            capsules = head.nearest_possible(CENTRE + moved)
    return capsules


@torch.no_grad()
def morph(model: Model, capsules: Tensor, class_indices: Tensor, steps: int) -> Tensor:
    """From the picture of one capsule to that of another, also of another class: (2, dims), (2,) -> (steps, c, h, w).

    The decoder's inputs are blended, so strokes move and bend. Blended pictures would only fade into each other.
    """
    assert model.decoder is not None
    everywhere = capsules.unsqueeze(1).expand(-1, model.head.num_classes, -1)
    with evaluating(model):
        first, last = model.decoder.inputs(everywhere, class_indices)
        share = torch.linspace(0, 1, steps).to(first).unsqueeze(1)
        return model.decoder.picture((1 - share) * first + share * last)
