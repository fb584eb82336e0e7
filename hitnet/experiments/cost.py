"""What experiments will cost, before they start: operations counted on networks without weights, and their time.

The counts are torch's own (two per multiply-add), taken on the `meta` device, where nothing is computed. Seconds follow
from rates that were measured once; finished epochs correct the forecast.
"""

from functools import cache
from typing import NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from hitnet.core.model import TEST_BATCH, build
from hitnet.data.catalog import OFFICIAL_COUNTS
from hitnet.experiments.protocol import Trial
from hitnet.experiments.runner import Progress
from hitnet.settings import ModelConfig, RunSettings

# Two cores of a 2023 server (see docs/results/speed.md): operations per second of the paper's encoder, whose large
# convolution needs far fewer multiplications than are counted; of other networks; and the minimum seconds per step.
ENCODER_RATE, OTHER_RATE, OVERHEAD = 4e11, 1.3e11, 0.02
# How many times as fast other networks are in bfloat16, on a processor with instructions for it.
BFLOAT16_GAIN = 2
# What we assume a GPU sustains on such small networks: a tenth of the 156 TFLOP/s that an A100 reaches for float32
# convolutions; and the time to launch the kernels of one step.
GPU_RATE, GPU_OVERHEAD = 1.5e13, 0.002

SHAPES = {"mnist": (1, 28, 28), "cifar10": (3, 32, 32), "svhn": (3, 32, 32), "affnist": (1, 40, 40)}
SHAPES |= {"fashion-mnist": SHAPES["mnist"], "mnist-mini": SHAPES["mnist"], "affnist-like": SHAPES["affnist"]}
COUNTS = {**OFFICIAL_COUNTS, "mnist-mini": (5_000, 1_000)}


class Operations(NamedTuple):
    """For one image."""

    training: int
    """Forward and backward."""
    testing: int
    """Forward, including the decoder."""


@cache
def operations(config: ModelConfig) -> Operations:
    """Count the operations of a network on one image."""
    with torch.device("meta"):
        model, batch = build(config), 4
    image_shape = config.image_shape or (1, 28, 28)
    images, labels = (
        torch.empty(batch, *image_shape, device="meta"),
        torch.zeros(batch, dtype=torch.long, device="meta"),
    )
    # Not model(images): its checks read values, and meta tensors have none.
    with FlopCounterMode(display=False) as counter:
        capsules = model.head(model.encoder(images))
        drawn = () if model.decoder is None else (model.decoder(capsules, labels).sum(),)
        forward = counter.get_total_flops()
        sum((model.head.score(capsules).sum(), *drawn)).backward()  # type: ignore[union-attr]
        return Operations(counter.get_total_flops() // batch, forward // batch)


class Work(NamedTuple):
    """The work of one epoch, including evaluation on the test images."""

    operations: int
    steps: int


def epoch_work(config: RunSettings) -> Work:
    train, test = COUNTS[config.data]
    train = config.train_images or train
    each = operations(config.model_config(SHAPES[config.data], tuple("0123456789")))
    # Hybrid augmentation: the teacher encodes every image and draws it twice; drawing costs little beside encoding.
    training = each.training + (each.testing if config.augment == "hybrid" else 0)
    return Work(train * training + test * each.testing, -(-train // config.batch_size) + -(-test // TEST_BATCH))


def expected_seconds(config: RunSettings) -> float:
    """For one epoch on two cores."""
    work = epoch_work(config)
    rate = ENCODER_RATE if config.model in ("hitnet", "n1", "n2", "n2b", "capsnet") else OTHER_RATE
    if config.precision == "bfloat16":
        rate *= BFLOAT16_GAIN
    return work.operations / rate + work.steps * OVERHEAD


def gpu_hours(trials: list[Trial]) -> float:
    """For all epochs of all trials, at the rate above."""
    seconds = 0.0
    for trial in trials:
        work = epoch_work(trial.settings)
        seconds += trial.settings.epochs * (work.operations / GPU_RATE + work.steps * GPU_OVERHEAD)
    return seconds / 3600


def seconds_left(all_progress: list[Progress], elapsed: float) -> float:
    """Until everything is done: the forecast, corrected by the epochs done in the `elapsed` time."""
    done = left = 0.0
    for progress in all_progress:
        if progress.status == "failed":
            continue
        each = expected_seconds(progress.trial.settings)
        done += each * (progress.epochs - progress.began)
        left += each * (progress.trial.settings.epochs - progress.epochs)
    return left * elapsed / done if done else left
