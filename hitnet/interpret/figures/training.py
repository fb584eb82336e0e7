"""How training went, and what is taken for what."""

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator
from torch import Tensor

from hitnet.interpret.figures.canvas import BLUE, GREY, ORANGE, shortened


def curves(rows: Sequence[dict[str, float]], title: str) -> Figure:
    """Error and loss by epoch."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    figure.suptitle(title)
    left, right = figure.subplots(1, 2)
    for axes, quantity, label in ((left, "error", "error, %"), (right, "loss", "loss")):
        for split, colour in (("train", GREY), ("validation", ORANGE), ("test", BLUE)):
            if f"{split}_{quantity}" in rows[0]:
                values = [row[f"{split}_{quantity}"] for row in rows]
                axes.plot([row["epoch"] for row in rows], values, color=colour, label=split, marker=".", markersize=4)
        axes.set(xlabel="epoch", ylabel=label)
        if min(min(line.get_ydata()) for line in axes.lines) > 0:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("{x:g}")
            axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    return figure


def confusion_matrix(confusion: Tensor, class_names: Sequence[str], title: str) -> Figure:
    """Which class is taken for which: mistakes shaded by their share of the true class, right answers white."""
    counts = confusion.numpy()
    classes = len(class_names)
    side = max(4.0, (0.42 if classes <= 30 else 0.14) * classes + 1.5)
    figure = Figure(figsize=(side + 0.6, side), layout="constrained")
    axes = figure.subplots()
    wrong = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1) * 100
    np.fill_diagonal(wrong, 0)
    shades = LinearSegmentedColormap.from_list("mistakes", ["white", "#f6b26b", "#a63603"])
    picture = axes.imshow(wrong, cmap=shades, vmin=0, vmax=max(1.0, wrong.max()))
    figure.colorbar(picture, ax=axes, shrink=0.75, label="mistaken images, % of the true class")
    if classes <= 30:
        for row, column in np.argwhere(counts > 0):
            strong = wrong[row, column] > 0.6 * max(1.0, wrong.max())
            colour = GREY if row == column else "white" if strong else "black"
            axes.text(column, row, str(counts[row, column]), ha="center", va="center", fontsize=8, color=colour)
    size = 9 if classes <= 30 else 6
    names = [shortened(name, 20) for name in class_names]
    axes.set_xticks(range(classes), names, rotation=0 if max(map(len, names)) <= 3 else 90, fontsize=size)
    axes.set_yticks(range(classes), names, fontsize=size)
    axes.set(xlabel="predicted", ylabel="true", title=title)
    return figure
