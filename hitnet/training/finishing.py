"""The finishing phase: encoder and capsules are frozen, and a decoder learns drawings that the network reads correctly.

Each step redraws real images from their own capsules and draws random capsules, the centres among them. Four losses:

- pixels: a real image must come back from its own capsule;
- read-back: the frozen network must read a drawing as the capsule that was drawn, also when the drawing is moved by a
  pixel or blurred; otherwise it learns a fine pattern that means something to this network only;
- typical: the centre of a class must look like the training image near it that the others there resemble most, of those
  with clear edges; pixels alone would average boots that face left with boots that face right. The prototype comes to
  resemble that image: do not publish it if the images are private;
- critic: a small network that sees whole pictures must take the drawing for a real picture of its class.

The classifier never changes, so its error stays the same. No other classifier takes part, so what an independent one
says of the drawings is evidence.
"""

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm
from torch.optim.swa_utils import AveragedModel

from hitnet.core.checkpoint import load_weights, read_tensors, write_tensors
from hitnet.core.decoder import PictureDecoder
from hitnet.core.layer import CENTRE
from hitnet.core.model import TEST_BATCH, Model, evaluating
from hitnet.data import Batches, ImageSet, at_most
from hitnet.data.transforms import mirror
from hitnet.interpret.exemplars import typical_images
from hitnet.interpret.quality import variation_within
from hitnet.interpret.sharpness import blurred, edge_energy
from hitnet.settings import ImageShape
from hitnet.training.devices import seeded
from hitnet.training.loop import TrainingStopped
from hitnet.training.state import optimizer_tensors, restore_optimizer, under

# Weights of the losses, in units of the images' variation and of m/√n. That of typical falls in the second half: the
# image that a prototype is drawn to lies at the rim of the hit zone, and at last the reading of the centre counts more.
PIXELS, READ_BACK, TYPICAL, CRITIC = 2.5, 0.1, 6.0, 0.15
LONG = 1200  # steps; in a shorter phase typical weighs less, for there is no time to learn its picture and the rest
CENTRE_WEIGHT = 40.0  # of a centre's read-back, beside 1 for another capsule's
NEAR_ENOUGH = 0.5  # the share of the hit radius within which the reading of a centre counts as exact
REAL, RANDOM, CENTRES = 32, 64, 10  # images redrawn in a step, random capsules, and how many of those are centres
MOST_IMAGES = 12_000  # training images that take part
LEAST_WITHIN = 0.1  # the least variation within classes that counts, in parts of that of all images
FEWEST_STEPS = 200
RATE, AVERAGING = 0.001, 0.995
CRITIC_FROM = 20  # the step at which the critic joins in
MODULES, OPTIMIZERS = ("decoder", "critic", "averaged"), ("optimizer", "critic_optimizer")
PROGRESS = ("steps", "steps_done", "seconds", "processor_seconds")
# Pixels by which drawings move before the network reads them, and all pictures before the critic sees them: no pattern
# may owe its effect to where it meets their strides.
READ_SHIFT, CRITIC_SHIFT = 1, 2


@dataclass(frozen=True)
class Material:
    """What the phase draws from: images, their own capsules as deviations in units, and what is typical of a class."""

    images: Tensor
    """(count, channels, height, width), at the size of drawings"""
    labels: Tensor
    deviations: Tensor
    """(count, dims)"""
    variation: float
    """Mean squared difference of a pixel to its class's mean: the scale of all pixel losses."""
    present: Tensor
    """The classes that have images; only these are drawn."""
    typical: Tensor | None
    """(classes, channels, height, width); None if no image may be imitated."""
    sieve: Tensor
    """(classes, dims, dims): keeps the directions in which a class varies and damps those in which it hardly does.
    Directions that no image shows would be drawn as noise."""


