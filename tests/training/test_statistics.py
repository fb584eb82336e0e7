"""BatchNorm's averages, computed anew."""

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import update_bn

import hitnet
from hitnet.training import statistics
from hitnet.training.statistics import refresh_norm


@pytest.fixture
def stale(small_model, digits):
    """A network whose averages are still those of its first weights."""

    def make(name: str):
        model = small_model(name)
        for part in model.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.running_mean.fill_(3.0)
                part.running_var.fill_(0.01)
        return model

    return make


@pytest.mark.parametrize("name", ["hitnet-fast", "hitnet", "n1", "resnet18-hom", "densenet40-12"])
def test_averages_are_those_of_the_images_whatever_they_were_before(stale, digits, name):
    images = digits[0][:40]
    one, other = stale(name), stale(name)
    other.load_state_dict(one.state_dict())
    refresh_norm(one, images)
    # torch's own, which runs the whole model: the decoder too, if there is one.
    update_bn([images], other)
    for key, value in other.state_dict().items():
        torch.testing.assert_close(one.state_dict()[key], value, rtol=1e-4, atol=1e-5, msg=key)


def test_bytes_and_floats_in_any_order_give_the_same_averages(stale, digits, monkeypatch):
    monkeypatch.setattr(statistics, "BATCH", 16)
    images = (255 * digits[0][:41]).byte()
    one, other = stale("hitnet-fast"), stale("hitnet-fast")
    other.load_state_dict(one.state_dict())
    refresh_norm(one, images)
    refresh_norm(other, images.float() / 255)
    for key, value in one.state_dict().items():
        torch.testing.assert_close(other.state_dict()[key], value)
    assert one.training == other.training


def test_of_many_images_a_random_choice_is_taken(stale, digits, monkeypatch):
    monkeypatch.setattr(statistics, "MOST", 20)
    model = stale("hitnet-fast")
    seen = []
    model.encoder.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    refresh_norm(model, digits[0])
    chosen = torch.randperm(len(digits[0]), generator=torch.Generator().manual_seed(0))[:20]
    torch.testing.assert_close(torch.cat(seen), digits[0][chosen])
    assert chosen.tolist() != list(range(20))


def test_momentum_and_mode_stay(stale, digits):
    model = stale("hitnet-fast").train()
    momenta = [part.momentum for part in model.modules() if isinstance(part, nn.BatchNorm2d)]
    refresh_norm(model, digits[0][:10])
    assert [part.momentum for part in model.modules() if isinstance(part, nn.BatchNorm2d)] == momenta
    assert model.training
    before = {name: value.clone() for name, value in model.state_dict().items()}
    refresh_norm(model, digits[0][:1])  # one image has no deviation, so nothing changes
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_short_run_with_fresh_averages_is_not_worse_than_the_same_run_with_stale_ones(settings):
    """After a few steps, averages with Keras' momentum are still mostly those of the first weights."""
    options = {"model": "resnet18-hom", "width": 4, "epochs": 3, "norm_momentum": 0.01, "decoder": "none"}
    stale, fresh = (
        hitnet.train(settings(**options, refresh_norm=refresh), overwrite=True).read_result()["test"]["error"]
        for refresh in (False, True)
    )
    assert fresh < stale
