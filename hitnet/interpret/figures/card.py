"""The decision card: one image, and everything that led to its class."""

import math
import textwrap
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from hitnet.interpret.explanation import Deformation, Explanation
from hitnet.interpret.figures.canvas import (
    BLUE,
    GOLD,
    GOLD_INK,
    GREY,
    ORANGE,
    PALE_GOLD,
    PALE_GREY,
    shortened,
    show,
    show_difference,
)
from hitnet.interpret.what_if import WhatIf

WIDTH, HEIGHT = 11.4, 5.85  # inches
BAND = 1.95  # below: what would make it another class
PICTURE, PITCH = 1.12, 1.26
STRONGEST = 5  # deformations shown
NAMED = 12  # classes named on the rim: the nearest ones
OPENING = math.radians(36)  # a wedge without classes, for the labels of the rings


def decision_card(explanation: Explanation) -> Figure:
    """Image, prototype, what was added to it, what is left, where every class landed, what would make it another."""
    height = HEIGHT if explanation.what_if is None else HEIGHT + BAND
    figure = Figure(figsize=(WIDTH, height))
    words = "\n".join(textwrap.wrap(explanation.words, 105, max_lines=2, placeholder=" …"))
    figure.text(0.5, 1 - 0.15 / height, words, ha="center", va="top", fontsize=12.5, linespacing=1.4)

    top = 1.05
    name = f"“{shortened(explanation.class_name, 11)}”"
    reach = max(0.25, float(explanation.residual.mean(0).abs().max()))
    show(_axes(figure, 0, top, "the image"), explanation.image)
    show(_axes(figure, 1, top, f"prototype\nof {name}", BLUE), explanation.prototype)
    show(_axes(figure, 2, top, "deformed:\nreconstruction"), explanation.reconstruction)
    show_difference(_axes(figure, 3, top, "what is left:\nresidual"), explanation.residual, reach)
    if explanation.what_if is None:
        rival = f"“{shortened(explanation.rival_name, 11)}”"
        show(_axes(figure, 4, top, f"next best:\n{rival}", ORANGE), explanation.rival_prototype)
    else:
        _draw_what_if(figure, explanation, explanation.what_if)

    strongest = explanation.deformations[:STRONGEST]
    _heading(figure, 2.45, "What deforms the prototype most: single components, in units of m/√n from the centre")
    _draw_deformations(figure, explanation, strongest)
    legend = "Orange: brighter than the prototype (residual: than the reconstruction). Blue: darker."
    _heading(figure, HEIGHT - 0.24, legend, size=8, colour=GREY)

    target = figure.add_axes((6.75 / WIDTH, 1 - 5.75 / height, 4.6 / WIDTH, 4.75 / height))
    if explanation.has_hit_zone:
        _draw_rings(target, explanation)
    else:
        _draw_bars(target, explanation)
    return figure


def _axes(figure: Figure, column: int, top: float, title: str, colour: str = "black") -> Any:
    left, height = 0.15 + column * PITCH, figure.get_figheight()
    place = (left / WIDTH, 1 - (top + PICTURE) / height, PICTURE / WIDTH, PICTURE / height)
    axes = figure.add_axes(place)
    axes.set_title(title, fontsize=9, pad=4, color=colour)
    return axes


def _heading(
    figure: Figure, top: float, words: str, size: float = 9.5, colour: str = "black", left: float = 0.15
) -> None:
    place = (left / WIDTH, 1 - top / figure.get_figheight())
    figure.text(*place, words, ha="left", va="top", fontsize=size, color=colour, linespacing=1.4)


def _draw_deformations(figure: Figure, explanation: Explanation, strongest: list[Deformation]) -> None:
    prototype = explanation.prototype
    changes = [deformation.picture - prototype for deformation in strongest]
    reach = max(0.1, *(float(change.mean(0).abs().max()) for change in changes))
    for column, (deformation, change) in enumerate(zip(strongest, changes, strict=True)):
        units = f"{round(deformation.units, 1) + 0:+.1f}".replace("-", "−")
        kind = "style " if deformation.component >= explanation.counted_dim else ""
        show(_axes(figure, column, 2.98, f"{kind}c{deformation.component}: {units} units"), deformation.picture)
        below = f"changes {100 * deformation.change:.1f} %"
        show_difference(_axes(figure, column, 4.4, below), change, reach)


def _draw_what_if(figure: Figure, explanation: Explanation, found: WhatIf) -> None:
    """From the reconstruction to the nearest picture of another class, and the change."""
    name = explanation.class_names[found.class_index]
    heading = f"What would make it “{shortened(name, 24)}”? The nearest one that the network draws, and the way there"
    _heading(figure, HEIGHT + 0.05, heading)
    titles = ["reconstruction", *["→"] * (len(found.frames) - 2), f"nearest “{shortened(name, 9)}”"]
    for column, (frame, title) in enumerate(zip(found.frames, titles, strict=True)):
        show(_axes(figure, column, HEIGHT + 0.55, title, "black" if column < len(titles) - 1 else ORANGE), frame)
    reach = max(0.25, float(found.change.mean(0).abs().max()))
    show_difference(_axes(figure, len(titles), HEIGHT + 0.55, "the change"), found.change, reach)
    left, height = 0.25 + (len(titles) + 1) * PITCH, figure.get_figheight()
    for top, colour, words in ((0.6, ORANGE, "+ add: make brighter"), (0.85, BLUE, "− remove: make darker")):
        square = (left / WIDTH, 1 - (HEIGHT + top + 0.15) / height)
        figure.add_artist(Rectangle(square, 0.15 / WIDTH, 0.15 / height, color=colour))
        _heading(figure, HEIGHT + top, words, 9, left=left + 0.25)
    lines = textwrap.wrap(explanation.what_if_words, 44, max_lines=5, placeholder=" …")
    _heading(figure, HEIGHT + 1.15, "\n".join(lines), 9, GREY, left)


