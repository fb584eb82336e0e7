"""The decoder after each epoch, kept while training: how the prototypes came to be."""

from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from hitnet.checkpoint import load_weights, read_tensors, write_tensors
from hitnet.interpret.prototypes import prototypes
from hitnet.model import Model, build

FOLDER = "snapshots"


def write_snapshot(model: Model, run_folder: Path, epoch: int) -> None:
    """Keep the decoder's weights as they are after an epoch; prototypes need nothing else."""
    if model.decoder is None:
        raise ValueError(f"{model.config.name} has no decoder, so there is nothing to keep; leave snapshots out")
    path = run_folder / FOLDER / f"epoch-{epoch:04d}.safetensors"
    write_tensors(path, model.decoder.state_dict(), {"epoch": str(epoch)})


def read_evolution(model: Model, run_folder: Path) -> Iterator[tuple[int, Tensor]]:
    """The epochs and their prototypes, (classes, channels, height, width), first epoch first."""
    files = sorted((run_folder / FOLDER).glob("epoch-*.safetensors"))
    if not files:
        raise FileNotFoundError(
            f"there are no snapshots in {run_folder / FOLDER}; train with --snapshots to keep one after each epoch"
        )
    drawer = build(model.config).to(next(model.parameters()).device)
    assert drawer.decoder is not None
    for file in files:
        weights, metadata = read_tensors(file)
        load_weights(drawer.decoder, weights, str(file))
        yield int(metadata["epoch"]), prototypes(drawer)
