"""The answer to picture files: class, score and verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from hitnet.data import read_image, to_float
from hitnet.interpret.verdicts import Verdict, judge, unusual
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
    accepted: bool | None = None
    """Whether the image is usual enough for the run's calibration; None without one."""


class Picture(NamedTuple):
    """A picture file as the network takes it, (channels, height, width), or why it cannot be read."""

    file: Path
    image: Tensor | None
    note: str | None
    error: str | None


def read_pictures(model: Model, files: Sequence[Path]) -> Iterator[Picture]:
    """One after the other, in their order; an unreadable file does not stop the others."""
    device = next(model.parameters()).device
    shape = model.config.image_shape
    assert shape is not None
    for file in files:
        try:
            pixels, note = read_image(file, shape)
        except (OSError, ValueError) as error:
            yield Picture(file, None, None, str(error))
        else:
            yield Picture(file, to_float(pixels.to(device)), note, None)


@torch.no_grad()
def predict_files(model: Model, files: Sequence[Path], threshold: float | None = None) -> list[Prediction]:
    """One prediction a file, in their order; it is accepted up to a `threshold` of the outlier score."""
    predictions = []
    with evaluating(model):
        for picture in read_pictures(model, files):
            if picture.image is None:
                predictions.append(Prediction(str(picture.file), error=picture.error))
                continue
            scores = model.head.score(model.capsules(picture.image.unsqueeze(0)))
            index = int(model.head.decide(scores))
            name, verdict = model.config.class_names[index], judge(model, scores)[0]
            accepted = None if threshold is None else float(unusual(model, scores)) <= threshold
            predictions.append(
                Prediction(str(picture.file), name, float(scores[0, index]), verdict, picture.note, accepted=accepted)
            )
    return predictions
