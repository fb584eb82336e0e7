"""Answers for picture files: class, score and verdict of each, and a decision card that shows why."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from hitnet.core.heads import Verdict
from hitnet.core.model import Model
from hitnet.data import read_image, to_float
from hitnet.errors import check_known
from hitnet.files import read_json, write_json
from hitnet.interpret.explanation import explain
from hitnet.pictures import files_below, foreign_kind, is_picture
from hitnet.runs.committee import Committee
from hitnet.runs.run import Run

LONGEST_STEM = 200  # bytes of a file name that a card's name keeps: names may have 255


class Picture(NamedTuple):
    """A picture file as the network's input, (channels, height, width), or why it cannot be read."""

    file: Path
    image: Tensor | None
    note: str | None
    """How the picture was converted to the size and colours that the network expects."""
    error: str | None


def read_pictures(model: Model, files: Sequence[Path]) -> Iterator[Picture]:
    """One by one, in the order given; an unreadable file does not stop the others."""
    shape = model.config.image_shape
    assert shape is not None
    for file in files:
        try:
            pixels, note = read_image(file, shape, model.config.fit)
        except (OSError, ValueError) as error:
            yield Picture(file, None, None, str(error))
        else:
            yield Picture(file, to_float(pixels.to(model.device)), note, None)


@dataclass(frozen=True)
class Prediction:
    """The network's answer for one file, or why there is none."""

    file: str
    class_name: str | None = None
    score: float | None = None
    """HitNet: the distance to the centre, where lower is more certain. Other networks: their head's own score."""
    verdict: Verdict | None = None
    """None if the network is not calibrated or has no hit zone."""
    radius: float | None = None
    """How far from the centre this class usually lands at most."""
    candidates: tuple[str, ...] | None = None
    """All classes within their radii: they contain the true one with the probability that the network was calibrated
    for, if the picture is of the same kind."""
    note: str | None = None
    error: str | None = None
    accepted: bool | None = None
    """Whether the outlier score is within the run's rejection threshold; None without one."""


def predict_files(committee: Committee, files: Sequence[Path], threshold: float | None = None) -> list[Prediction]:
    """One prediction per file, in the order given; accepted if its outlier score is at most `threshold`.

    A folder stands for all pictures in it, at any depth. Verdicts need a network that answers alone.
    """
    pictures = read_pictures(committee.model, _with_those_in_folders(files))
    return [_predict(committee, picture, threshold) for picture in pictures]


def _with_those_in_folders(files: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for file in files:
        if not file.is_dir():
            found.append(file)
        elif Run(file).settings_file.is_file():
            raise ValueError(
                f"{file} is a run folder, expected pictures; to ask several networks, add --with RUN after the pictures"
            )
        elif inside := sorted(path for path in files_below(file) if is_picture(path) or foreign_kind(path)):
            found += inside
        else:
            raise ValueError(f"there are no pictures in {file}; give PNG, JPEG, WebP, BMP, GIF or TIFF files")
    return found


def _predict(committee: Committee, picture: Picture, threshold: float | None) -> Prediction:
    if picture.image is None:
        return Prediction(str(picture.file), error=picture.error)
    head, names, radii = committee.head, committee.config.class_names, committee.config.radii
    scores = committee.scores(picture.image.unsqueeze(0))
    index = int(head.decide(scores))
    within = None if radii is None else head.within(scores, radii)[0].tolist()
    return Prediction(
        str(picture.file),
        class_name=names[index],
        score=float(scores[0, index]),
        verdict=head.verdicts(scores, radii)[0],
        radius=None if radii is None else radii[index],
        candidates=None if within is None else tuple(name for name, hit in zip(names, within, strict=True) if hit),
        note=picture.note,
        accepted=None if threshold is None else float(head.outlier_score(scores)) <= threshold,
    )


@dataclass(frozen=True)
class Card:
    """The decision card of one file: what it says and its path, or why there is none."""

    file: str
    words: str | None = None
    path: Path | None = None
    note: str | None = None
    error: str | None = None


def write_cards(model: Model, files: Sequence[Path], folder: Path, rival: str | None = None) -> list[Card]:
    """FOLDER/<file>-card.png and .json for each file, in the order given; `rival` is a class for `explain`.

    A folder stands for all pictures in it, at any depth.
    """
    from hitnet.interpret import figures  # matplotlib takes a while to load

    names = model.config.class_names
    asked = None if rival is None else names.index(check_known(rival, names, "class"))
    cards = []
    taken: set[Path] = set()
    for picture in read_pictures(model, _with_those_in_folders(files)):
        file = picture.file
        if picture.image is None:
            cards.append(Card(str(file), error=picture.error))
            continue
        explanation = explain(model, picture.image, asked)
        path = _free_place(folder, file, taken)
        taken.add(path)
        figures.save(figures.decision_card(explanation), path, dpi=120)
        write_json(path.with_suffix(".json"), {"file": str(file), "note": picture.note, **explanation.to_json()})
        cards.append(Card(str(file), explanation.words, path, picture.note))
    return cards


def _free_place(folder: Path, file: Path, taken: set[Path]) -> Path:
    """Where the card of a file goes: pictures in different folders may have the same name, and each keeps its card."""

    def is_free(path: Path) -> bool:
        record = path.with_suffix(".json")
        return path not in taken and (not record.is_file() or read_json(record).get("file") == str(file))

    endings = chain([""], (f"-{number}" for number in count(2)))
    stem = file.stem
    if len(os.fsencode(stem)) > LONGEST_STEM:
        stem = os.fsencode(stem)[:LONGEST_STEM].decode(errors="ignore")
    return next(filter(is_free, (folder / f"{stem}-card{ending}.png" for ending in endings)))