def gather(model: Model, data: ImageSet, flip: bool, generator: torch.Generator, *, imitate: bool = True) -> Material:
    """Look at training images once, with the frozen network."""
    data = at_most(data, MOST_IMAGES, model.head.num_classes, generator)
    if flip:
        coins = torch.rand(len(data), generator=generator) < 0.5
        data = ImageSet(mirror(data.pixels(), coins.to(data.labels.device)), data.labels)
    labels, capsules, images = data.labels, *_look(model, data)
    deviations = (_of_class(capsules, labels) - CENTRE) / model.head.unit
    right = model.head.decide(model.head.score(capsules)) == labels
    present = labels.unique()
    typical = images.new_zeros(model.head.num_classes, *images.shape[1:])
    sieves = torch.eye(deviations.shape[1]).to(deviations).repeat(model.head.num_classes, 1, 1)
    for index in present.tolist():
        of_class = labels == index
        # If no image of a class is recognised, all of them count.
        chosen = of_class & right if (of_class & right).any() else of_class
        if imitate:
            own = crisper_half(images, chosen.nonzero().squeeze(1))
            typical[index] = images[typical_image(model, data, own, deviations)]
        sieves[index] = _sieve(deviations[chosen])
    # Where all images of a class are alike, pixels would count so much that nothing else did.
    between = float((images - images.mean(0)).square().mean())
    variation = max(variation_within(images, labels) / images.numel(), LEAST_WITHIN * between, 1e-6)
    return Material(images, labels, deviations, variation, present, typical if imitate else None, sieves)


def _look(model: Model, data: ImageSet) -> tuple[Tensor, Tensor]:
    """Capsules and the images at the size of drawings: (count, classes, dims), (count, c, h, w).

    In parts: as numbers, all photographs at their full size would not fit into memory.
    """
    parts = [(model.all_capsules(pictures), model.shrink(pictures)) for pictures, _ in Batches(data, TEST_BATCH)]
    capsules, images = zip(*parts, strict=True)
    return torch.cat(capsules), torch.cat(images)


def crisper_half(images: Tensor, own: Tensor) -> Tensor:
    """Of the `own` images, those with at least their median edge energy: (count, c, h, w), (some,) -> (half of them,).

    What resembles most images is often the dullest: a dim number on a dim wall.
    """
    edges = edge_energy(images[own])
    return own[edges >= edges.median()]


def typical_image(model: Model, data: ImageSet, own: Tensor, deviations: Tensor, near: int = 200) -> int:
    """Of the `own` images nearest to the centre, the one that the others there resemble most: data, (count,) -> index.

    Resemblance is in the eyes of the encoder. By pixels, a grey cat on a grey wall would resemble any other grey one.
    """
    nearest = own[deviations[own].square().sum(1).argsort(stable=True)[:near]]
    with torch.no_grad(), evaluating(model):
        features = torch.cat([model.features(pictures) for pictures, _ in Batches(data.subset(nearest), TEST_BATCH)])
    return int(nearest[typical_images(features.flatten(1), deviations[nearest], 1, near=near)])


def shifted(images: Tensor, down: int, right: int) -> Tensor:
    """All images moved by the same whole pixels; the pixels at the rim are repeated."""
    height, width = images.shape[2:]
    limit = max(abs(down), abs(right))
    padded = F.pad(images, (limit,) * 4, mode="replicate")
    return padded[:, :, limit - down : limit - down + height, limit - right : limit - right + width]


def _sieve(deviations: Tensor, doubt: float = 0.1) -> Tensor:
    """Σ (Σ + doubt)⁻¹ of a class's deviations, without outliers: (count, dims) -> (dims, dims)."""
    dims = deviations.shape[1]
    inside = deviations[torch.linalg.vector_norm(deviations, dim=1) < 2 * dims**0.5]
    unity = torch.eye(dims).to(deviations)
    covariance = torch.cov(inside.T).reshape(dims, dims) if len(inside) > 2 * dims else unity
    return covariance @ torch.linalg.inv(covariance + doubt * unity)


