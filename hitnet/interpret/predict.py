"""The answer to picture files: class, score and verdict."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from hitnet.data import read_image, to_float
from hitnet.interpret.verdicts import Verdict, judge
from hitnet.model import Model, evaluating


@dataclass(frozen=True)
class Prediction:
    """What a network says of one file, or why it cannot say anything."""

    file: str
    class_name: str | None = None
    score: float | None = None
    """The distance to the centre for HitNet, where lower is surer; the head's own score for other networks."""
    verdict: Verdict | None = None
    note: str | None = None
    """How the picture was converted to the size and colours that the network knows."""
    error: str | None = None


@torch.no_grad()
def predict_files(model: Model, files: Sequence[Path]) -> list[Prediction]:
    """One prediction a file, in their order; an unreadable file does not stop the others."""
    device = next(model.parameters()).device
    shape = model.config.image_shape
    assert shape is not None
    predictions = []
    with evaluating(model):
        for file in files:
            try:
                pixels, note = read_image(file, shape)
            except (OSError, ValueError) as error:
                predictions.append(Prediction(str(file), error=str(error)))
                continue
            scores = model.head.score(model.capsules(to_float(pixels.unsqueeze(0).to(device))))
            index = int(model.head.decide(scores))
            name = model.config.class_names[index]
            predictions.append(Prediction(str(file), name, float(scores[0, index]), judge(model, scores)[0], note))
    return predictions
