"""What training will take, told before it begins."""

import platform
import subprocess
import sys

import pytest
import torch

from hitnet.core.model import build, list_models
from hitnet.settings import ModelConfig
from hitnet.training import needs
from hitnet.training.needs import check_fits, memory_needed

# A training step in a process of its own; the most memory that it ever had.
STEP = """
import resource, torch, hitnet
torch.set_num_threads(1)
net = hitnet.create_model("hitnet-fast", (3, 64, 64))
images, labels = torch.rand(64, 3, 64, 64), torch.arange(64) % 10
optimizer = torch.optim.Adam(net.parameters())
net.loss(net(images, labels), images, labels).total.backward()
optimizer.step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""

# How many pages the system hands out for ten tensors of 64 MB, one after the other, the first one left out.
PAGES = """
import resource, sys, torch
from hitnet.training.needs import keep_freed_memory
torch.set_num_threads(1)
if sys.argv[1] == "kept":
    keep_freed_memory()
for _ in range(3):  # something small may come to lie in what was freed first
    torch.ones(2**24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(2**24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.parametrize("name", list_models())
def test_without_images_a_network_takes_four_copies_of_its_weights(name):
    config = ModelConfig.from_options(name=name)
    none, one, two = (memory_needed(config, images) for images in (0, 1, 2))
    assert none.least == 4 * 4 * sum(parameter.numel() for parameter in build(config).parameters())
    assert two.least - one.least == pytest.approx(one.least - none.least, abs=2)
    assert one.least > none.least


def test_in_bfloat16_what_the_backward_pass_needs_takes_half():
    config = ModelConfig.from_options(name="hitnet-deep", image_shape=(3, 32, 32))
    none, full, half = (
        memory_needed(config, images, precision=precision)
        for images, precision in ((0, torch.float32), (8, torch.float32), (8, torch.bfloat16))
    )
    assert half.least - none.least == pytest.approx((full.least - none.least) / 2, abs=1)


def test_a_frozen_encoder_takes_one_copy_of_its_weights_and_nothing_for_gradients():
    config = ModelConfig.from_options(name="resnet18-hom", image_shape=(3, 64, 64), decoder="none")
    model = build(config)
    copies = sum(
        (1 if name.startswith("encoder.") else 4) * 4 * each.numel() for name, each in model.named_parameters()
    )
    none, one = (memory_needed(config, images, frozen=True) for images in (0, 1))
    assert none.least == copies
    assert one.least - none.least < 0.01 * (memory_needed(config, 1).least - memory_needed(config, 0).least)


def test_the_estimate_has_the_right_order_of_magnitude():
    real = int(subprocess.run([sys.executable, "-c", STEP], capture_output=True, check=True, text=True).stdout)
    found = memory_needed(ModelConfig.from_options(name="hitnet-fast", image_shape=(3, 64, 64)), 64)
    assert found.least < real < 2 * found.likely
    assert found.likely < 2 * real


def test_estimating_takes_no_random_numbers():
    before = torch.get_rng_state()
    memory_needed(ModelConfig.from_options(name="hitnet-fast"), 4)
    assert torch.equal(torch.get_rng_state(), before)


def test_what_cannot_fit_is_refused_with_a_size_that_would(monkeypatch):
    monkeypatch.setattr(needs, "memory_of", lambda _: 2_000_000_000)
    config = ModelConfig.from_options(name="hitnet-fast", image_shape=(3, 512, 512))
    with pytest.raises(
        ValueError, match=r"512×512 images, 64 per step, needs at least .* GB of memory, cpu has 2 GB; "
    ):
        check_fits(config, 64, torch.device("cpu"))
    with pytest.raises(ValueError, match=r"--image-size (\d+) would fit") as caught:
        check_fits(config, 64, torch.device("cpu"))
    side = int(str(caught.value).split("--image-size ")[1].split()[0])
    assert 32 <= side < 512
    smaller = ModelConfig.from_options(name="hitnet-fast", image_shape=(3, side, side))
    assert check_fits(smaller, 64, torch.device("cpu")).likely <= 2_000_000_000


def test_a_limit_on_this_process_counts(tmp_path, monkeypatch):
    whole = needs.memory_of(torch.device("cpu"))
    (tmp_path / "memory.max").write_text("123456789\n")
    monkeypatch.setattr(needs, "LIMITS", (tmp_path / "memory.max", tmp_path / "none"))
    assert needs.memory_of(torch.device("cpu")) == 123_456_789
    (tmp_path / "memory.max").write_text("max\n")
    assert needs.memory_of(torch.device("cpu")) >= whole


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can keep freed memory")
def test_freed_memory_is_used_again_when_it_is_kept():
    returned, kept = (
        int(subprocess.run([sys.executable, "-c", PAGES, how], capture_output=True, check=True, text=True).stdout)
        for how in ("returned", "kept")
    )
    assert returned >= 10 * 2**26 / 2**21, "at least one page of at most 2 MB for each 2 MB"
    assert kept < returned / 4
