"""The centripetal loss for capsules of two components, where it can be plotted."""

from typing import Any

import numpy as np
import torch
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hitnet.core.loss import centripetal_loss, distance_to_centre
from hitnet.interpret.figures.canvas import BLUE, GREY, ORANGE

STEPS = 121


def loss_surfaces(hit_radius: float = 0.1, miss_radius: float = 0.6) -> Figure:
    """The loss of a capsule by where it lands in the unit square, and by its distance to the centre.

    The corners lie √2/2 = 0.71 from the centre, so the paper's miss zone, beyond 0.9, would not be visible.
    """
    side = torch.linspace(0, 1, STEPS, dtype=torch.float64)
    x, y = torch.meshgrid(side, side, indexing="ij")
    distances = distance_to_centre(torch.stack([x, y], dim=2))
    figure = Figure(figsize=(11, 3.6))
    grid = figure.add_gridspec(1, 3, width_ratios=(1, 1, 0.95), left=0, right=0.985, bottom=0.14, top=0.9, wspace=0.22)
    for place, own, title, colours in (
        (0, True, "the true class: pulled to the centre", ("#f3f7fc", BLUE)),
        (1, False, "every other class: pushed outwards", ("#fdf3ee", ORANGE)),
    ):
        axes: Any = figure.add_subplot(grid[place], projection="3d")
        surface = _loss(distances.flatten(), own, hit_radius, miss_radius).view(STEPS, STEPS)
        _draw_surface(axes, x.numpy(), y.numpy(), surface.numpy(), colours)
        axes.set_title(title, fontsize=10, y=1.0)
    _draw_curves(figure.add_subplot(grid[2]), hit_radius, miss_radius)
    return figure


def _loss(distances: torch.Tensor, own: bool, hit_radius: float, miss_radius: float) -> torch.Tensor:
    """One capsule's part of the centripetal loss, by its distance: (count,) -> (count,)."""
    # The other of the two classes is placed where its loss is zero.
    other = torch.full_like(distances, 2**0.5 / 2 if own else 0.0)
    labels = torch.zeros(len(distances), dtype=torch.long) if own else torch.ones(len(distances), dtype=torch.long)
    both = torch.stack([distances, other], dim=1)
    return centripetal_loss(both, labels, 2, hit_radius, miss_radius, reduction="none")


def _draw_surface(axes: Any, x: Any, y: Any, z: Any, colours: tuple[str, str]) -> None:
    shades = LinearSegmentedColormap.from_list("height", colours)
    axes.plot_surface(x, y, z, cmap=shades, rcount=60, ccount=60, linewidth=0.15, edgecolor=GREY, antialiased=True)
    axes.set_xlabel("component 1", fontsize=8, labelpad=-6)
    axes.set_ylabel("component 2", fontsize=8, labelpad=-6)
    axes.set_xticks([0, 0.5, 1])
    axes.set_yticks([0, 0.5, 1])
    axes.tick_params(labelsize=7, pad=-3)
    axes.tick_params(axis="z", pad=0)
    axes.view_init(elev=28, azim=-55)
    axes.set_zlim(0, np.max(z))
    axes.zaxis.set_major_locator(MaxNLocator(4))


def _draw_curves(axes: Any, hit_radius: float, miss_radius: float) -> None:
    distances = torch.linspace(0, 2**0.5 / 2, 500, dtype=torch.float64)
    for own, colour, label in ((True, BLUE, "true class"), (False, ORANGE, "another class (× λ = 0.5)")):
        axes.plot(distances, _loss(distances, own, hit_radius, miss_radius), color=colour, label=label)
    top = axes.get_ylim()[1]
    axes.axvspan(0, hit_radius, color=BLUE, alpha=0.12, linewidth=0)
    axes.axvspan(miss_radius, 2**0.5 / 2, color=ORANGE, alpha=0.12, linewidth=0)
    axes.text(hit_radius / 2, top * 0.55, "hit zone", rotation=90, ha="center", va="center", fontsize=8, color=BLUE)
    outside = (miss_radius + 2**0.5 / 2) / 2
    axes.text(outside, top * 0.3, "miss zone", rotation=90, ha="center", va="center", fontsize=8, color=ORANGE)
    axes.set(xlim=(0, 2**0.5 / 2), ylim=(0, top), xlabel="distance to the centre")
    axes.set_ylabel("loss")
    axes.tick_params(labelsize=8)
    axes.set_title("the same by distance", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="upper center")
    axes.spines[["top", "right"]].set_visible(False)
