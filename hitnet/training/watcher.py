"""Who looks on while a network trains."""

from hitnet.data import Dataset
from hitnet.model import Model
from hitnet.training.run import Row, Run


class Watcher:
    """Told how training goes, so that it can be shown. This one is silent."""

    def started(self, run: Run, data: Dataset, model: Model, epochs_done: int, batches: int) -> None: ...

    def stepped(self, images: int, loss: float) -> None: ...

    def epoch_ended(self, row: Row) -> None: ...
