"""A finished audit of a folder of squares with three wrong labels and names that are hostile."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.tiny import write_squares

from hitnet.audits.audit import audit_data
from hitnet.settings import TrainConfig

NAMES = ('<b onload="alert(1)">', "=cmd()", 'plain, "quoted"')
WRONG = 3


def write_folder(folder: Path) -> Path:
    """90 pictures in three class folders; the first of each class shows another one."""
    with np.load(write_squares(folder.parent / "squares.npz")) as squares:
        images, labels = squares["x_train"][:90], squares["y_train"][:90]
    for index, (image, label) in enumerate(zip(images, labels, strict=True)):
        given = (label + 1) % 3 if index < WRONG else label
        place = folder / NAMES[given].replace("/", "-")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{index}.png")
    return folder


@pytest.fixture(scope="session")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The audit's folder; the pictures are beside it."""
    place = tmp_path_factory.mktemp("audit")
    pictures = write_folder(place / "pictures")
    options = {"model": "lenet5-hom", "width": 3, "epochs": 12, "batch_size": 16, "threads": 1, "learning_rate": 0.004}
    config = TrainConfig(data=str(pictures), out=place / "audit", **options)  # type: ignore[arg-type]
    return audit_data(config, folds=2).path
