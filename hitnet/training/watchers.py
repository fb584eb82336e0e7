"""Who looks on while a network trains: nobody, or TensorBoard with curves, drawings and components, epoch by epoch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hitnet.core.model import Model, evaluating
from hitnet.data import ImageSet, stratified_subset, to_float
from hitnet.errors import require
from hitnet.interpret.components import true_capsules
from hitnet.interpret.prototypes import prototypes

if TYPE_CHECKING:
    from hitnet.training.loop import Job

Row = dict[str, float]
"""What an epoch measured, by name."""

COLUMNS = 10  # pictures beside each other
MEASURED = 500  # test images whose components make the histograms


class Watcher:
    """Told how training goes, so that it can be shown. This one is silent."""

    def opened(self, folder: Path) -> None:
        """The run goes to this folder."""

    def started(self, job: Job) -> None: ...

    def stepped(self, images: int, loss: float) -> None: ...

    def epoch_ended(self, row: Row) -> None: ...


class TensorBoard(Watcher):
    """Writes one file for each epoch into a folder: an epoch that is written again replaces what was there of it.

    Pictures and histograms show the network as it is trained, also where --ema keeps an average of it.
    """

    model: Model
    images: ImageSet

    def __init__(self, folder: Path) -> None:
        require("track tensorboard", ["tensorboard"], "tensorboard")
        self.folder = folder

    def started(self, job: Job) -> None:
        self.model, test = job.state.model, job.data.test
        # A choice has every class in it, so it is no smaller than their number.
        count = min(max(MEASURED, job.data.num_classes), len(test))
        chosen = stratified_subset(test.labels, count, torch.Generator().manual_seed(0))
        self.images = test.subset(chosen).to(self.model.device)
        if job.state.rows:
            # The kill may have come while its last epoch was being written.
            self.epoch_ended(job.state.rows[-1])

    def epoch_ended(self, row: Row) -> None:
        from torch.utils.tensorboard import SummaryWriter  # an extra, and slow to load

        epoch = int(row["epoch"])
        ending = f".epoch-{epoch:04d}"
        for former in self.folder.glob(f"*{ending}"):
            former.unlink()
        with SummaryWriter(str(self.folder), filename_suffix=ending) as writer:
            # Without a decoder the loss of the reconstruction is no number that could be read.
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
        pairs = torch.cat([originals, redrawn])
        writer.add_image("reconstructions", _pasted(pairs, len(originals)), epoch, dataformats="HWC")

    def _write_components(self, writer: Any, epoch: int) -> None:
        own = true_capsules(self.model, to_float(self.images.images), self.images.labels)
        writer.add_histogram("components", own, epoch)
        for component, values in enumerate(own.T):
            writer.add_histogram(f"component/c{component:02d}", values, epoch)


def _tag(name: str) -> str:
    """train_loss -> loss/train: TensorBoard shows what is before the slash together."""
    if name == "learning_rate":
        return name
    part, _, kind = name.partition("_")
    return f"{kind}/{part}"


def _pasted(images: Tensor, columns: int = COLUMNS) -> Any:
    """Pictures in rows, as one: (count, channels, height, width) -> (height, width, 3)."""
    from hitnet.interpret.figures.canvas import tile  # matplotlib takes a while to load

    columns = min(columns, len(images))
    missing = -len(images) % columns
    whole = torch.cat([images, images.new_ones(missing, *images.shape[1:])])
    return tile(whole.unflatten(0, (-1, columns)), gap=1)
