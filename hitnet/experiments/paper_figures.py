"""The paper's figures, from the finished runs of a protocol."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure

from hitnet.data import to_float
from hitnet.data.variation import HybridAugmentation
from hitnet.experiments.outcome import finished_runs
from hitnet.experiments.protocol import FALLING, STANDARDISED, Cell, Protocol
from hitnet.interpret import figures
from hitnet.interpret.prototypes import prototypes
from hitnet.interpret.quality import measure
from hitnet.runs.reopen import reopen
from hitnet.runs.run import Run

CURVES = {
    "table1": "Test error by epoch on MNIST",
    "table2": "Test error by epoch on the five data sets",
    "table3": "Test error by epoch without Hit-or-Miss (dashed) and with it",
    "hybrid": "Test error by epoch with and without hybrid augmentation",
}


class Drawing(NamedTuple):
    name: str
    caption: str
    figure: Figure


def write_figures(protocol: Protocol) -> tuple[list[tuple[str, Path]], list[str]]:
    """Write OUT/figures/<name>.png and .svg: (caption, PNG) of each, and why others could not be drawn."""
    drawings, problems = list(curve_figures(protocol)), []
    for name, (cell, words) in networks(protocol).items():
        if cell is not None and (runs := finished_runs(cell)):
            try:
                drawings += network_figures(runs[0], name, words)
            except (OSError, ValueError) as error:  # its model or its data set may be elsewhere
                problems.append(f"not drawn: a network with {words}: {error}")
    written = []
    for drawing in drawings:
        path = protocol.out / "figures" / f"{drawing.name}.png"
        figures.save(drawing.figure, path, dpi=120)
        figures.save(drawing.figure, path.with_suffix(".svg"))
        written.append((drawing.caption, path))
    return written, problems


def networks(protocol: Protocol) -> dict[str, tuple[Cell | None, str]]:
    """The networks whose prototypes and components are shown: file name -> cell, words."""
    return {
        "paper": (protocol.grid("table1").get(("HitNet", FALLING)), "the paper's decoder"),
        "standardised": (protocol.grid("figures").get((STANDARDISED, "MNIST")), "the standardised decoder"),
    }


def curve_figures(protocol: Protocol) -> Iterator[Drawing]:
    yield Drawing("loss", "The centripetal loss for capsules of two components", figures.loss_surfaces())
    for experiment, caption in CURVES.items():
        if panels := error_curves(protocol, experiment):
            figure = figures.errors_by_epoch(panels, in_pairs=experiment == "table3", one_scale=experiment == "table1")
            words = f"{caption}, logarithmic: mean of the runs (their number in brackets), one deviation each way"
            yield Drawing(f"errors-{experiment}", words, figure)


def error_curves(protocol: Protocol, experiment: str) -> dict[str, dict[str, list[list[float]]]]:
    """column -> row -> the errors by epoch of each finished run."""
    panels: dict[str, dict[str, list[list[float]]]] = {}
    for (row, column), cell in protocol.grid(experiment).items():
        if runs := finished_runs(cell):
            panels.setdefault(column, {})[row] = [[epoch["test_error"] for epoch in run.read_metrics()] for run in runs]
    return panels


def network_figures(run: Run, name: str, words: str) -> Iterator[Drawing]:
    """What one HitNet learned: prototypes, components, deformations, hybrid images."""
    opened = reopen(run.path)
    model, test, names = opened.model, opened.load_data().test, opened.model.config.class_names
    measured = measure(model, test)
    title = f"{opened.title()}, {words}"
    grid = figures.image_grid(prototypes(model), names, f"{title}: what each class looks like at its centre")
    yield Drawing(f"prototypes-{name}", f"Prototypes, {words}", grid)
    if measured.statistics is not None:
        histograms = figures.component_histograms(measured.statistics, f"{title}: components of true-class capsules")
        yield Drawing(
            f"components-{name}", f"Components of true-class capsules against the Gaussian, {words}", histograms
        )
    strongest = measured.quality.by_importance[0]
    sweep = figures.component_sweep(model, strongest)
    yield Drawing(f"deformations-{name}", f"The most important component, moved in every class, {words}", sweep)
    page = figures.class_page(model, 2, measured.quality)
    yield Drawing(f"deformations-of-2-{name}", f"Every component moved in the class “{names[2]}”, {words}", page)
    image, label = to_float(test.images[:1])[0], int(test.labels[0])
    preview = figures.hybrid_preview(HybridAugmentation(model), image, label, torch.Generator().manual_seed(0))
    yield Drawing(f"hybrid-{name}", f"Hybrid augmentation of one test image, {words}", preview)
