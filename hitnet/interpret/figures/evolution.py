"""How the prototypes came to be: an animation through the epochs."""

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image
from torch import Tensor

from hitnet.files import write_bytes
from hitnet.interpret.figures.atlas import image_grid
from hitnet.interpret.figures.canvas import drawing

SECONDS, LONGEST = 0.5, 20.0  # a frame is shown so long, but the whole at most so long
LAST = 2.0  # the last frame


def save_evolution(
    evolution: Iterable[tuple[int, Tensor]], class_names: Sequence[str], title: str, path: Path, dpi: int = 80
) -> Path:
    """A GIF of (epoch, prototypes), one frame an epoch."""
    frames = []
    for epoch, pictures in evolution:
        canvas = FigureCanvasAgg(image_grid(pictures, class_names, f"{title}: epoch {epoch}"))
        canvas.figure.set_dpi(dpi)
        with drawing(canvas.figure):
            canvas.draw()
        frames.append(Image.frombytes("RGBA", canvas.get_width_height(), bytes(canvas.buffer_rgba())).convert("RGB"))
    milliseconds = [round(1000 * min(SECONDS, LONGEST / len(frames)))] * len(frames)
    milliseconds[-1] = round(1000 * LAST)
    content = io.BytesIO()
    frames[0].save(content, "GIF", save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
    write_bytes(path, content.getvalue())
    return path
