"""One network of an audit, as the runner of many runs wants it."""

from dataclasses import dataclass, field
from pathlib import Path

from hitnet.experiments.protocol import Trial
from hitnet.runs.run import Run


@dataclass(frozen=True)
class FoldTrial(Trial):
    """A network that holds out one part of the images."""

    data_name: str = field(kw_only=True)
    """The name of the data set, which may come from a path."""

    @property
    def path(self) -> Path:
        return Run.named(self.settings, self.data_name).path

    @property
    def title(self) -> str:
        return f"{self.settings.model} on {self.data_name}, {self.variant}"
