"""Every picture that HitNet draws: each function returns a matplotlib Figure, `save` writes it."""

from hitnet.interpret.figures.atlas import class_page, component_sweep, hybrid_preview, image_grid, save_evolution
from hitnet.interpret.figures.canvas import BLUE, GREY, ORANGE, save
from hitnet.interpret.figures.card import decision_card
from hitnet.interpret.figures.components import component_histograms
from hitnet.interpret.figures.inputs import input_sheet
from hitnet.interpret.figures.losses import loss_surfaces
from hitnet.interpret.figures.training import confusion_matrix, curves, errors_by_epoch

__all__ = [
    "BLUE",
    "GREY",
    "ORANGE",
    "class_page",
    "component_histograms",
    "component_sweep",
    "confusion_matrix",
    "curves",
    "decision_card",
    "errors_by_epoch",
    "hybrid_preview",
    "image_grid",
    "input_sheet",
    "loss_surfaces",
    "save",
    "save_evolution",
]
