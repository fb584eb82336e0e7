"""What the command line shows: progress during training, tables afterwards."""

from hitnet.console.audits import AuditView, show_audit
from hitnet.console.experiments import ExperimentsView
from hitnet.console.printing import progress, say
from hitnet.console.results import (
    show_calibration,
    show_cards,
    show_evaluation,
    show_finished,
    show_predictions,
    show_quality,
    show_result,
    show_runs,
)
from hitnet.console.training import TrainingView

__all__ = [
    "AuditView",
    "ExperimentsView",
    "TrainingView",
    "progress",
    "say",
    "show_audit",
    "show_calibration",
    "show_cards",
    "show_evaluation",
    "show_finished",
    "show_predictions",
    "show_quality",
    "show_result",
    "show_runs",
]
