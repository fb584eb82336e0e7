"""What the network sees: some training pictures of each class, as they come and varied."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from torch import Tensor

from hitnet.interpret.figures.canvas import BLUE, ORANGE, shortened, show_pixels, tile

CELL = 0.7  # height of a picture, in inches
GAP = 2  # pixels between two pictures
LONGEST = 20  # most rows in one block; more blocks stand side by side


def input_sheet(as_they_come: Tensor, varied: Tensor | None, class_names: Sequence[str], title: str) -> Figure:
    """One row for each class: (classes, columns, channels, height, width), in [0, 1].

    varied: the same pictures as training changes them; None if it does not.
    """
    classes, columns, _, height, width = as_they_come.shape
    blocks = math.ceil(classes / LONGEST)
    longest = math.ceil(classes / blocks)
    names = [shortened(name, 18) for name in class_names]
    kinds = [("as they come", as_they_come, BLUE)] + (
        [] if varied is None else [("varied for training", varied, ORANGE)]
    )
    wide, head, between = columns * CELL * width / height, 0.6, 0.2
    left = 0.3 + 0.075 * max(map(len, names))
    block_width = left + len(kinds) * (wide + between)
    size = (max(blocks * block_width, 0.09 * len(title)), head + CELL * longest + 0.1)
    figure = Figure(figsize=size)
    figure.text(0.5, 1 - 0.08 / size[1], title, ha="center", va="top", fontsize=11)

    def axes_at(x: float, high: float) -> Any:
        """Axes below the head, their left edge at x, in inches."""
        return figure.add_axes((x / size[0], 1 - (head + high) / size[1], wide / size[0], high / size[1]))

    for block in range(blocks):
        rows = range(block * longest, min(classes, (block + 1) * longest))
        for place, (words, pictures, colour) in enumerate(kinds):
            axes = axes_at(block * block_width + left + place * (wide + between), CELL * len(rows))
            show_pixels(axes, tile(pictures[rows.start : rows.stop], GAP))
            axes.set_aspect("auto")
            axes.set_axis_off()
            axes.set_title(words, fontsize=8, pad=4, color=colour)
            for row in rows if place == 0 else ():
                middle = 1 - (row - rows.start + 0.5) / len(rows)
                axes.text(
                    -0.1 / wide, middle, names[row], transform=axes.transAxes, ha="right", va="center", fontsize=8
                )
    return figure
