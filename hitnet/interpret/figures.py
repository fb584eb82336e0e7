"""Every picture that HitNet draws: each function returns a matplotlib Figure, `save` writes it."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator
from torch import Tensor

from hitnet.files import write_bytes

BLUE, ORANGE, GREY = "#2563a8", "#d9622b", "#6b7280"


def save(figure: Figure, path: Path, dpi: int = 150) -> Path:
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix.lstrip("."), dpi=dpi, bbox_inches="tight", facecolor="white")
    write_bytes(path, content.getvalue())
    return path


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
    side = max(4.0, 0.42 * classes + 1.5)
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
    axes.set_xticks(range(classes), class_names, rotation=0 if max(map(len, class_names)) <= 3 else 90)
    axes.set_yticks(range(classes), class_names)
    axes.set(xlabel="predicted", ylabel="true", title=title)
    return figure


def image_grid(images: Tensor, titles: Sequence[str], title: str, columns: int = 10) -> Figure:
    """Pictures side by side with a word above each: (count, channels, height, width)."""
    columns = min(columns, len(images))
    rows = math.ceil(len(images) / columns)
    figure = Figure(figsize=(1.1 * columns, 1.35 * rows + 0.4), layout="constrained")
    figure.suptitle(title)
    for axes, image, word in zip(
        figure.subplots(rows, columns, squeeze=False).flat, [*images], [*titles], strict=False
    ):
        show(axes, image)
        axes.set_title(word, fontsize=9)
    for axes in figure.axes[len(images) :]:
        axes.set_visible(False)
    return figure


def show(axes: Any, image: Tensor) -> None:
    """One picture, crisp, without ticks: (channels, height, width)."""
    pixels = image.detach().cpu().permute(1, 2, 0).numpy()
    if pixels.shape[2] == 3:
        axes.imshow(pixels.clip(0, 1), interpolation="nearest")
    else:
        axes.imshow(pixels[:, :, 0], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
