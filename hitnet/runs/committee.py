"""Several networks, or several views of each image, that answer together by the mean of their scores."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hitnet.core.heads import Head
from hitnet.core.model import TEST_BATCH, Model
from hitnet.data import Batches, ImageSet
from hitnet.data.transforms import move
from hitnet.data.variation import fingerprint
from hitnet.errors import listed
from hitnet.runs.reopen import load_model
from hitnet.runs.run import Run
from hitnet.settings import ModelConfig

# (down, right) in pixels: as it is, then moved to the sides, then to the corners.
MOVES = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1), (1, -1), (-1, 1))


class View(NamedTuple):
    """How an image is shown: mirrored or not, then moved by whole pixels, its edge repeated."""

    mirrored: bool
    move: tuple[int, int]

    def of(self, images: Tensor) -> Tensor:
        """(count, c, h, w) -> same."""
        shown = images.flip(-1) if self.mirrored else images
        offsets = torch.tensor([self.move], device=images.device).expand(len(images), 2)
        return move(shown, offsets, "edge") if any(self.move) else shown


def choose_views(count: int, mirror: bool) -> tuple[View, ...]:
    """The first `count` views; with `mirror`, each move is followed by the same of the mirrored image."""
    views = [View(mirrored, step) for step in MOVES for mirrored in ((False, True) if mirror else (False,))]
    if not 1 <= count <= len(views):
        remedy = "1 is the image as it is" if count < 1 else f"there are only {len(views)}"
        if count > 1 and not mirror:
            remedy += ", or 18 for networks that were trained with mirrored images"
        raise ValueError(f"views must lie in 1..{len(views)}, got {count}; {remedy}")
    return tuple(views[:count])


class Member(NamedTuple):
    """A trained network and the views of each image that it answers for."""

    path: Path
    model: Model
    views: tuple[View, ...]

    def scores(self, images: Tensor) -> Tensor:
        """The mean of its scores over all views: (count, c, h, w) -> (count, classes)."""
        return torch.stack([self.model.scores(view.of(images)) for view in self.views]).mean(0)


@dataclass(frozen=True)
class Committee:
    """Networks that answer together. All count equally; a single one with a single view is a committee of one."""

    members: tuple[Member, ...]

    @property
    def model(self) -> Model:
        """The first network, which stands for all in what they have in common."""
        return self.members[0].model

    @property
    def head(self) -> Head:
        return self.model.head

    @property
    def is_one(self) -> bool:
        return len(self.members) == len(self.members[0].views) == 1

    @property
    def config(self) -> ModelConfig:
        """The first network's; without radii unless it answers alone, since they were found for its own distances."""
        own = self.model.config
        return own if self.is_one else replace(own, radii=None, coverage=None, calibrated_on=None)

    def scores(self, images: Tensor) -> Tensor:
        """The mean of all members' scores: (count, c, h, w) -> (count, classes)."""
        return torch.stack([member.scores(images) for member in self.members]).mean(0)

    def each_scores(self, data: ImageSet) -> Tensor:
        """Every member's scores for each image: -> (members, count, classes)."""
        device = self.model.device
        parts = [
            torch.stack([member.scores(images.to(device)) for member in self.members]).cpu()
            for images, _ in Batches(data, TEST_BATCH)
        ]
        return torch.cat(parts, dim=1)


def open_committee(paths: Sequence[Path], views: int = 1, device: str = "auto") -> Committee:
    """The networks at these paths: run folders, model folders or safetensors files with the same classes."""
    if not paths:
        raise ValueError("there is no network to ask; give a run folder")
    models = [load_model(path, device) for path in paths]
    if len(models) > 1:
        # Decoders do not vote: a network and its finished copy decide alike.
        voters = {fingerprint(nn.ModuleList([model.encoder, model.head])) for model in models}
        if len(voters) < len(models):
            raise ValueError("a committee needs different networks, got the same one twice; leave out the second")
    first = models[0].config
    for path, model in zip(paths, models, strict=True):
        config = model.config
        if len(models) > 1 and not model.head.has_hit_zone:
            raise ValueError(
                f"{path} is {config.name}, which does not decide by the smallest distance to a centre; leave it out"
            )
        if config.class_names != first.class_names:
            raise ValueError(
                f"{path} knows other classes than {paths[0]}: {_difference(config.class_names, first.class_names)}; "
                "a committee needs networks trained on the same classes, in the same order"
            )
        for what in ("image_shape", "fit", "capsule_dim"):  # the largest distance grows with the capsules
            own, others = getattr(config, what), getattr(first, what)
            if own != others:
                raise ValueError(
                    f"{path} has {what} {own}, {paths[0]} has {others}; a committee needs networks for the same images "
                    "with capsules of the same size"
                )
    members = []
    for path, model in zip(paths, models, strict=True):
        try:
            members.append(Member(path, model, choose_views(views, mirror=views > 1 and _saw_mirrored(path))))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    return Committee(tuple(members))


def _difference(own: Sequence[str], others: Sequence[str]) -> str:
    """What is different about two lists of classes, in a few words."""
    if len(own) != len(others):
        return f"{len(own)} against {len(others)}"
    if set(own) == set(others):
        return "the same in another order"
    unknown, missing = ([name for name in names if name not in rest] for names, rest in ((own, others), (others, own)))
    return f"{listed(unknown, 3)} instead of {listed(missing, 3)}"


def _saw_mirrored(path: Path) -> bool:
    """Whether the network was trained with mirrored images; not, if there is only a model and nobody knows."""
    for run in (Run(path), Run(path.resolve().parent)):  # perhaps the model folder of a run
        if run.settings_file.is_file():
            return run.read_settings().flip
    return False
