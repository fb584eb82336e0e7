"""The paper's picture of hybrid data augmentation."""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from hitnet.interpret.figures.canvas import ORANGE, frame, show_pixels, tile
from hitnet.interpret.hybrid import HybridAugmentation

COUNT = 23
COLUMNS, ROWS, GAP = 6, 4, 2


def hybrid_preview(augment: HybridAugmentation, image: Tensor, label: int, generator: torch.Generator) -> Figure:
    """What the decoder draws of one image and 23 modifications of it; beside it the same with the image's details.

    image: (channels, height, width).
    """
    labels = torch.full((COUNT,), label, device=image.device)
    made = augment.make(image.expand(COUNT, -1, -1, -1), labels, generator)
    drawn = torch.cat([made.reconstruction[:1], made.modified])
    detailed = torch.cat([image.unsqueeze(0), made.images])
    figure = Figure(figsize=(9.2, 3.6))
    name = augment.model.config.class_names[label]
    figure.suptitle(f"“{name}”: every component moved by up to {augment.tweak:.3g}", y=1.02, fontsize=11)
    for axes, pictures, title in (
        (figure.add_axes((0.01, 0, 0.48, 0.88)), drawn, "reconstruction (framed) and 23 modified"),
        (figure.add_axes((0.51, 0, 0.48, 0.88)), detailed, "original (framed) and 23 with its details"),
    ):
        show_pixels(axes, tile(pictures.unflatten(0, (ROWS, COLUMNS)), GAP))
        axes.set_title(title, fontsize=9.5)
        axes.set_axis_off()
        frame(axes, (-GAP / 2, -GAP / 2), image.shape[2] + GAP, image.shape[1] + GAP, ORANGE)
    return figure
