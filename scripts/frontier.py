"""Test error against CPU minutes of all recorded runs, one panel per data set: which network is worth its time?

    python scripts/frontier.py [results] [--out docs/images/frontier.png]

Reads the records of all runs below the folder (args.json, env.json, result.json). A point is the mean over the seeds of
one network with the same settings, processor and precision; the line joins those that no other beats in both error and
time. Minutes are those of training, without the finishing phase of the drawings; small points were trained on some of
the images. Full points were computed in bfloat16. Left out are runs without a measured CPU time, and those that began
with trained weights, whose training is not among their minutes.
"""

import argparse
import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from collect import settings
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from hitnet.interpret.figures.canvas import BLUE, GOLD, GREY, ORANGE, save
from hitnet.runs.run import Run

FAMILIES = {"hitnet-fast": BLUE, "hitnet-deep": GOLD, "hitnet": ORANGE}
OTHERS = "all others"
COLUMNS = 3
LARGE, SMALL = 6, 3
ABOVE: dict[str, Any] = {"xytext": (0, 4), "ha": "center", "va": "bottom"}
BELOW: dict[str, Any] = {"xytext": (0, -4), "ha": "left", "va": "top"}
BELOW_ON_THE_LEFT: dict[str, Any] = {"xytext": (-3, -3), "ha": "right", "va": "top"}


@dataclass(frozen=True)
class Point:
    """One network with one choice of settings, over its seeds."""

    data: str
    model: str
    minutes: float
    error: float
    seeds: int
    precision: str
    all_images: bool


def read_points(folder: Path) -> list[Point]:
    groups: dict[str, dict[int, Run]] = {}
    runs = (Run.open(file.parent) for file in folder.rglob("result.json"))
    for run in sorted(runs, key=lambda run: run.read_environment()["started"]):
        config, where = run.read_settings(), run.read_environment()
        if "processor_seconds" in run.read_result() and config.pretrained is None:
            # Every seed of hybrid augmentation has a teacher of its own.
            own = settings(config) | {"teacher": config.teacher is not None}
            alike = json.dumps([own, where["processor"], where["precision"]])
            # A run may be among the records of several experiments, or be repeated by a later version, which counts.
            groups.setdefault(alike, {})[config.seed] = run
    return [summarise(list(runs.values())) for runs in groups.values()]


def summarise(runs: list[Run]) -> Point:
    results = [run.read_result() for run in runs]
    return Point(
        data=results[0]["data"],
        model=results[0]["model"],
        minutes=fmean(result["processor_seconds"] / 60 for result in results),
        error=fmean(result["test"]["error"] for result in results),
        seeds=len(runs),
        precision=runs[0].read_environment()["precision"],
        all_images=runs[0].read_settings().train_images is None,
    )


def frontier(points: list[Point]) -> list[Point]:
    """Those that no other point beats in both error and time, the fastest first."""
    best, kept = math.inf, []
    for point in sorted(points, key=lambda each: (each.minutes, each.error)):
        if point.error < best:
            best = point.error
            kept.append(point)
    return kept


def draw(points: list[Point]) -> Figure:
    names = [name for name, _ in Counter(point.data for point in points).most_common()]
    rows = math.ceil(len(names) / COLUMNS)
    figure = Figure(figsize=(4.6 * COLUMNS, 3.4 * rows), layout="constrained")
    panels = figure.subplots(rows, COLUMNS, squeeze=False)
    for axes in panels.flat[len(names) :]:
        axes.set_visible(False)
    seen = {point.model if point.model in FAMILIES else OTHERS for point in points}
    colours = [
        Line2D([], [], marker="o", linestyle="", color=FAMILIES.get(name, GREY), label=name)
        for name in (*FAMILIES, OTHERS)
        if name in seen
    ]
    for words, filled, size in (
        ("bfloat16", GREY, LARGE),
        ("float32", "white", LARGE),
        ("trained on some of the images", "white", SMALL),
    ):
        look: dict[str, Any] = {"markerfacecolor": filled, "markersize": size, "label": words}
        colours.append(Line2D([], [], marker="s", linestyle="", color=GREY, **look))
    figure.legend(handles=colours, loc="outside lower center", ncols=len(colours), frameon=False, fontsize=8)
    for name, axes in zip(names, panels.flat, strict=False):
        of_data = [point for point in points if point.data == name]
        best = frontier(of_data)
        axes.plot([point.minutes for point in best], [point.error for point in best], color=GREY, linewidth=0.8)
        for point in of_data:
            colour = FAMILIES.get(point.model, GREY)
            filled = colour if point.precision == "bfloat16" else "white"
            size = LARGE if point.all_images else SMALL
            axes.plot(point.minutes, point.error, "o", markersize=size, color=colour, markerfacecolor=filled)
        for point in {point.model: point for point in best}.values():  # the last of each network has its lowest error
            words = f"{point.model}\n{point.error:.2f} %"
            # Where no point can be: above the fastest, below the best, below the others on the left.
            place = ABOVE if point is best[0] else BELOW if point is best[-1] else BELOW_ON_THE_LEFT
            axes.annotate(words, (point.minutes, point.error), textcoords="offset points", fontsize=7, **place)
        axes.set(title=name, xscale="log", yscale="log", xlabel="CPU minutes", ylabel="test error, %")
        axes.margins(0.22)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_locator(NullLocator())
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", type=Path, default=Path("results"))
    parser.add_argument("--out", type=Path, default=Path("docs/images/frontier.png"))
    args = parser.parse_args()
    points = read_points(args.results)
    if not points:
        parser.error(f"{args.results} has no records of finished runs with a CPU time; expected result.json files")
    save(draw(points), args.out)
    for point in sorted(frontier_of_each(points), key=lambda each: (each.data, each.minutes)):
        print(f"{point.data:15} {point.model:18} {point.error:6.2f} % in {point.minutes:5.1f} min ({point.seeds} runs)")


def frontier_of_each(points: list[Point]) -> list[Point]:
    names = {point.data for point in points}
    return [point for name in names for point in frontier([each for each in points if each.data == name])]


if __name__ == "__main__":
    main()
