"""A run looked at again: its model, its data, and how good its drawings are."""

from dataclasses import dataclass
from pathlib import Path

from hitnet.data import Dataset
from hitnet.heads import HitOrMissHead
from hitnet.interpret.statistics import Quality, measure
from hitnet.model import Model, load
from hitnet.training.evaluation import data_for
from hitnet.training.run import Run


@dataclass(frozen=True)
class Reopened:
    """A run and the model it kept."""

    run: Run
    model: Model

    @property
    def title(self) -> str:
        data = self.run.result["data"] if self.run.is_finished else Path(self.run.config.data).name
        return f"{self.model.config.name} on {data}"

    def data(self, source: str | None = None, data_dir: Path | None = None) -> Dataset:
        """What it was trained on, or other images that fit."""
        return data_for(self.run, self.model, source, data_dir)

    def quality(self, data_dir: Path | None = None) -> Quality:
        """As it was measured at the end of the run, or measured now."""
        if self.run.is_finished and "quality" in self.run.result:
            return Quality.from_json(self.run.result["quality"])
        return measure(self.model, self.data(data_dir=data_dir).test).quality


def reopen(path: Path) -> Reopened:
    """The run in a folder, if its network draws."""
    return Reopened(Run.open(path), load_drawing(path))


def load_drawing(path: Path) -> Model:
    """The model of a run, or one that lies there itself, if it draws."""
    model = load(path)
    if model.decoder is None:
        centred = isinstance(model.head, HitOrMissHead)
        remedy = "--decoder standardised" if centred else "--model hitnet-fast, or another with Hit-or-Miss"
        raise ValueError(f"{model.config.name} in {path} has no decoder, so it cannot draw; train one with {remedy}")
    return model
