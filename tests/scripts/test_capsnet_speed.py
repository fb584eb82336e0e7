"""scripts/capsnet_speed.py: the slow CapsNets compute what ours does."""

import pytest
import torch
from capsnet_speed import slow_down, table
from torch import Tensor

import hitnet


@pytest.mark.parametrize("one_at_a_time", [False, True])
def test_slow_routing_gives_the_same_capsules_and_their_whole_gradient(one_at_a_time: bool):
    torch.manual_seed(0)
    net = hitnet.create_model("capsnet", image_shape=(1, 28, 28), num_classes=3, width=16).double()
    routing = net.head.layer
    features = 5 * torch.randn(4, 16 * 36, dtype=torch.float64)
    direction, target = torch.randn_like(features), torch.rand(4, 3, 16, dtype=torch.float64)

    def loss(step: Tensor) -> Tensor:
        return (routing(features + step * direction) - target).square().sum()

    def slope() -> float:
        step = torch.zeros((), dtype=torch.float64, requires_grad=True)
        return torch.autograd.grad(loss(step), step)[0].item()

    # Finite differences know nothing of gradients that were not let through.
    whole = (loss(torch.tensor(1e-6)) - loss(torch.tensor(-1e-6))).item() / 2e-6
    fast, part = routing(features), slope()
    slow_down(routing, one_at_a_time)
    torch.testing.assert_close(routing(features), fast)
    assert slope() == pytest.approx(whole, rel=1e-6)
    assert part != pytest.approx(whole, rel=1e-3)


def test_the_table_gives_ratios_to_hitnet_within_a_batch_size():
    names = [line.split(" | ")[0].strip("| ") for line in table({}).splitlines()[2:]]
    seconds = {
        batch: {name: scale * (i + 1) for i, name in enumerate(names)} for batch, scale in (("32", 0.1), ("128", 0.5))
    }
    lines = table(seconds).splitlines()
    assert lines[0] == "| training step | batch 32, ms | times HitNet's | batch 128, ms | times HitNet's |"
    assert lines[4] == "| CapsNet | 300 | 3.00 | 1,500 | 3.00 |"
