"""What all figures share: colours, pictures on axes, tiles of pictures, and the one place that writes files."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from torch import Tensor

from hitnet.files import write_bytes

BLUE, ORANGE, GREY = "#2563a8", "#d9622b", "#6b7280"
PALE_BLUE, PALE_GREY = "#dbe7f5", "#f1f2f4"
GOLD, PALE_GOLD, GOLD_INK = "#e3a512", "#fbf0cf", "#7a5600"  # hits, as on the explorer's page
# Blue: less than expected. Orange: more than expected.
DIVERGING = LinearSegmentedColormap.from_list("less and more", [BLUE, "white", ORANGE])

# Fonts for letters that matplotlib's own font lacks, used if they are installed.
OTHER_SCRIPTS = ("Noto Sans CJK JP", "WenQuanYi Micro Hei", "Arial Unicode MS", "Microsoft YaHei", "Malgun Gothic")

Pixels = npt.NDArray[np.float64]


def save(figure: Figure, path: Path, dpi: int = 150) -> Path:
    """Write the figure in the format of the path's suffix; the same figure gives the same file."""
    kind = path.suffix.lstrip(".")
    content = io.BytesIO()
    with drawing(figure):
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(content, format=kind, dpi=dpi, bbox_inches="tight", facecolor="white", metadata=metadata)
    write_bytes(path, content.getvalue())
    return path


@contextmanager
def drawing(figure: Figure) -> Iterator[None]:
    """The context in which figures are drawn: text is not parsed as mathematics, as a class may be called $5."""
    installed = get_font_names()
    fonts = [*matplotlib.rcParams["font.family"], *(name for name in OTHER_SCRIPTS if name in installed)]
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_parse_math(False)
        text.set_fontfamily(fonts)
    # Tick labels are only created while drawing. Without a salt, an SVG would contain random ids.
    with matplotlib.rc_context({"text.parse_math": False, "font.family": fonts, "svg.hashsalt": "hitnet"}):
        yield


def show(axes: Any, image: Tensor) -> None:
    """One picture, crisp, without ticks: (channels, height, width)."""
    show_pixels(axes, _pixels(image.unsqueeze(0))[0])


def show_difference(axes: Any, difference: Tensor, reach: float) -> None:
    """A signed picture, channels averaged, on a colour scale from −reach to reach: (channels, height, width)."""
    values = difference.detach().cpu().float().mean(0).numpy()
    axes.imshow(values, cmap=DIVERGING, vmin=-reach, vmax=reach, interpolation="none")
    _bare(axes)


def show_pixels(axes: Any, pixels: Pixels) -> None:
    """(height, width, 3)."""
    axes.imshow(pixels, interpolation="none")
    _bare(axes)


def tile(images: Tensor, gap: int) -> Pixels:
    """Rows and columns of pictures as one, white between them: (rows, columns, c, h, w) -> (height, width, 3).

    One large picture is drawn a hundred times faster than one axes per picture.
    """
    rows, columns, _, height, width = images.shape
    canvas = np.ones((rows * (height + gap) - gap, columns * (width + gap) - gap, 3))
    cells = _pixels(images.flatten(0, 1))
    for index, cell in enumerate(cells):
        top, left = index // columns * (height + gap), index % columns * (width + gap)
        canvas[top : top + height, left : left + width] = cell
    return canvas


def frame(axes: Any, corner: tuple[float, float], width: float, height: float, colour: str) -> None:
    """A frame around some pixels, its upper left corner at (column, row)."""
    place = (corner[0] - 0.5, corner[1] - 0.5)
    axes.add_patch(Rectangle(place, width, height, fill=False, edgecolor=colour, linewidth=2, clip_on=False))


def shortened(name: str, length: int = 14) -> str:
    """A class name that fits above a picture."""
    return name if len(name) <= length else name[: length - 1] + "…"


def _pixels(images: Tensor) -> Pixels:
    """Grey or colour to colour: (count, c, h, w) -> (count, h, w, 3); any other channels are averaged to grey."""
    pixels = images.detach().cpu().double().clamp(0, 1).permute(0, 2, 3, 1).numpy()
    if pixels.shape[3] != 3:
        pixels = pixels.mean(axis=3, keepdims=True).repeat(3, axis=3)
    return np.asarray(pixels)


def _bare(axes: Any) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(color=GREY, linewidth=0.6)