def _draw_rings(axes: Any, explanation: Explanation) -> None:
    """Every class's distance to the centre. The radius grows with its square root, or the hit zone would be a dot."""
    farthest = math.sqrt(explanation.counted_dim) / 2

    def radius(distance: float) -> float:
        return math.sqrt(min(distance, farthest) / farthest)

    # Capsules of three components or fewer cannot reach the miss zone.
    outside = PALE_GREY if explanation.miss_radius < farthest else "white"
    axes.add_patch(Circle((0, 0), 1, facecolor=outside, edgecolor=GREY, linewidth=0.6))
    trained, missed = explanation.hit_radius, explanation.miss_radius
    usual = explanation.zone_of(explanation.class_index)
    between = [ring for ring in (0.6, 0.3) if radius(usual) + 0.1 < radius(ring) < radius(missed) - 0.1]
    for distance in (missed, *between):
        if distance < farthest:
            style = {"linewidth": 1.4, "linestyle": "-"} if distance == missed else {"linewidth": 0.6, "linestyle": ":"}
            axes.add_patch(Circle((0, 0), radius(distance), facecolor="white", edgecolor=GREY, **style))
            if abs(radius(distance) - radius(usual)) > 0.09 or explanation.radii is None:
                _name_ring(axes, radius(distance), f"{'miss ≥ ' if distance == missed else ''}{distance:g}", GREY)
    if explanation.radii is not None:
        axes.add_patch(Circle((0, 0), radius(usual), facecolor=PALE_GOLD, edgecolor=GOLD, linewidth=1.4))
        if usual >= missed:
            axes.add_patch(Circle((0, 0), radius(missed), fill=False, edgecolor=GREY, linewidth=1.4))
        _name_ring(axes, radius(usual), f"usual ≤ {usual:.2f}", GOLD_INK)
    axes.add_patch(Circle((0, 0), radius(trained), facecolor=GOLD, edgecolor=GOLD, alpha=0.55, linewidth=1))
    if explanation.radii is None or radius(usual) - radius(trained) > 0.12:
        _name_ring(axes, radius(trained), f"trained ≤ {trained:g}", GOLD_INK)
    axes.plot(0, 0, marker="+", color=GREY, markersize=7, markeredgewidth=0.8)

    order, what_if = explanation.ranking, explanation.what_if
    asked = explanation.rival_index if what_if is None else what_if.class_index
    named = {*order[:NAMED], asked}
    for slot, index in enumerate(_around_the_rim(order)):
        angle = OPENING / 2 + (slot + 0.5) * (2 * math.pi - OPENING) / len(order)
        x, y = math.sin(angle), math.cos(angle)
        chosen, rival = index == explanation.class_index, index == asked
        colour = BLUE if chosen else ORANGE if rival else GREY
        away = radius(explanation.scores[index])
        if index in named:
            axes.plot([0, x], [0, y], color=colour, linewidth=0.5, alpha=0.5, zorder=2)
            side = "center" if abs(x) < 0.25 else "left" if x > 0 else "right"
            name = f"{shortened(explanation.class_names[index], 10)}\n{explanation.scores[index]:.2f}"
            weight = "bold" if chosen or rival else "normal"
            style = {"ha": side, "va": "center", "fontsize": 8, "color": colour, "fontweight": weight}
            axes.text(1.07 * x, 1.09 * y, name, **style, linespacing=1.1)
        size = 10 if chosen else 8 if rival else 5.5 if index in named else 3
        axes.plot(away * x, away * y, "o", color=colour, markersize=size, markeredgecolor="white", zorder=4)
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.22, 1.22), aspect="equal")
    axes.set_title("where each class landed: its distance to the centre", fontsize=9.5)
    axes.set_axis_off()


def _name_ring(axes: Any, radius: float, words: str, colour: str) -> None:
    axes.text(0, radius + 0.045, words, ha="center", va="center", fontsize=7.5, color=colour, zorder=5)


def _around_the_rim(order: list[int]) -> list[int]:
    """Classes in order around the rim: by index if all are named, else the nearest evenly spaced among the rest."""
    if len(order) <= NAMED:
        return sorted(order)
    slots: list[int | None] = [None] * len(order)
    for place, index in enumerate(order[:NAMED]):
        slots[place * len(order) // NAMED] = index
    rest = iter(order[NAMED:])
    return [next(rest) if index is None else index for index in slots]


def _draw_bars(axes: Any, explanation: Explanation) -> None:
    """The best scores of a network without a hit zone."""
    best = explanation.ranking[:NAMED]
    colours = [
        BLUE if index == explanation.class_index else ORANGE if index == explanation.rival_index else GREY
        for index in best
    ]
    axes.barh(range(len(best)), [explanation.scores[index] for index in best], color=colours, height=0.6)
    axes.set_yticks(range(len(best)), [shortened(explanation.class_names[index]) for index in best], fontsize=8.5)
    for place, index in enumerate(best):
        axes.text(
            explanation.scores[index], place, f" {explanation.scores[index]:.2f}", va="center", fontsize=8, color=GREY
        )
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_title("score of each class, the highest wins", fontsize=9.5)
    axes.spines[["top", "right"]].set_visible(False)
