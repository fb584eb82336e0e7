"""The atlas of a run: files with its prototypes, a page of deformations per class, and a film of the training."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from torch import Tensor

from hitnet.core.checkpoint import load_weights, read_tensors
from hitnet.core.model import Model, build
from hitnet.interpret import figures
from hitnet.interpret.exemplars import Exemplars
from hitnet.interpret.prototypes import prototypes
from hitnet.interpret.quality import Quality
from hitnet.runs.reopen import Reopened
from hitnet.runs.run import Run


def write_atlas(
    opened: Reopened,
    quality: Quality,
    exemplars: Exemplars | None = None,
    done: Callable[[int], None] = lambda count: None,
) -> list[Path]:
    """RUN/plots/prototypes and RUN/plots/atlas/<class>, each as .png and .svg; `done(1)` is called after every page."""
    model, folder = opened.model, opened.run.plots_folder
    names = model.config.class_names
    trained = model.head.has_hit_zone
    words = "what each class looks like at its centre" if trained else "drawn at 0.5, where it was not trained to lie"
    grid = figures.image_grid(prototypes(model), names, f"{opened.title()}: {words}")
    for suffix in (".png", ".svg"):
        figures.save(grid, folder / f"prototypes{suffix}")
    for index, name in enumerate(names):
        page = figures.class_page(model, index, quality, exemplars)
        for suffix in (".png", ".svg"):
            figures.save(page, folder / "atlas" / f"{file_name(index, name, len(names))}{suffix}")
        done(1)
    return [folder / "prototypes.png", folder / "atlas"]


def remove_atlas(run: Run) -> None:
    """Take away what `write_atlas` and `write_evolution` drew with another decoder."""
    for name in ("prototypes.svg", "evolution.gif"):
        (run.plots_folder / name).unlink(missing_ok=True)
    if (run.plots_folder / "atlas").is_dir():
        shutil.rmtree(run.plots_folder / "atlas")


def write_evolution(opened: Reopened) -> Path:
    """RUN/plots/evolution.gif from the snapshots of the run."""
    evolution, names = read_evolution(opened.model, opened.run), opened.model.config.class_names
    return figures.save_evolution(evolution, names, opened.title(), opened.run.plots_folder / "evolution.gif")


def read_evolution(model: Model, run: Run) -> Iterator[tuple[str, Tensor]]:
    """(epoch 1, prototypes) and so on, at last those of the finished decoder: (classes, channels, height, width)."""
    files = sorted(run.snapshots_folder.glob("epoch-*.safetensors"))
    if not files:
        raise FileNotFoundError(
            f"there are no snapshots in {run.snapshots_folder}; train with --snapshots to keep one after each epoch"
        )
    # As it was trained: `hitnet finish` may have given the model another kind of decoder since.
    config = run.read_settings().model_config(model.config.image_shape, model.config.class_names)
    former = build(config).to(model.device)
    assert former.decoder is not None
    for file in files:
        weights, metadata = read_tensors(file)
        load_weights(former.decoder, weights, str(file))
        if not re.fullmatch("[0-9]+", epoch := metadata.get("epoch", "")):
            raise ValueError(f"{file} must say which epoch it is from, got {epoch[:40]!r}; remove it")
        yield f"epoch {epoch}", prototypes(former)
    if run.is_finished and run.read_result().get("finishing"):
        yield "finished", prototypes(model)


def file_name(index: int, name: str, classes: int) -> str:
    """The class's number and name, in characters that every file system accepts: 3-t-shirt-top."""
    word = re.sub(r"[^\w-]+", "-", name).strip("-")[:40]
    number = str(index).zfill(len(str(classes - 1)))
    return number if word in ("", str(index)) else f"{number}-{word}"
