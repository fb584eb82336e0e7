"""RUN/plots/inputs.png: what the network is given to learn from, drawn before the first epoch."""

import math
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from hitnet.data import ImageSet, to_float
from hitnet.runs.run import Run
from hitnet.training.loop import Job

MOST_CLASSES = 100  # rows of the sheet
COLUMNS, FEWER, MANY_CLASSES = 6, 4, 20  # pictures of a class; fewer where there are more classes than that
LARGEST_SIDE = 112  # pixels of a picture on the sheet


def write_inputs(run: Run, job: Job) -> Path | None:
    """Write the sheet; None if the run may not hold real pictures."""
    if job.settings.no_exemplars:
        return None
    from hitnet.interpret import figures  # matplotlib takes a while to load

    names = job.data.class_names[:MOST_CLASSES]
    places = choose(job.batches.data, len(names), COLUMNS if len(names) <= MANY_CLASSES else FEWER)
    used = places[places >= 0]
    images, labels = job.batches.data.images[used], job.batches.data.labels[used]
    plain, changed = to_float(images), _varied(job, images, labels)
    channels, height, width = job.data.image_shape
    title = f"{job.data.name}: {width}×{height}, {'grey' if channels == 1 else 'colour'}"
    if len(names) < job.data.num_classes:
        title += f", the first {len(names)} of {job.data.num_classes:,} classes"
    varied = None if torch.equal(plain, changed) else _arranged(changed, places)
    sheet = figures.input_sheet(_arranged(plain, places), varied, names, title)
    return figures.save(sheet, run.inputs_file)


def choose(data: ImageSet, classes: int, columns: int) -> Tensor:
    """Places of some images of each class, spread over all it has: (classes, columns), −1 where there are too few."""
    places = torch.full((classes, columns), -1)
    labels = data.labels.cpu()
    for index in range(classes):
        own = (labels == index).nonzero()[:, 0]
        count = min(columns, len(own))
        places[index, :count] = own[torch.arange(count) * len(own) // max(count, 1)]
    return places


def _varied(job: Job, images: Tensor, labels: Tensor) -> Tensor:
    """The same images as training varies them; with a generator of its own, since training must not notice."""
    variation, generator = job.batches.variation, torch.Generator().manual_seed(job.settings.seed)
    choices = variation.choose(torch.arange(len(labels)), 0, generator, images.device)
    return variation.hide(variation.apply(images, labels, choices, generator), choices)


def _arranged(images: Tensor, places: Tensor) -> Tensor:
    """Images in rows, white where there is none, made smaller if they are large: -> (classes, columns, c, h, w)."""
    if (scale := LARGEST_SIDE / max(images.shape[2:])) < 1:
        size = [math.ceil(scale * side) for side in images.shape[2:]]
        images = interpolate(images, size, mode="bilinear", antialias=True)
    sheet = images.new_ones(*places.shape, *images.shape[1:])
    sheet[(places >= 0).to(images.device)] = images
    return sheet
