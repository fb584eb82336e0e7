"""What the decoder draws: prototypes and how they evolved, deformations by each component, hybrid images."""

import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from hitnet.core.layer import CENTRE
from hitnet.core.model import Model
from hitnet.data import HybridAugmentation
from hitnet.files import write_bytes
from hitnet.interpret.exemplars import Exemplars
from hitnet.interpret.figures.canvas import BLUE, GREY, ORANGE, drawing, frame, shortened, show, show_pixels, tile
from hitnet.interpret.prototypes import all_deformations, deformations, sweep_values
from hitnet.interpret.quality import Quality

CELL = 0.55  # width of a picture of a sweep, in inches
GAP = 2  # pixels between two pictures
LONGEST = 32  # most rows in one block; more blocks stand side by side
SECONDS, LONGEST_FILM, LAST = 0.5, 20.0, 2.0  # of one frame, of all frames at most, of the last frame
BESIDE = 0.3  # between a sweep and the real pictures at its ends, in inches
LARGER = 1.3  # how much larger the typical pictures are than those of a sweep
HYBRIDS, HYBRID_COLUMNS, HYBRID_ROWS = 23, 6, 4


def image_grid(images: Tensor, titles: Sequence[str], title: str) -> Figure:
    """Pictures side by side, ten per row, with a title above each: (count, channels, height, width)."""
    columns = min(10, len(images))
    rows = math.ceil(len(images) / columns)
    lines = max(word.count("\n") + 1 for word in titles)
    side, words, head = 1.0, 0.1 + 0.14 * lines, 0.28
    pitch = side + words + 0.04
    # Even one or two pictures leave room for the title.
    width, height = max(1.08 * columns, 0.095 * len(title), 4.0), pitch * rows + head
    figure = Figure(figsize=(width, height))
    figure.text(0.5, 1 - 0.05 / height, title, ha="center", va="top", fontsize=11)
    margin = (width - 1.08 * columns) / 2 + 0.04
    for index, (image, word) in enumerate(zip([*images], titles, strict=True)):
        left, top = margin + index % columns * 1.08, head + index // columns * pitch + words
        axes = figure.add_axes((left / width, 1 - (top + side) / height, side / width, side / height))
        show(axes, image)
        axes.set_title("\n".join(map(shortened, word.split("\n"))), fontsize=8, pad=3)
    return figure


