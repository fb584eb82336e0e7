"""Training curves and the confusion matrix."""

from collections.abc import Mapping, Sequence
from typing import Any

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
        _logarithmic(axes)
        axes.legend(frameon=False)
    return figure


def _logarithmic(axes: Any) -> None:
    """A logarithmic value axis if all values are positive, over whole epochs."""
    if min(min(line.get_ydata()) for line in axes.lines) > 0:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        # Less than a decade may contain no power of ten at all.
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5) if high / low > 20 else (1.5, 2, 3, 4, 5, 7)))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def errors_by_epoch(
    panels: Mapping[str, Mapping[str, Sequence[Sequence[float]]]], *, in_pairs: bool = False, one_scale: bool = False
) -> Figure:
    """Mean test error of several runs by epoch, with a band of ± one standard deviation.

    panels: title of the panel -> label of the line -> the runs' errors by epoch. `in_pairs` gives every two lines one
    colour, the first of them dashed; with `one_scale` all panels have the same axes.
    """
    columns = min(len(panels), 3 if len(panels) % 2 else 2)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(max(4.6 * columns, 6), 4.4 * rows), layout="constrained")
    places = list(figure.subplots(rows, columns, squeeze=False, sharey=one_scale).flat)
    for empty in places[len(panels) :]:
        empty.remove()
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    for axes, (title, lines) in zip(places, panels.items(), strict=False):
        for label, runs in lines.items():
            place = labels.index(label)
            colour = f"C{place // 2 if in_pairs else place}"
            shortest = min(len(run) for run in runs)
            errors = np.array([run[:shortest] for run in runs])
            mean, epochs = errors.mean(axis=0), np.arange(1, shortest + 1)
            dashed = "--" if in_pairs and place % 2 == 0 else "-"
            marker = "." if shortest <= 20 else ""
            axes.plot(epochs, mean, dashed, color=colour, marker=marker, markersize=4, label=f"{label} ({len(runs)})")
            if len(runs) > 1:
                spread = errors.std(axis=0, ddof=1)
                # A logarithmic axis cannot show zero.
                axes.fill_between(epochs, np.maximum(mean - spread, mean / 10), mean + spread, color=colour, alpha=0.15)
        axes.set(title=title, xlabel="epoch", ylabel="test error, %")
        _logarithmic(axes)
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    return figure


def confusion_matrix(confusion: Tensor, class_names: Sequence[str], title: str) -> Figure:
    """Which class is mistaken for which: mistakes shaded by their share of the true class, correct answers white."""
    counts = confusion.numpy()
    classes = len(class_names)
    side = max(4.0, (0.42 if classes <= 30 else 0.14) * classes + 1.5)
    figure = Figure(figsize=(side + 0.6, side), layout="constrained")
    axes = figure.subplots()
    wrong = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1) * 100
    np.fill_diagonal(wrong, 0)
    shades = LinearSegmentedColormap.from_list("mistakes", ["white", "#f6b26b", "#a63603"])
    picture = axes.imshow(wrong, cmap=shades, vmin=0, vmax=max(1.0, wrong.max()))
    figure.colorbar(picture, ax=axes, shrink=0.75, label="misclassified,\n% of the true class")
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
