"""The atlas of a network as files: its prototypes, a page of deformations for each class, and how they came to be."""

import re
from collections.abc import Callable
from pathlib import Path

from hitnet.heads import HitOrMissHead
from hitnet.interpret import figures
from hitnet.interpret.prototypes import prototypes
from hitnet.interpret.snapshots import read_evolution
from hitnet.interpret.statistics import Quality
from hitnet.model import Model


def write_atlas(
    model: Model, quality: Quality, folder: Path, title: str, done: Callable[[int], None] = lambda count: None
) -> list[Path]:
    """FOLDER/prototypes and FOLDER/atlas/<class>, each as .png and .svg; `done` hears of every finished page."""
    names = model.config.class_names
    trained = isinstance(model.head, HitOrMissHead)
    words = "what each class looks like at its centre" if trained else "drawn at 0.5, where it was not trained to be"
    grid = figures.image_grid(prototypes(model), names, f"{title}: {words}")
    for suffix in (".png", ".svg"):
        figures.save(grid, folder / f"prototypes{suffix}")
    for index, name in enumerate(names):
        page = figures.class_page(model, index, quality)
        for suffix in (".png", ".svg"):
            figures.save(page, folder / "atlas" / f"{file_name(index, name, len(names))}{suffix}")
        done(1)
    return [folder / "prototypes.png", folder / "atlas"]


def write_evolution(model: Model, run_folder: Path, title: str) -> Path:
    """RUN/plots/evolution.gif from the snapshots of the run."""
    path = run_folder / "plots" / "evolution.gif"
    return figures.save_evolution(read_evolution(model, run_folder), model.config.class_names, title, path)


def file_name(index: int, name: str, classes: int) -> str:
    """The class's number and name, in characters that every system takes: 3-t-shirt-top."""
    word = re.sub(r"[^\w-]+", "-", name).strip("-")[:40]
    number = str(index).zfill(len(str(classes - 1)))
    return number if word in ("", str(index)) else f"{number}-{word}"