def save_evolution(
    evolution: Iterable[tuple[str, Tensor]], class_names: Sequence[str], title: str, path: Path, dpi: int = 80
) -> Path:
    """A GIF of (words, prototypes), one frame for each; the words say when."""
    frames = []
    for when, pictures in evolution:
        canvas = FigureCanvasAgg(image_grid(pictures, class_names, f"{title}: {when}"))
        canvas.figure.set_dpi(dpi)
        with drawing(canvas.figure):
            canvas.draw()
        frames.append(Image.frombytes("RGBA", canvas.get_width_height(), bytes(canvas.buffer_rgba())).convert("RGB"))
    milliseconds = [round(1000 * min(SECONDS, LONGEST_FILM / len(frames)))] * len(frames)
    milliseconds[-1] = round(1000 * LAST)
    content = io.BytesIO()
    frames[0].save(content, "GIF", save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
    write_bytes(path, content.getvalue())
    return path


class Real(NamedTuple):
    """The real pictures of a page; white where there is none."""

    typical: Tensor
    """(count, channels, height, width)"""
    ends: Tensor
    """(rows, 2, per end, channels, height, width): where the component is low, and where it is high."""


def class_page(
    model: Model, class_index: int, quality: Quality | None = None, exemplars: Exemplars | None = None
) -> Figure:
    """One class of the atlas: one row for the sweep of each component, the one that explains most first.

    With exemplars, real training pictures stand above the sweeps and at both of their ends.
    """
    order = [*range(model.head.capsule_dim)] if quality is None else [*quality.by_importance]
    labels = [_label(component, quality) for component in order]
    name = model.config.class_names[class_index]
    pictures = all_deformations(model, class_index)[torch.tensor(order)]
    added = "" if quality is None else "; beside its name: what it adds to the explained variation within classes"
    style = (
        f" From c{model.head.counted_dim} on: style, the same numbers for every class." if model.head.has_style else ""
    )
    note, real = f"One component moves in each row{added}.{style}", None
    if exemplars is not None:
        typical, ends = exemplars.typical[class_index], exemplars.ends[class_index, order]
        real = Real(_at(exemplars.pictures, typical), _at(exemplars.pictures, ends))
        note = f"{note} Orange: real training pictures; all others are drawn."
    return _sweep_grid(model, pictures, labels, f"“{shortened(name, 60)}” and its deformations", note, real)


def _at(pictures: Tensor, places: Tensor) -> Tensor:
    """The pictures at some places, white at −1: (…) -> (…, channels, height, width), in [0, 1]."""
    white = torch.ones(1, *pictures.shape[1:])
    return torch.cat([pictures.float() / 255, white])[places]


def component_sweep(model: Model, component: int) -> Figure:
    """One component swept, for each class."""
    pictures = torch.stack([deformations(model, index, component) for index in range(model.head.num_classes)])
    labels = [shortened(name) for name in model.config.class_names]
    return _sweep_grid(model, pictures, labels, f"component {component} in each class", "One class in each row.")


def hybrid_preview(augment: HybridAugmentation, image: Tensor, label: int, generator: torch.Generator) -> Figure:
    """What the decoder draws for one image and 23 modifications; next to it, the same with the image's details.

    image: (channels, height, width).
    """
    labels = torch.full((HYBRIDS,), label, device=image.device)
    made = augment.make(image.expand(HYBRIDS, -1, -1, -1), labels, generator)
    drawn = torch.cat([made.reconstruction[:1], made.modified])
    detailed = torch.cat([image.unsqueeze(0), made.images])
    figure = Figure(figsize=(9.2, 3.6))
    name = augment.model.config.class_names[label]
    figure.suptitle(f"“{name}”: every component moved by up to {augment.tweak:.3g}", y=1.02, fontsize=11)
    for axes, pictures, title in (
        (figure.add_axes((0.01, 0, 0.48, 0.88)), drawn, "reconstruction (framed) and 23 modified"),
        (figure.add_axes((0.51, 0, 0.48, 0.88)), detailed, "original (framed) and 23 with its details"),
    ):
        show_pixels(axes, tile(pictures.unflatten(0, (HYBRID_ROWS, HYBRID_COLUMNS)), GAP))
        axes.set_title(title, fontsize=9.5)
        axes.set_axis_off()
        frame(axes, (-GAP / 2, -GAP / 2), pictures.shape[3] + GAP, pictures.shape[2] + GAP, ORANGE)
    return figure


def _sweep_grid(
    model: Model, pictures: Tensor, labels: Sequence[str], title: str, note: str, real: Real | None = None
) -> Figure:
    """(rows, steps, channels, height, width), a label for each row, the units of the steps on top."""
    rows, steps, _, height, width = pictures.shape
    blocks = math.ceil(rows / LONGEST)
    longest = math.ceil(rows / blocks)
    tall, head, foot = CELL * (height + GAP) / (width + GAP), 1.0, 0.08
    left = 0.25 + 0.075 * max(map(len, labels))
    typical = 0 if real is None else len(real.typical)
    per_end = 0 if real is None else real.ends.shape[2]
    beside = CELL * per_end + BESIDE if per_end else 0.0
    if typical:
        head += LARGER * tall + 0.45
    size = (blocks * (left + 2 * beside + CELL * steps + 0.1), head + tall * longest + foot)
    figure = Figure(figsize=size)

    def axes_at(x: float, y: float, wide: float, high: float) -> Any:
        """Axes whose upper left corner is at (x, y), in inches."""
        return figure.add_axes((x / size[0], 1 - (y + high) / size[1], wide / size[0], high / size[1]))

    for block in range(blocks):
        part = slice(block * longest, (block + 1) * longest)
        high, start = tall * len(labels[part]), block * size[0] / blocks + left
        sweeps = axes_at(start + beside, head, CELL * steps, high)
        _draw_sweeps(sweeps, model, pictures[part])
        first = sweeps
        if real is not None and per_end:
            ends = [
                axes_at(start + side * (beside + CELL * steps + BESIDE), head, CELL * per_end, high) for side in (0, 1)
            ]
            for side, (axes, word) in enumerate(zip(ends, ("real, low", "real, high"), strict=True)):
                _draw_real(axes, real.ends[part, side], word)
            first = ends[0]
        for row, label in enumerate(labels[part]):
            place = 1 - (row + 0.5) / len(labels[part])
            first.text(
                -0.1 / (CELL * per_end or CELL * steps),
                place,
                label,
                transform=first.transAxes,
                ha="right",
                va="center",
                fontsize=8,
            )
    figure.text(0.5, 1 - 0.06 / size[1], title, ha="center", va="top", fontsize=12)
    scale = f"On top: how far from the centre, in units of m/√n = {model.head.unit:.3g}."
    figure.text(0.5, 1 - 0.33 / size[1], f"{note}\n{scale}", ha="center", va="top", fontsize=7.5, color=GREY)
    if real is not None and typical:
        cell = LARGER * CELL
        start = (size[0] - cell * (typical + 1) - BESIDE) / 2
        prototype = axes_at(start, 0.95, cell, LARGER * tall)
        show(prototype, pictures[0, steps // 2])
        prototype.set_title("prototype, drawn", fontsize=7.5, pad=5, color=BLUE)
        frame(prototype, (0, 0), width, height, BLUE)
        _draw_real(
            axes_at(start + cell + BESIDE, 0.95, cell * typical, LARGER * tall),
            real.typical.unsqueeze(0),
            "typical pictures, real",
        )
    return figure


def _draw_real(axes: Any, pictures: Tensor, words: str) -> None:
    """Real pictures under their heading: (rows, columns, channels, height, width)."""
    show_pixels(axes, tile(pictures, GAP))
    axes.set_aspect("auto")
    axes.set_axis_off()
    axes.set_title(words, fontsize=7.5, pad=5, color=ORANGE)


def _draw_sweeps(axes: Any, model: Model, pictures: Tensor) -> None:
    _, steps, _, height, width = pictures.shape
    canvas = tile(pictures, GAP)
    show_pixels(axes, canvas)
    axes.set_aspect("auto")
    axes.set_axis_off()
    pitch, middle = width + GAP, steps // 2
    frame(axes, (middle * pitch - GAP / 2, -GAP / 2), pitch, len(canvas) + GAP, BLUE)
    units = (sweep_values(model, steps) - CENTRE) / model.head.unit
    for column, value in enumerate(units.tolist()):
        words = "prototype" if column == middle else f"{value:+.2g}".replace("-", "−")
        colour = BLUE if column == middle else "black"
        place = column * pitch + (width - 1) / 2
        axes.text(place, -0.18 * height, words, ha="center", va="bottom", fontsize=7.5, color=colour)


def _label(component: int, quality: Quality | None) -> str:
    if quality is None:
        return f"component {component}"
    if component in quality.dead:
        return f"c{component}   dead"
    return f"c{component}   {round(100 * quality.component_gain[component], 1) + 0:.1f} %".replace("-", "−")
