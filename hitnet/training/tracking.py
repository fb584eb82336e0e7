"""Training in TensorBoard: curves, prototypes, reconstructions and histograms of components, epoch by epoch."""

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from hitnet.data import Dataset, ImageSet, stratified_subset, to_float
from hitnet.heads import HitOrMissHead
from hitnet.interpret.prototypes import prototypes
from hitnet.interpret.statistics import true_capsules
from hitnet.model import Model, evaluating
from hitnet.training.config import TrainConfig
from hitnet.training.devices import Team
from hitnet.training.run import Row, Run
from hitnet.training.watcher import Watcher

FOLDER = "tensorboard"
COLUMNS = 10  # pictures beside each other
MEASURED = 500  # test images whose components make the histograms


def make_tracker(config: TrainConfig, team: Team) -> Watcher:
    """What the settings ask for; only the process that leads writes."""
    if config.track == "none":
        return Watcher()
    if find_spec("tensorboard") is None:
        raise ValueError("track tensorboard needs tensorboard; install: pip install 'hitnet[tensorboard]'")
    return TensorBoard() if team.leads else Watcher()


class TensorBoard(Watcher):
    """Writes RUN/tensorboard, one file an epoch: an epoch that is written again replaces what was there of it.

    Pictures and histograms show the network as it is trained, also where --ema keeps an average of it.
    """

    run: Run
    model: Model
    images: ImageSet

    def started(self, run: Run, data: Dataset, model: Model, epochs_done: int, batches: int) -> None:
        self.run, self.model = run, model
        # A choice has every class in it, so it is no smaller than their number.
        count = min(max(MEASURED, data.num_classes), len(data.test))
        chosen = stratified_subset(data.test.labels, count, torch.Generator().manual_seed(0))
        self.images = data.test.subset(chosen).to(next(model.parameters()).device)
        if epochs_done:
            # The kill may have come while its last epoch was being written.
            self.epoch_ended(run.metrics[epochs_done - 1])

    def epoch_ended(self, row: Row) -> None:
        from torch.utils.tensorboard import SummaryWriter  # an extra, and slow to load

        folder, epoch = self.run.path / FOLDER, int(row["epoch"])
        ending = f".epoch-{epoch:04d}"
        for former in folder.glob(f"*{ending}"):
            former.unlink()
        with SummaryWriter(str(folder), filename_suffix=ending) as writer:
            # Without a decoder the loss of the reconstruction is no number that could be read.
            left_out = {"epoch"} if self.model.decoder is not None else {"epoch", "train_reconstruction"}
            for name, value in row.items():
                if name not in left_out:
                    writer.add_scalar(_tag(name), value, epoch)
            if self.model.decoder is not None:
                self._write_drawings(writer, epoch)
            if isinstance(self.model.head, HitOrMissHead):
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
        for feature, values in enumerate(own.T):
            writer.add_histogram(f"component/c{feature:02d}", values, epoch)


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
