"""Your own network with Hit-or-Miss and a decoder, trained with Hugging Face Accelerate on any hardware.

Run: accelerate launch examples/with_accelerate.py
"""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import hitnet
from hitnet.data import load_dataset, to_float


def main(epochs: int = 3) -> float:
    """Train on the built-in digits; returns the test accuracy."""
    accelerator = Accelerator()
    data = load_dataset("mnist-mini")
    loader = DataLoader(TensorDataset(to_float(data.train.images), data.train.labels), batch_size=64, shuffle=True)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    model = hitnet.with_hit_or_miss(
        backbone, num_classes=10, image_shape=(1, 28, 28), decoder="standardised", norm_momentum=0.1
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
    net, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(1, epochs + 1):
        for images, labels in loader:
            # The labels select the capsule to draw. Call `net`, not `model`: it averages gradients over processes.
            loss = model.loss(net(images, labels), images, labels).total
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        accelerator.print(f"epoch {epoch}: loss of the last batch {loss.item():.3f}")

    predicted = model.predict(to_float(data.test.images).to(accelerator.device)).cpu()
    return float((predicted == data.test.labels).float().mean())


if __name__ == "__main__":
    print(f"test accuracy: {100 * main():.1f} %")
