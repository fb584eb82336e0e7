"""Histograms of the components of true-class capsules, compared with what is expected."""

import math

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hitnet.core.layer import CENTRE
from hitnet.interpret.components import ComponentStatistics
from hitnet.interpret.figures.canvas import BLUE, GREY, ORANGE, PALE_BLUE


def component_histograms(statistics: ComponentStatistics, title: str) -> Figure:
    """One panel for each component, over all classes, with the Gaussian N(0.5, m/√n)."""
    counts = statistics.histogram.sum(0)
    centres, spreads = statistics.pooled()
    dims = len(counts)
    columns = min(dims, 4 if dims <= 16 else 8)
    rows = math.ceil(dims / columns)
    size = (max(2.1 * columns + 0.5, 6.0), 1.55 * rows + 1.15)
    figure = Figure(figsize=size)
    panels = figure.subplots(
        rows,
        columns,
        squeeze=False,
        sharex=True,
        sharey=True,
        gridspec_kw={
            "left": 0.35 / size[0],
            "right": 1 - 0.15 / size[0],
            "top": 1 - 0.85 / size[1],
            "bottom": 0.45 / size[1],
            "hspace": 0.32,
            "wspace": 0.1,
        },
    )
    edges, sigma = statistics.edges.double().numpy(), statistics.expected_deviation
    curve = np.linspace(edges[0], edges[-1], 200)
    gaussian = np.exp(-(((curve - CENTRE) / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
    highest = max(gaussian.max(), float((counts.amax(1) / counts.sum(1).clamp(min=1)).max()) / (edges[1] - edges[0]))
    panels[0, 0].set_ylim(0, 1.05 * highest)
    for component, axes in enumerate(panels.flat):
        if component >= dims:
            axes.set_visible(False)
            continue
        count = counts[component].double().numpy()
        mean, spread = centres[component], spreads[component]
        density = count / max(count.sum(), 1) / (edges[1] - edges[0])
        axes.fill_between(edges, [*density, density[-1]], step="post", color=PALE_BLUE)
        axes.step(edges, [*density, density[-1]], where="post", color=BLUE, linewidth=0.8)
        axes.plot(curve, gaussian, color=ORANGE, linewidth=1.2)
        axes.axvline(CENTRE, color=GREY, linewidth=0.6, linestyle=":")
        axes.set_title(f"c{component}   {mean:.3f} ± {spread:.3f}", fontsize=8, pad=3)
        axes.set_xticks([CENTRE - 3 * sigma, CENTRE, CENTRE + 3 * sigma])
        axes.xaxis.set_major_formatter("{x:.3g}")
        axes.set_yticks([])
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right", "left"]].set_visible(False)
    figure.text(0.5, 1 - 0.1 / size[1], title, ha="center", va="top", fontsize=11)
    figure.legend(
        handles=[
            Patch(facecolor=PALE_BLUE, edgecolor=BLUE, label="measured (mean ± deviation above each panel)"),
            Line2D([], [], color=ORANGE, label=f"expected: N(0.5, m/√n = {sigma:.3g})"),
        ],
        loc="upper center",
        bbox_to_anchor=(0.5, 1 - 0.3 / size[1]),
        ncols=2,
        frameon=False,
        fontsize=8,
    )
    words = "value of the component (the outermost bars include everything beyond)"
    figure.text(0.5, 0.06 / size[1], words, ha="center", va="bottom", fontsize=8)
    return figure
