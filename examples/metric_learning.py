"""The centripetal loss as a loss of pytorch-metric-learning; the library's miners and reducers work as usual.

Run: python examples/metric_learning.py
"""

from typing import Any

import torch
from pytorch_metric_learning import reducers
from pytorch_metric_learning.losses import BaseMetricLossFunction
from pytorch_metric_learning.utils import common_functions, loss_and_miner_utils
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import hitnet
from hitnet.data import load_dataset, to_float


class HitOrMissLoss(BaseMetricLossFunction):
    """Like the library's other classification losses, it owns the last layer, so its parameters are trained too."""

    def __init__(self, num_classes: int, embedding_size: int, capsule_dim: int = 16, **options: Any) -> None:
        super().__init__(**options)
        self.layer = hitnet.HitOrMiss(embedding_size, num_classes, capsule_dim, norm_momentum=0.1)
        self.capsule_dim = capsule_dim

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, indices_tuple: Any, ref_emb: Any, ref_labels: Any
    ) -> dict[str, Any]:
        common_functions.labels_required(labels)
        common_functions.ref_not_supported(embeddings, labels, ref_emb, ref_labels)
        # A miner's pairs say how much each image counts.
        weights = loss_and_miner_utils.convert_to_weights(indices_tuple, labels, dtype=embeddings.dtype)
        losses = hitnet.centripetal_loss(self.distances(embeddings), labels, self.capsule_dim, reduction="none")
        indices = common_functions.torch_arange_from_size(embeddings)
        return {"loss": {"losses": losses * weights, "indices": indices, "reduction_type": "element"}}

    def distances(self, embeddings: Tensor) -> Tensor:
        """(batch, embedding_size) -> (batch, classes)."""
        return hitnet.distance_to_centre(self.layer(embeddings))

    def get_logits(self, embeddings: Tensor) -> Tensor:
        """The library's convention: the largest logit wins."""
        return -self.distances(embeddings)


def main(epochs: int = 3) -> float:
    """Train on the built-in digits; returns the test accuracy."""
    data = load_dataset("mnist-mini")
    loader = DataLoader(TensorDataset(to_float(data.train.images), data.train.labels), batch_size=64, shuffle=True)
    trunk = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 64))
    loss_function = HitOrMissLoss(10, embedding_size=64, reducer=reducers.MeanReducer())
    optimizer = torch.optim.Adam([*trunk.parameters(), *loss_function.parameters()], lr=0.002)
    for epoch in range(1, epochs + 1):
        for images, labels in loader:
            loss = loss_function(trunk(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss of the last batch {loss.item():.3f}")

    loss_function.eval()
    with torch.no_grad():
        logits = loss_function.get_logits(trunk(to_float(data.test.images)))
    return float((logits.argmax(dim=1) == data.test.labels).float().mean())


if __name__ == "__main__":
    print(f"test accuracy: {100 * main():.1f} %")