class Critic(nn.Module):
    """Tells real pictures of a class from drawn ones: images, (batch,) -> (batch,), larger = more like a real one."""

    def __init__(self, image_shape: ImageShape, num_classes: int, width: int = 32, features: int = 128) -> None:
        super().__init__()
        channels, *size = image_shape
        layers: list[nn.Module] = []
        while max(size) > 4:
            # A side of one pixel stays as it is while the other is halved.
            kernel, stride, padding = zip(*((4, 2, 1) if side > 1 else (1, 1, 0) for side in size), strict=True)
            layers += [spectral_norm(nn.Conv2d(channels, width, kernel, stride, padding)), nn.LeakyReLU(0.2)]
            channels, width, size = width, min(2 * width, 128), [max(1, side // 2) for side in size]
        whole = nn.Linear(channels * math.prod(size), features)
        self.look = nn.Sequential(*layers, nn.Flatten(), spectral_norm(whole), nn.LeakyReLU(0.2))
        self.realness = spectral_norm(nn.Linear(features, 1))
        self.of_class = spectral_norm(nn.Embedding(num_classes, features))

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        features = self.look(images)
        return self.realness(features).squeeze(1) + (self.of_class(labels) * features).sum(1)


class Finishing:
    """One finishing phase: call `step` until `done`, then `finished_decoder`. A saved phase resumes bit for bit.

    imitate: whether prototypes may come to look like a training image.
    """

    def __init__(
        self,
        model: Model,
        data: ImageSet,
        steps: int,
        *,
        seed: int = 0,
        flip: bool = False,
        imitate: bool = True,
    ) -> None:
        if steps < 1:
            raise ValueError(f"the finishing phase needs at least 1 step, got {steps}")
        check_finishable(model, "this network")
        self.model, self.steps = model.eval().requires_grad_(False), steps
        self.material = gather(model, data, flip, torch.Generator().manual_seed(seed), imitate=imitate)
        self.generator = torch.Generator().manual_seed(seed)
        self.steps_done, self.seconds, self.processor_seconds = 0, 0.0, 0.0
        with seeded(seed, model.device):
            self.decoder = self._first_decoder().to(model.device).train().requires_grad_(True)
            self.critic = self._first_critic().to(model.device)
        self.averaged = AveragedModel(self.decoder, avg_fn=_average)
        self.optimizer, self.critic_optimizer = (
            torch.optim.Adam(part.parameters(), RATE, betas=(0.5, 0.99)) for part in (self.decoder, self.critic)
        )

    def _first_decoder(self) -> PictureDecoder:
        """The model's own picture decoder, as trained so far, or a new one; in either case sifted."""
        model, shape = self.model, self.model.config.drawing_shape
        assert shape is not None
        decoder = PictureDecoder(shape, model.head.num_classes, model.head.capsule_dim, model.head.unit)
        if isinstance(model.decoder, PictureDecoder):
            decoder.load_state_dict(model.decoder.state_dict())
        decoder.to(model.device).sift(self.material.sieve)
        return decoder

    def _first_critic(self) -> Critic:
        shape = self.model.config.drawing_shape
        assert shape is not None
        return Critic(shape, self.model.head.num_classes)

    @property
    def done(self) -> bool:
        return self.steps_done >= self.steps

    def finished_decoder(self) -> PictureDecoder:
        """The average of the decoder's weights over the last steps, ready to draw."""
        decoder = self.averaged.module
        assert isinstance(decoder, PictureDecoder)
        return decoder.eval().requires_grad_(False)

    def step(self) -> float:
        """One step of decoder and critic; the decoder's loss."""
        began, began_computing = time.perf_counter(), time.process_time()
        material, device = self.material, self.model.device
        rate = RATE * _rate(self.steps_done, self.steps)
        for optimizer in (self.optimizer, self.critic_optimizer):
            for group in optimizer.param_groups:
                group["lr"] = rate
        chosen = torch.randint(len(material.labels), (REAL,), generator=self.generator).to(device)
        wanted, classes = random_deviations(RANDOM, len(material.present), self.model.head.capsule_dim, self.generator)
        wanted, classes = wanted.to(device), material.present[classes.to(device)]
        drawn = self.decoder.paint(
            torch.cat([material.deviations[chosen], wanted]), torch.cat([material.labels[chosen], classes])
        )
        redrawn, new = drawn[:REAL], drawn[REAL:]
        loss = PIXELS * (redrawn - material.images[chosen]).square().mean() / material.variation
        loss = loss + READ_BACK * self._read_back(new, wanted, classes)
        if material.typical is not None:
            typical = (new[:CENTRES] - material.typical[classes[:CENTRES]]).square().mean() / material.variation
            weight = TYPICAL * min(1.0, self.steps / LONG) * _falling(self.steps_done, self.steps, 0.3)
            loss = loss + weight * typical
        if self.steps_done >= CRITIC_FROM:
            loss = loss + CRITIC * self._criticise(new, classes)
        if not torch.isfinite(loss):
            raise TrainingStopped(
                f"the loss of the finishing phase became {loss.item()} at step {self.steps_done + 1}; "
                "the trained network is kept as it was before"
            )
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.decoder.parameters(), 1.0)
        self.optimizer.step()
        self.averaged.update_parameters(self.decoder)
        self.steps_done += 1
        self.seconds += time.perf_counter() - began
        self.processor_seconds += time.process_time() - began_computing
        return float(loss.detach())

    def _read_back(self, drawn: Tensor, wanted: Tensor, classes: Tensor) -> Tensor:
        """How far the network's reading of drawings lies from what was drawn, in units; centres count more."""
        model = self.model
        blur = torch.rand(len(drawn), 1, 1, 1, generator=self.generator).to(drawn.device)
        seen = shifted(drawn.lerp(blurred(drawn), blur), *self._random_shift(READ_SHIFT))
        read = model.head(model.encoder(model.enlarge(seen)))
        missed = (_of_class(read, classes) - CENTRE) / model.head.unit - wanted
        centres, others = missed[:CENTRES], missed[CENTRES:]
        centres = torch.cat([_beyond(part) for part in centres.tensor_split([model.head.counted_dim], dim=1)], dim=1)
        others = torch.einsum("bij,bj->bi", self.material.sieve[classes[CENTRES:]], others)
        missed = torch.cat([centres, others])
        each = F.smooth_l1_loss(missed, torch.zeros_like(missed), reduction="none").mean(1)
        return (CENTRE_WEIGHT * each[:CENTRES].sum() + each[CENTRES:].sum()) / len(each)

    def _criticise(self, drawn: Tensor, classes: Tensor) -> Tensor:
        """One step of the critic, then its opinion of the drawings as a loss."""
        material = self.material
        real = torch.randint(len(material.labels), (len(drawn),), generator=self.generator).to(drawn.device)
        shift = self._random_shift(CRITIC_SHIFT)
        both = torch.cat([material.images[real], drawn.detach()])
        scores = self.critic(shifted(both, *shift), torch.cat([material.labels[real], classes]))
        hinge = F.relu(1 - scores[: len(real)]).mean() + F.relu(1 + scores[len(real) :]).mean()
        self.critic_optimizer.zero_grad(set_to_none=True)
        hinge.backward()
        self.critic_optimizer.step()
        self.critic.requires_grad_(False)
        opinion = -self.critic(shifted(drawn, *shift), classes).mean()
        self.critic.requires_grad_(True)
        return opinion

    def _random_shift(self, limit: int) -> tuple[int, int]:
        down, right = torch.randint(-limit, limit + 1, (2,), generator=self.generator).tolist()
        return down, right

    def save(self, path: Path) -> None:
        """All that changes in the phase, as one file, atomically."""
        tensors = {"generator": self.generator.get_state()}
        for name in MODULES:
            tensors |= {f"{name}.{key}": value for key, value in getattr(self, name).state_dict().items()}
        for name in OPTIMIZERS:
            tensors |= optimizer_tensors(getattr(self, name), f"{name}.")
        write_tensors(path, tensors, {"progress": json.dumps({name: getattr(self, name) for name in PROGRESS})})

    def restore(self, path: Path) -> None:
        """Go back to where `save` was called last; a phase that saved nothing starts at its first step."""
        if not path.exists():
            return
        try:
            tensors, metadata = read_tensors(path)
            progress = json.loads(metadata["progress"])
            if progress["steps"] != self.steps:
                raise ValueError(f"its phase has {progress['steps']} steps, this one {self.steps}")
            for name in MODULES:
                load_weights(getattr(self, name), under(f"{name}.", tensors), str(path))
            for name in OPTIMIZERS:
                restore_optimizer(getattr(self, name), under(f"{name}.", tensors))
            self.generator.set_state(tensors["generator"])
            for name in PROGRESS:
                setattr(self, name, progress[name])
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise ValueError(
                f"{path} cannot be resumed ({error}); finish with the same number of steps, or remove the file to "
                "start again"
            ) from error


def _beyond(missed: Tensor) -> Tensor:
    """Without what is near enough to the centre, in units: (batch, dims) -> same."""
    distance = torch.linalg.vector_norm(missed, dim=1, keepdim=True).clamp(min=1e-6)
    return missed * F.relu(1 - NEAR_ENOUGH * missed.shape[1] ** 0.5 / distance)


def check_finishable(model: Model, name: str) -> None:
    """Refuse networks that have no centre to draw, or do not know the size of their images."""
    if not model.head.has_hit_zone:
        raise ValueError(
            f"{name} is {model.config.name}, whose capsules have no centre to draw; "
            "choose a run of hitnet-fast or of another network with Hit-or-Miss"
        )
    if model.config.image_shape is None:
        raise ValueError(
            f"{name} does not know the size of its images; make it with image_shape=(channels, height, width)"
        )


def count_steps(share: float, steps: int) -> int:
    """The length of a phase that takes this share of the steps of training."""
    return max(FEWEST_STEPS, int(share * steps))


def random_deviations(count: int, classes: int, dims: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Capsules to draw, in units, and their classes: (count, dims), (count,).

    First the centres. Of the others most are Gaussian; a quarter has components dropped, a seventh has a single one.
    """
    deviations = torch.randn(count, dims, generator=generator)
    kind, drop = torch.rand(2, count, 1, generator=generator)
    kept = torch.rand(count, dims, generator=generator) > drop
    single = F.one_hot(torch.randint(dims, (count,), generator=generator), dims)
    swept = single * (4 * torch.rand(count, 1, generator=generator) - 2)
    deviations = torch.where(kind < 0.25, deviations * kept, deviations)
    deviations = torch.where(kind > 0.85, swept, deviations)
    deviations[:CENTRES] = 0
    labels = torch.randint(classes, (count,), generator=generator)
    labels[:CENTRES] = torch.randperm(classes, generator=generator).repeat(math.ceil(CENTRES / classes))[:CENTRES]
    return deviations, labels


def _of_class(capsules: Tensor, labels: Tensor) -> Tensor:
    """(batch, classes, dims), (batch,) -> (batch, dims)."""
    return capsules[torch.arange(len(labels), device=labels.device), labels]


def _rate(step: int, steps: int) -> float:
    """The share of the learning rate: up within 30 steps, constant, then down to 2 % in the second half."""
    return min(1.0, (step + 1) / 30) * _falling(step, steps, 0.02)


def _falling(step: int, steps: int, lowest: float) -> float:
    """1 in the first half of the phase, then down to `lowest`."""
    return min(1.0, max(lowest, 2 * (1 - step / steps)))


def _average(averaged: Tensor, newest: Tensor, count: Tensor | int) -> Tensor:
    """A running mean of the weights that forgets its beginning sooner when it is young."""
    return averaged.lerp(newest, max(1 - AVERAGING, 1 / (1 + float(count) / 4)))
