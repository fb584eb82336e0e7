"""The sheet of what the network sees."""

import numpy as np
import pytest
import torch
from PIL import Image

import hitnet
from hitnet.data import ImageSet
from hitnet.runs.inputs import choose
from hitnet.training.watchers import Watcher


class Stop(Watcher):
    def started(self, job):
        raise KeyboardInterrupt


@pytest.mark.parametrize("private", [False, True])
def test_the_sheet_is_there_before_the_first_epoch_unless_pictures_are_private(settings, private):
    config = settings(no_exemplars=private)
    with pytest.raises(KeyboardInterrupt):
        hitnet.train(config, watcher=Stop())
    sheets = [*config.out.rglob("inputs.png")]
    assert len(sheets) == (0 if private else 1)
    for sheet in sheets:
        assert np.asarray(Image.open(sheet).convert("L")).std() > 20


def test_pictures_of_a_class_are_spread_over_all_it_has():
    labels = torch.tensor([0] * 8 + [2] * 2)
    data = ImageSet(torch.zeros(10, 1, 4, 4, dtype=torch.uint8), labels)
    assert choose(data, classes=3, columns=4).tolist() == [[0, 2, 4, 6], [-1] * 4, [8, 9, -1, -1]]
