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
    from hitnet.estimator import HitNetClassifier as HitNetClassifier
    from hitnet.hub import from_pretrained, push_to_hub, save_pretrained
    from hitnet.interpret.explanation import Explanation, explain
    from hitnet.interpret.hybrid import HybridAugmentation
    from hitnet.interpret.prototypes import deformations, prototypes, sample
    from hitnet.interpret.statistics import feature_statistics
    from hitnet.interpret.verdicts import outlier_score, verdicts
    from hitnet.layer import HitOrMiss, squash
    from hitnet.loss import CentripetalLoss, centripetal_loss, distance_to_centre, margin_loss, staircase
    from hitnet.model import create_model, list_models, load
    from hitnet.training.config import TrainConfig
    from hitnet.training.loop import train
    from hitnet.transplant import with_hit_or_miss

__version__ = "0.1.0"

# Where each public name lives. A name is imported when it is first asked for: the command line prints its help
# without waiting for torch.
_HOMES = {
    "HitOrMiss": "layer",
    "squash": "layer",
    "CentripetalLoss": "loss",
    "centripetal_loss": "loss",
    "distance_to_centre": "loss",
    "margin_loss": "loss",
    "staircase": "loss",
    "create_model": "model",
    "list_models": "model",
    "load": "model",
    "prototypes": "interpret.prototypes",
    "deformations": "interpret.prototypes",
    "sample": "interpret.prototypes",
    "feature_statistics": "interpret.statistics",
    "explain": "interpret.explanation",
    "Explanation": "interpret.explanation",
    "HybridAugmentation": "interpret.hybrid",
    "verdicts": "interpret.verdicts",
    "outlier_score": "interpret.verdicts",
    "TrainConfig": "training.config",
    "train": "training.loop",
    "with_hit_or_miss": "transplant",
    "save_pretrained": "hub",
    "from_pretrained": "hub",
    "push_to_hub": "hub",
    "HitNetClassifier": "estimator",
}

# Without HitNetClassifier: `from hitnet import *` needs no scikit-learn.
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
    "prototypes",
    "deformations",
    "sample",
    "feature_statistics",
    "explain",
    "Explanation",
    "HybridAugmentation",
    "save_pretrained",
    "from_pretrained",
    "push_to_hub",
    "verdicts",
    "outlier_score",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hitnet' has no attribute {name!r}")
    value = getattr(import_module(f"hitnet.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOMES))
