"""How well a network classifies a set of images."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hitnet.data import Batches, Dataset, ImageSet, list_datasets, load_dataset
from hitnet.data.folder import folder_name
from hitnet.files import write_json
from hitnet.model import TEST_BATCH, Model, evaluating, load
from hitnet.training.config import TrainConfig
from hitnet.training.devices import Team
from hitnet.training.run import Run


@dataclass(frozen=True)
class Evaluation:
    """What happened to each class's images, and the mean loss."""

    confusion: Tensor
    """(true class, predicted class): counts."""
    loss: float

    @property
    def count(self) -> int:
        return int(self.confusion.sum())

    @property
    def mistakes(self) -> int:
        return self.count - int(self.confusion.diagonal().sum())

    @property
    def error(self) -> float:
        """Percentage of images in a wrong class."""
        return 100 * self.mistakes / self.count

    def per_class(self, class_names: tuple[str, ...]) -> list[dict[str, Any]]:
        """For each class: its images, its mistakes, and the class it is taken for most often."""
        rows = []
        for index, name in enumerate(class_names):
            counts = self.confusion[index].clone()
            images, right = int(counts.sum()), int(counts[index])
            counts[index] = 0
            taken_for = class_names[int(counts.argmax())] if images > right else None
            error = 100 * (images - right) / images if images else None
            rows.append({"class": name, "images": images, "mistakes": images - right, "error": error, "as": taken_for})
        return rows

    def to_json(self, class_names: tuple[str, ...]) -> dict[str, Any]:
        return {
            "error": self.error,
            "mistakes": self.mistakes,
            "images": self.count,
            "loss": self.loss,
            "per_class": self.per_class(class_names),
            "confusion": self.confusion.tolist(),
        }


def load_data(config: TrainConfig) -> Dataset:
    return load_dataset(
        config.data,
        data_dir=config.data_dir,
        image_size=config.image_size,
        test_fraction=config.test_fraction,
        skip_bad=config.skip_bad,
    )


@torch.no_grad()
def evaluate(model: Model, data: ImageSet, *, batch_size: int = TEST_BATCH, team: Team | None = None) -> Evaluation:
    """Every image once, without augmentation; each process of a team takes its share."""
    team = team or Team()
    classes = model.head.num_classes
    share = data.subset(torch.arange(team.rank, len(data), team.size, device=data.labels.device))
    # One more place at the end for the summed loss, so that one sum over the processes does it all.
    totals = torch.zeros(classes * classes + 1, dtype=torch.float64)
    with evaluating(model):
        # With more processes than images some have none.
        for images, labels in Batches(share, batch_size) if len(share) else ():
            out = model(images, labels)
            pairs = labels * classes + model.head.decide(out.scores)
            totals[:-1] += torch.bincount(pairs, minlength=classes * classes).cpu()
            totals[-1] += float(model.loss(out, images, labels).total) * len(labels)
    totals = team.sum(totals)
    confusion = totals[:-1].round().long().view(classes, classes)
    return Evaluation(confusion, float(totals[-1]) / int(confusion.sum()))


def evaluate_run(path: Path, source: str | None = None, data_dir: Path | None = None) -> tuple[dict[str, Any], Path]:
    """Measure a run's model on its own test images, or on those of another `source`: (numbers, their file)."""
    run, model = Run.open(path), load(path)
    source = source or run.config.data
    data = data_for(run, model, source, data_dir, test_fraction=None)
    content = {
        "data": data.name,
        "source": source,
        "notes": list(data.notes),
        **evaluate(model, data.test).to_json(model.config.class_names),
    }
    # A folder or file of somebody's may be called as the run's own is.
    stranger = source not in list_datasets() and not _is_same(source, run.config.data)
    file = run.path / f"eval-{data.name}{f'-{data.fingerprint[:8]}' if stranger else ''}.json"
    write_json(file, content)
    return content, file


def data_for(
    run: Run,
    model: Model,
    source: str | None = None,
    data_dir: Path | None = None,
    *,
    test_fraction: float | None = 0.2,
) -> Dataset:
    """A run's own data as they were, or those of another `source`, if they fit its model.

    test_fraction: of another source without a test part; None takes all of it, since nothing in it was trained on.
    """
    config, expected, names = run.config, model.config.image_shape, model.config.class_names
    if source is None or _is_same(source, config.data):
        data = load_data(replace(config, data_dir=data_dir or config.data_dir))
        # Of other images another test part would be drawn, with images that were trained on.
        run.check_same({"data": data.fingerprint})
    else:
        size = expected[1:] if expected is not None else None
        data = load_dataset(
            source,
            data_dir=data_dir or config.data_dir,
            image_size=size,
            test_fraction=test_fraction,
            skip_bad=config.skip_bad,
        )
    if data.image_shape != expected or data.num_classes != len(names):
        raise ValueError(
            f"{run.path} knows {len(names)} classes of images of shape {expected}, got {data.num_classes} classes of "
            f"{data.image_shape} in {data.name}; choose data of the same kind"
        )
    return data if data.class_names == names else _as_classes_of(run, data, names)


def _is_same(source: str, own: str) -> bool:
    """Whether two sources are one, in whatever way a path is written; a data set's name is no path."""
    if source == own or {source, own} & set(list_datasets()):
        return source == own
    return Path(source).expanduser().resolve() == Path(own).expanduser().resolve()


def _as_classes_of(run: Run, data: Dataset, names: tuple[str, ...]) -> Dataset:
    """Labels counted as the run counts them: by the classes' names, or by their order where no name is known."""
    known = {folder_name(name): index for index, name in enumerate(names)}
    found = [known.get(folder_name(name)) for name in data.class_names]
    if all(index is None for index in found):
        other = f"the classes of {data.name} have other names, {_listed(data.class_names)}"
        return replace(data, notes=(*data.notes, f"{other}; taken in the order of the run's"))
    if set(found) != set(range(len(names))):
        missing = [name for name, index in zip(data.class_names, found, strict=True) if index is None]
        raise ValueError(
            f"{run.path} knows some classes of {data.name}, but not {_listed(tuple(missing))}; "
            f"give them the names that it knows: {_listed(names)}"
        )
    place = torch.tensor(found)
    train, test = (ImageSet(part.images, place[part.labels]) for part in (data.train, data.test))
    return replace(data, train=train, test=test, class_names=names)


def _listed(names: tuple[str, ...], most: int = 5) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
