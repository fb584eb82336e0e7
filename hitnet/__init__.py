"""HitNet: an image classifier that explains itself.

>>> import torch, hitnet
>>> net = hitnet.create_model("hitnet", image_shape=(1, 28, 28), num_classes=10)
>>> out = net(torch.rand(2, 1, 28, 28))
>>> out.capsules.shape, out.scores.shape, out.reconstruction.shape
(torch.Size([2, 10, 16]), torch.Size([2, 10]), torch.Size([2, 1, 28, 28]))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hitnet.audits.audit import audit
    from hitnet.core.layer import HitOrMiss, squash
    from hitnet.core.loss import CentripetalLoss, centripetal_loss, distance_to_centre, margin_loss, staircase
    from hitnet.core.model import create_model, list_models, load
    from hitnet.core.transplant import with_hit_or_miss
    from hitnet.data.variation import HybridAugmentation
    from hitnet.estimator import HitNetClassifier as HitNetClassifier
    from hitnet.hub import from_pretrained, push_to_hub, save_pretrained
    from hitnet.interpret.components import component_statistics
    from hitnet.interpret.explanation import Explanation, explain
    from hitnet.interpret.label_quality import label_quality
    from hitnet.interpret.prototypes import deformations, prototypes, sample
    from hitnet.interpret.verdicts import calibrate, outlier_score, verdicts
    from hitnet.runs.train import train
    from hitnet.settings import TrainConfig
    from hitnet.training.fit import finish

__version__ = "0.1.0"

# The module of each public name. A name is imported on first use, so that the command line prints its help without
# loading torch.
_HOMES = {
    "HitOrMiss": "core.layer",
    "squash": "core.layer",
    "CentripetalLoss": "core.loss",
    "centripetal_loss": "core.loss",
    "distance_to_centre": "core.loss",
    "margin_loss": "core.loss",
    "staircase": "core.loss",
    "create_model": "core.model",
    "list_models": "core.model",
    "load": "core.model",
    "prototypes": "interpret.prototypes",
    "deformations": "interpret.prototypes",
    "sample": "interpret.prototypes",
    "component_statistics": "interpret.components",
    "explain": "interpret.explanation",
    "Explanation": "interpret.explanation",
    "HybridAugmentation": "data.variation",
    "calibrate": "interpret.verdicts",
    "verdicts": "interpret.verdicts",
    "outlier_score": "interpret.verdicts",
    "audit": "audits.audit",
    "label_quality": "interpret.label_quality",
    "TrainConfig": "settings",
    "train": "runs.train",
    "with_hit_or_miss": "core.transplant",
    "finish": "training.fit",
    "save_pretrained": "hub",
    "from_pretrained": "hub",
    "push_to_hub": "hub",
    "HitNetClassifier": "estimator",
}

# Without HitNetClassifier, so that `from hitnet import *` does not need scikit-learn.
__all__ = [  # noqa: RUF022 - in the order of the paper
    "HitOrMiss",
    "squash",
    "distance_to_centre",
    "staircase",
    "centripetal_loss",
    "CentripetalLoss",
    "margin_loss",
    "create_model",
    "list_models",
    "with_hit_or_miss",
    "load",
    "TrainConfig",
    "train",
    "finish",
    "prototypes",
    "deformations",
    "sample",
    "component_statistics",
    "explain",
    "Explanation",
    "HybridAugmentation",
    "save_pretrained",
    "from_pretrained",
    "push_to_hub",
    "calibrate",
    "verdicts",
    "outlier_score",
    "audit",
    "label_quality",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hitnet' has no attribute {name!r}")
    value = getattr(import_module(f"hitnet.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOMES))
