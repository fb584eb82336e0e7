"""Callbacks of the training loop: a silent base class, and TensorBoard with curves, drawings and components."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hitnet.core.model import Model, evaluating
from hitnet.data import ImageSet, Loading, stratified_subset, to_float
from hitnet.errors import require
from hitnet.interpret.components import true_capsules
from hitnet.interpret.prototypes import prototypes

if TYPE_CHECKING:
    from hitnet.training.loop import Job

Row = dict[str, float]
"""The measurements of one epoch, by name."""

COLUMNS = 10  # pictures per row
MEASURED = 500  # test images whose components go into the histograms


class Watcher(Loading):
    """Called as training proceeds, to display or save its progress. This base class does nothing."""

    def opened(self, folder: Path) -> None:
        """The run folder is known."""

    def looking(self, done: int, pictures: int) -> None:
        """With a frozen encoder, before training: first with the pictures it remembers, then after every batch."""

    def started(self, job: Job) -> None: ...

    def stepped(self, images: int, loss: float) -> None: ...

    def epoch_ended(self, row: Row) -> None: ...

    def finishing(self, done: int, steps: int) -> None:
        """In the finishing phase: first with the steps done before the run was resumed, then after every step."""

    def measuring(self) -> None:
        """Training is over; the result is computed."""


class TensorBoard(Watcher):
    """Writes one file per epoch into a folder; writing an epoch again replaces its file.

    Pictures and histograms show the network that is being trained, even where --ema keeps an average of it.
    """

    model: Model
    images: ImageSet

    def __init__(self, folder: Path) -> None:
        require("track tensorboard", ["tensorboard"], "tensorboard")
        self.folder = folder

    def started(self, job: Job) -> None:
        self.model, test = job.state.model, job.data.test
        # The subset is stratified, so it needs at least one image per class.
        count = min(max(MEASURED, job.data.num_classes), len(test))
        chosen = stratified_subset(test.labels, count, torch.Generator().manual_seed(0))
        self.images = test.subset(chosen).to(self.model.device)
        if job.state.rows:
            # The run may have been killed while its last epoch was being written.
            self.epoch_ended(job.state.rows[-1])

    def epoch_ended(self, row: Row) -> None:
        from torch.utils.tensorboard import SummaryWriter  # an extra, and slow to load

        epoch = int(row["epoch"])
        ending = f".epoch-{epoch:04d}"
        for former in self.folder.glob(f"*{ending}"):
            former.unlink()
        with SummaryWriter(str(self.folder), filename_suffix=ending) as writer:
            # Without a decoder, the reconstruction loss is a meaningless 0.
            left_out = {"epoch"} if self.model.decoder is not None else {"epoch", "train_reconstruction"}
            for name, value in row.items():
                if name not in left_out:
                    writer.add_scalar(_tag(name), value, epoch)
            if self.model.decoder is not None:
                self._write_drawings(writer, epoch)
            if self.model.head.has_hit_zone:
                self._write_components(writer, epoch)

    def _write_drawings(self, writer: Any, epoch: int) -> None:
        drawn = prototypes(self.model)
        writer.add_image("prototypes", _pasted(drawn[: COLUMNS**2]), epoch, dataformats="HWC")
        originals = to_float(self.images.images[:COLUMNS])
        with torch.no_grad(), evaluating(self.model):
            redrawn = self.model(originals).reconstruction
        pairs = torch.cat([self.model.shrink(originals), redrawn])
        writer.add_image("reconstructions", _pasted(pairs, len(originals)), epoch, dataformats="HWC")

    def _write_components(self, writer: Any, epoch: int) -> None:
        own = true_capsules(self.model, to_float(self.images.pixels()), self.images.labels)
        writer.add_histogram("components", own[:, : self.model.head.counted_dim], epoch)
        for component, values in enumerate(own.T):
            writer.add_histogram(f"component/c{component:02d}", values, epoch)


def _tag(name: str) -> str:
    """train_loss -> loss/train: TensorBoard groups curves by the part before the slash."""
    if name == "learning_rate":
        return name
    part, _, kind = name.partition("_")
    return f"{kind}/{part}"


def _pasted(images: Tensor, columns: int = COLUMNS) -> Any:
    """Pictures tiled into one: (count, channels, height, width) -> (height, width, 3)."""
    from hitnet.interpret.figures.canvas import tile  # matplotlib takes a while to load

    columns = min(columns, len(images))
    missing = -len(images) % columns
    whole = torch.cat([images, images.new_ones(missing, *images.shape[1:])])
    return tile(whole.unflatten(0, (-1, columns)), gap=1)
