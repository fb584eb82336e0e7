"""What a simple classifier reaches on the same pictures: whoever has few should know if a network is worth it."""

from importlib.util import find_spec
from typing import Any

import numpy as np

from hitnet.data import Dataset, ImageSet, list_datasets

MOST_IMAGES = 5_000
MOST_VALUES = 3 * 64 * 64  # per image; more would take longer than training


def baseline(data: Dataset, training: ImageSet) -> dict[str, Any] | None:
    """The test error, in %, of a random forest on the pixels, for a small data set of one's own; else None.

    training: all that the network was given, including what it held out.
    """
    small = len(training) <= MOST_IMAGES and training.images[0].numel() <= MOST_VALUES
    if data.name in list_datasets() or not small or find_spec("sklearn") is None:
        return None
    from sklearn.ensemble import RandomForestClassifier  # takes a while to load

    forest = RandomForestClassifier(100, random_state=0)
    forest.fit(training.pixels().flatten(1).cpu().numpy(), training.labels.cpu().numpy())
    answers = np.concatenate([forest.predict(piece.flatten(1).cpu().numpy()) for piece in data.test.pieces()])
    return {"name": "random forest on pixels", "error": 100 * float((answers != data.test.labels.cpu().numpy()).mean())}
