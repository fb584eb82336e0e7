"""What was learned, without any image: prototypes, and how each component deforms them."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from hitnet.interpret.figures.canvas import BLUE, GREY, frame, shortened, show, show_pixels, tile
from hitnet.interpret.prototypes import CENTRE, all_deformations, deformations, sweep_values, unit
from hitnet.interpret.statistics import Quality
from hitnet.model import Model

CELL = 0.55  # inches a picture of a sweep is wide
GAP = 2  # pixels between two
LONGEST = 32  # rows one below the other; more stand side by side


def image_grid(images: Tensor, titles: Sequence[str], title: str) -> Figure:
    """Pictures side by side, ten in a row, with a word above each: (count, channels, height, width)."""
    columns = min(10, len(images))
    rows = math.ceil(len(images) / columns)
    side, pitch, head = 1.0, 1.28, 0.28
    # A lonely picture or two still leave room for the title.
    width, height = max(1.08 * columns, 0.095 * len(title), 4.0), pitch * rows + head
    figure = Figure(figsize=(width, height))
    figure.text(0.5, 1 - 0.05 / height, title, ha="center", va="top", fontsize=11)
    margin = (width - 1.08 * columns) / 2 + 0.04
    for index, (image, word) in enumerate(zip([*images], titles, strict=True)):
        left, top = margin + index % columns * 1.08, head + index // columns * pitch + 0.24
        axes = figure.add_axes((left / width, 1 - (top + side) / height, side / width, side / height))
        show(axes, image)
        axes.set_title(shortened(word), fontsize=8, pad=3)
    return figure


def class_page(model: Model, class_index: int, quality: Quality | None = None) -> Figure:
    """One class of the atlas: each component swept in a row, the one that explains most first."""
    order = range(model.head.capsule_dim) if quality is None else quality.by_importance
    labels = [_component(feature, quality) for feature in order]
    name = model.config.class_names[class_index]
    pictures = all_deformations(model, class_index)[torch.tensor([*order])]
    added = "" if quality is None else "; beside its name: what it adds to the explained variation within classes"
    note = f"One component moves in each row{added}."
    return _sweep_grid(model, pictures, labels, f"“{name}” and its deformations", note)


def component_sweep(model: Model, feature: int) -> Figure:
    """One component swept, for each class."""
    pictures = torch.stack([deformations(model, index, feature) for index in range(model.head.num_classes)])
    labels = [shortened(name) for name in model.config.class_names]
    return _sweep_grid(model, pictures, labels, f"component {feature} in each class", "One class in each row.")


def _sweep_grid(model: Model, pictures: Tensor, labels: Sequence[str], title: str, note: str) -> Figure:
    """(rows, steps, channels, height, width), a label for each row, the units of the steps on top."""
    rows, steps, _, height, width = pictures.shape
    blocks = math.ceil(rows / LONGEST)
    longest = math.ceil(rows / blocks)
    tall, head, foot = CELL * height / width, 1.0, 0.08
    left = 0.25 + 0.075 * max(map(len, labels))
    size = (blocks * (left + CELL * steps + 0.1), head + tall * longest + foot)
    figure = Figure(figsize=size)
    for block in range(blocks):
        part = slice(block * longest, (block + 1) * longest)
        part_rows = len(labels[part])
        place = (
            (block / blocks + left / size[0]),
            1 - (head + tall * part_rows) / size[1],
            CELL * steps / size[0],
            tall * part_rows / size[1],
        )
        _draw_sweeps(figure.add_axes(place), model, pictures[part], labels[part])
    figure.text(0.5, 1 - 0.06 / size[1], title, ha="center", va="top", fontsize=12)
    scale = f"On top: how far from the centre, in units of m/√n = {unit(model):.3g}."
    figure.text(0.5, 1 - 0.33 / size[1], f"{note}\n{scale}", ha="center", va="top", fontsize=7.5, color=GREY)
    return figure


def _draw_sweeps(axes: Any, model: Model, pictures: Tensor, labels: Sequence[str]) -> None:
    _, steps, _, height, width = pictures.shape
    canvas = tile(pictures, GAP)
    show_pixels(axes, canvas)
    axes.set_axis_off()
    pitch, middle = width + GAP, steps // 2
    frame(axes, (middle * pitch - GAP / 2, -GAP / 2), pitch, len(canvas) + GAP, BLUE)
    for row, label in enumerate(labels):
        place = row * (height + GAP) + (height - 1) / 2
        axes.text(-0.3 * width, place, label, ha="right", va="center", fontsize=8)
    units = (sweep_values(model, steps) - CENTRE) / unit(model)
    for column, value in enumerate(units.tolist()):
        words = "prototype" if column == middle else f"{value:+.2g}".replace("-", "−")
        colour = BLUE if column == middle else "black"
        place = column * pitch + (width - 1) / 2
        axes.text(place, -0.18 * height, words, ha="center", va="bottom", fontsize=7.5, color=colour)


def _component(feature: int, quality: Quality | None) -> str:
    if quality is None:
        return f"component {feature}"
    if feature in quality.dead:
        return f"c{feature}   dead"
    return f"c{feature}   {round(100 * quality.component_gain[feature], 1) + 0:.1f} %".replace("-", "−")
