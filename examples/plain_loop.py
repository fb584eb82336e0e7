"""The Hit-or-Miss layer and its loss in your own training loop: only the last layer and the loss change.

Run: python examples/plain_loop.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import hitnet
from hitnet.data import load_dataset, to_float


def main(epochs: int = 3) -> float:
    """Train on the built-in digits; returns the test accuracy."""
    data = load_dataset("mnist-mini")
    loader = DataLoader(TensorDataset(to_float(data.train.images), data.train.labels), batch_size=64, shuffle=True)
    net = nn.Sequential(
        *(nn.Conv2d(1, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 5, stride=2), nn.ReLU(), nn.Flatten()),
        # A large momentum, because this training is short.
        hitnet.HitOrMiss(in_features=32 * 4 * 4, num_classes=10, norm_momentum=0.1),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.002)
    for epoch in range(1, epochs + 1):
        for images, labels in loader:
            distances = hitnet.distance_to_centre(net(images))
            loss = hitnet.centripetal_loss(distances, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss of the last batch {loss.item():.3f}")

    net.eval()
    with torch.no_grad():
        distances = hitnet.distance_to_centre(net(to_float(data.test.images)))
    # The predicted class is the one whose capsule lies closest to the centre.
    return float((distances.argmin(dim=1) == data.test.labels).float().mean())


if __name__ == "__main__":
    print(f"test accuracy: {100 * main():.1f} %")
