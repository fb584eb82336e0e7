"""Reopen a run: its model, its data, and the quality of its drawings."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from hitnet.core.model import Model, load
from hitnet.data import Dataset, ImageSet, Loading, list_datasets, load_dataset, split_training
from hitnet.data.corrections import correct, read_corrections
from hitnet.data.dataset import in_channels
from hitnet.data.folder import folder_name
from hitnet.data.folds import fold_of
from hitnet.errors import listed
from hitnet.interpret.exemplars import Exemplars
from hitnet.interpret.quality import Quality, measure
from hitnet.runs.exemplars import keeps_exemplars, read_exemplars, write_exemplars
from hitnet.runs.run import Run
from hitnet.settings import RunSettings
from hitnet.training.devices import choose_device


@dataclass(frozen=True)
class Reopened:
    """A run and the model it kept."""

    run: Run
    model: Model

    def title(self) -> str:
        data = self.run.read_result()["data"] if self.run.is_finished else Path(self.run.read_settings().data).name
        return f"{self.model.config.name} on {data}"

    def load_data(self, source: str | None = None, data_dir: Path | None = None) -> Dataset:
        """The data it was trained on, or another data set that fits its model."""
        return data_for(self.run, self.model, source, data_dir)

    def quality(self, data_dir: Path | None = None) -> Quality:
        """As measured at the end of the run, or measured now."""
        if self.run.is_finished and "quality" in (result := self.run.read_result()):
            return Quality.from_json(result["quality"])
        return measure(self.model, self.load_data(data_dir=data_dir).test.to(self.model.device)).quality

    def training_images(self, data: Dataset) -> ImageSet:
        """What it was trained on: without the images that its settings left out or held out for validation."""
        return split(data, self.run.read_settings())[0].to(self.model.device)

    def exemplars(self, data_dir: Path | None = None) -> Exemplars | None:
        """As kept at the end of the run, or chosen now and kept; None if the run may not hold real pictures."""
        if not keeps_exemplars(self.run, self.model):
            return None
        if self.run.exemplars_file.is_file():
            return read_exemplars(self.run, self.model)
        return write_exemplars(self.run, self.model, self.training_images(self.load_data(data_dir=data_dir)))


def reopen(path: Path, device: str = "auto") -> Reopened:
    """The run in a folder, with its model on a device."""
    return Reopened(Run.open(path), load_model(path, device))


def reopen_drawing(path: Path, device: str = "auto") -> Reopened:
    """The same; an error if its network has no decoder."""
    return Reopened(Run.open(path), load_drawing(path, device))


def load_model(path: Path, device: str = "auto") -> Model:
    """The model at a path, which may be a run folder, a model folder or a safetensors file, on a device."""
    return load(path).to(choose_device(device))


def load_drawing(path: Path, device: str = "auto") -> Model:
    """The same; an error if it has no decoder."""
    model = load_model(path, device)
    if model.decoder is None:
        remedy = "--decoder picture" if model.head.has_hit_zone else "--model hitnet-fast, or another with Hit-or-Miss"
        raise ValueError(f"{model.config.name} in {path} has no decoder, so it cannot draw; train one with {remedy}")
    return model


def split(data: Dataset, settings: RunSettings) -> tuple[ImageSet, ImageSet | None]:
    """(training images, validation images) as the settings want them."""
    return split_training(data, count=settings.train_images, validation=settings.validation, seed=settings.seed)


def load_data(settings: RunSettings, loading: Loading | None = None) -> Dataset:
    """The data set that the settings name, with its corrections; only the images of a fold if they name one.

    `loading` is told of the progress.
    """
    data = load_dataset(
        settings.data,
        data_dir=settings.data_dir,
        image_size=settings.image_size,
        test_fraction=settings.test_fraction,
        skip_bad=settings.skip_bad,
        fit=settings.fit,
        cache=settings.cache,
        loading=loading,
    )
    if settings.corrections is not None:
        data = correct(data, read_corrections(settings.corrections), settings.corrections)
    return data if settings.fold is None else fold_of(data, settings.fold, settings.seed)


def data_for(
    run: Run,
    model: Model,
    source: str | None = None,
    data_dir: Path | None = None,
    *,
    test_fraction: float | None = 0.2,
    skip_bad: bool = False,
) -> Dataset:
    """A run's own data, unchanged since training, or those of another `source`; an error if they do not fit its model.

    Another source may have grey pictures for colour ones or the other way round, and only some of the classes.

    test_fraction: for another source without a test part; None uses all of it, since none of it was trained on.
    """
    settings, expected, names = run.read_own_settings(), model.config.image_shape, model.config.class_names
    if source is None or is_same_source(source, settings.data):
        data = load_data(replace(settings, data_dir=data_dir or settings.data_dir))
        # If the images changed, the test part would be split differently and contain training images.
        run.check_same({"data": data.fingerprint})
    else:
        size = expected[1:] if expected is not None else None
        data = load_dataset(
            source,
            data_dir=data_dir or settings.data_dir,
            image_size=size,
            test_fraction=test_fraction,
            skip_bad=skip_bad or settings.skip_bad,
            fit=model.config.fit,
            cache=settings.cache,
        )
        if expected is not None:
            data = in_channels(data, expected[0])
    if data.image_shape != expected or data.num_classes > len(names):
        raise ValueError(
            f"{run.path} expects {len(names)} classes and images of shape {expected}, got {data.num_classes} classes "
            f"and {data.image_shape} in {data.name}; choose data of the same kind"
        )
    return data if data.class_names == names else _as_classes_of(run, data, names)


def is_same_source(source: str, own: str) -> bool:
    """Whether two sources are the same, however a path is written; the name of a data set is not a path."""
    if source == own or {source, own} & set(list_datasets()):
        return source == own
    return Path(source).expanduser().resolve() == Path(own).expanduser().resolve()


def _as_classes_of(run: Run, data: Dataset, names: tuple[str, ...]) -> Dataset:
    """Relabelled with the run's class indices: matched by name, or kept in order if no name matches."""
    known = {folder_name(name): index for index, name in enumerate(names)}
    indices = [known.get(folder_name(name)) for name in data.class_names]
    if all(index is None for index in indices) and len(indices) == len(names):
        other = f"the classes of {data.name} have other names ({listed(data.class_names)})"
        return replace(data, notes=(*data.notes, f"{other}; they are matched to the run's by their order"))
    if strangers := [name for name, index in zip(data.class_names, indices, strict=True) if index is None]:
        raise ValueError(
            f"{run.path} does not know all classes of {data.name}: not {listed(strangers)}; "
            f"rename them to the classes it knows: {listed(names)}"
        )
    if len(set(indices)) < len(indices):
        raise ValueError(f"two classes of {data.name} have the same name as one of {run.path}; rename one of them")
    new_index = torch.tensor(indices)
    renamed = data.with_parts(lambda part: replace(part, labels=new_index[part.labels]))
    return replace(renamed, class_names=names)
