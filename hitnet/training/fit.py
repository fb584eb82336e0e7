"""Training on tensors in memory, without named data sets and without a run folder."""

from dataclasses import replace

import torch
from torch import Tensor

from hitnet.core.checks import check_images, check_labels
from hitnet.core.decoder import PictureDecoder
from hitnet.core.model import Model
from hitnet.data import ImageSet, shift, to_bytes
from hitnet.settings import RunSettings
from hitnet.training.devices import seeded
from hitnet.training.finishing import Finishing, check_finishable
from hitnet.training.loop import learning_rate
from hitnet.training.statistics import refresh_norm


def fit(model: Model, optimizer: torch.optim.Optimizer, inputs: Tensor, labels: Tensor, settings: RunSettings) -> None:
    """Train for `settings.epochs`. All randomness comes from `settings.seed`; the CPU's own generator is untouched."""
    device = model.device
    generator = torch.Generator().manual_seed(settings.seed)
    model.encoder.prepare(inputs)
    model.train()
    with seeded(settings.seed, device):
        for epoch in range(settings.epochs):
            order = torch.randperm(len(labels), generator=generator)
            # A batch of one is dropped: BatchNorm needs at least two images.
            batches = [chosen for chosen in order.split(settings.batch_size) if len(chosen) > 1]
            for index, chosen in enumerate(batches):
                rate = learning_rate(settings, epoch + index / len(batches))
                for group in optimizer.param_groups:
                    group["lr"] = rate
                batch, wanted = inputs[chosen], labels[chosen].to(device)
                if settings.augment == "shift" and settings.shift:
                    batch = shift(batch, settings.shift, fill=settings.shift_fill, generator=generator)
                batch = batch.to(device)
                loss = model.loss(model(batch, wanted), batch, wanted).total
                if not torch.isfinite(loss):
                    raise ValueError(
                        f"the loss became {loss.item()} in epoch {epoch + 1} at learning rate {rate:g}; "
                        "most likely the rate is too high: try a tenth of it"
                    )
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
        if settings.refresh_norm:
            refresh_norm(model, inputs)
    model.eval()


def finish(model: Model, images: Tensor, labels: Tensor, *, steps: int = 1000, seed: int = 0) -> None:
    """Train a decoder with which the network recognises its own drawings, on the images it was trained on.

    images: float in [0, 1], (count, channels, height, width); labels: (count,). The classifier stays as it is; a
    decoder of another kind is replaced by a convolutional one.
    """
    check_finishable(model, "this network")
    assert model.config.image_shape is not None
    if model.dtype != torch.float32:
        raise ValueError(f"drawings are finished in float32, got a network in {model.dtype}; call its .float() first")
    check_images(images, model.config.image_shape, model.dtype)
    check_labels(labels, len(images), model.head.num_classes)
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    training = model.training
    data = ImageSet(to_bytes(images), labels.long()).to(model.device)
    try:
        phase = Finishing(model, data, steps, seed=seed)
        while not phase.done:
            phase.step()
    finally:  # the phase froze it
        model.train(training)
        for parameter in trainable:
            parameter.requires_grad_(True)
    finished = phase.finished_decoder().train(training).requires_grad_(True)
    if isinstance(model.decoder, PictureDecoder):
        model.decoder.load_state_dict(finished.state_dict())  # in place: an optimizer may hold its weights
    else:
        model.decoder, model.config = finished, replace(model.config, decoder="picture")
