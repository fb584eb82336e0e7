"""Every picture that HitNet draws: each function returns a matplotlib Figure, `save` writes it."""

from hitnet.interpret.figures.atlas import class_page, component_sweep, image_grid
from hitnet.interpret.figures.canvas import BLUE, GREY, ORANGE, save
from hitnet.interpret.figures.card import decision_card
from hitnet.interpret.figures.evolution import save_evolution
from hitnet.interpret.figures.features import feature_histograms
from hitnet.interpret.figures.hybrid import hybrid_preview
from hitnet.interpret.figures.losses import loss_surfaces
from hitnet.interpret.figures.training import confusion_matrix, curves, errors_by_epoch

__all__ = [
    "BLUE",
    "GREY",
    "ORANGE",
    "class_page",
    "component_sweep",
    "confusion_matrix",
    "curves",
    "decision_card",
    "errors_by_epoch",
    "feature_histograms",
    "hybrid_preview",
    "image_grid",
    "loss_surfaces",
    "save",
    "save_evolution",
]
