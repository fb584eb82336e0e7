"""Training, from settings to a finished run folder."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from hitnet.core.checkpoint import write_tensors
from hitnet.core.encoders import WHITENED
from hitnet.core.model import Model
from hitnet.core.pretrained import TIMM, load_pretrained
from hitnet.data import Batches, Dataset, HybridAugmentation, Loading, Variation, at_most, list_datasets
from hitnet.data.split import unevenness
from hitnet.data.variation import fingerprint, load_teacher
from hitnet.defaults import RECIPES, UNEVEN
from hitnet.files import remove_leftovers
from hitnet.runs.calibrate import find_radii
from hitnet.runs.environment import describe_environment
from hitnet.runs.finish import finish_model, save_next
from hitnet.runs.inputs import write_inputs
from hitnet.runs.reopen import load_data, split
from hitnet.runs.result import load_trained, write_result
from hitnet.runs.run import Run
from hitnet.settings import RunSettings, TrainConfig
from hitnet.training.devices import choose_device, choose_precision, join_team
from hitnet.training.finishing import check_finishable, count_steps
from hitnet.training.frozen import FrozenModel, look
from hitnet.training.loop import Job, TrainingStopped, train_epochs
from hitnet.training.needs import check_fits
from hitnet.training.state import State
from hitnet.training.watchers import Row, TensorBoard, Watcher

Fingerprints = dict[str, str]
"""What must not change before the run is resumed: the data, and the teacher if there is one."""


def train(config: TrainConfig, *, watcher: Watcher | None = None, overwrite: bool = False) -> Run:
    """Train a new network into a new run folder."""
    with prepare(with_full_paths(config), watcher) as (job, fingerprints):
        settings = job.settings
        run = Run.named(settings, job.data.name)
        for name in ("teacher", "pretrained", "corrections", "data"):
            source = getattr(settings, name)
            if source not in (None, TIMM) and Path(source).is_relative_to(run.path.resolve()):
                raise ValueError(
                    f"{run.path} holds what --{name} names and would be replaced; choose another --seed or --out"
                )
        watchers = _watchers(run, job, watcher)
        if job.team.leads:
            environment = describe_environment(job.device, job.precision, job.team.size, fingerprints)
            run.create(settings, environment, overwrite=overwrite)
        return _train(run, job, watchers)


def with_full_paths(config: TrainConfig) -> TrainConfig:
    """The run is reopened from any directory."""
    place = Path(config.data).expanduser()
    own = config.data not in list_datasets() and place.exists()
    return replace(
        config,
        data=str(place.resolve()) if own else config.data,
        data_dir=None if config.data_dir is None else config.data_dir.expanduser().resolve(),
        cache=None if config.cache is None else config.cache.expanduser().resolve(),
        teacher=None if config.teacher is None else config.teacher.expanduser().resolve(),
        corrections=None if config.corrections is None else config.corrections.expanduser().resolve(),
        pretrained=config.pretrained if config.pretrained in (None, TIMM) else _full_path(config.pretrained),
    )


def _full_path(place: str) -> str:
    return str(Path(place).expanduser().resolve())


def resume(path: str | Path, *, watcher: Watcher | None = None) -> Run:
    """Resume a run that was stopped, from its last complete epoch."""
    run = Run.open(path)
    if run.is_finished:
        run.remove_training_state()  # the process may have been killed just before this
        again = f"hitnet train --pretrained {shlex.quote(str(run.path))} …"
        raise ValueError(f"{run.path} is finished, so there is nothing to resume; start another run from it: {again}")
    with prepare(run.read_own_settings(), watcher, begun=run.state_file.is_file()) as (job, fingerprints):
        run.check_same(fingerprints)
        job.state.restore(run.state_file)
        if job.team.leads:
            remove_leftovers(run.path)
        return _train(run, job, _watchers(run, job, watcher))


@contextmanager
def prepare(
    config: TrainConfig, loading: Loading | None = None, *, begun: bool = False
) -> Iterator[tuple[Job, Fingerprints]]:
    """Check settings and data here, before any file is written or replaced.

    begun: the run has a state, which is restored later; pretrained weights are not read again.
    """
    settings = config.resolve()
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    device = choose_device(settings.device)
    precision = choose_precision(settings.precision, device)
    with join_team(device) as team:
        data = load_data(settings, loading)
        times = unevenness(data.train.labels)
        settings = config.resolve(settings.train_images or len(data.train), uneven=times > UNEVEN)
        if settings.balance and times > UNEVEN:
            note = f"every class is shown equally often, since the largest has {times:.0f} times as many images as the"
            data = replace(data, notes=(*data.notes, f"{note} smallest (--balance False for each image equally often)"))
        _, height, width = data.image_shape
        if settings.shift >= min(height, width) and settings.shift != RECIPES[settings.augment]["shift"]:
            raise ValueError(
                f"shift must be smaller than the {width}×{height} images, got {settings.shift}; the usual one is 2"
            )
        if settings.freeze and team.size > 1:
            raise ValueError(f"--freeze trains in one process, got {team.size}; start it without torchrun")
        model_config = settings.model_config(data.image_shape, data.class_names)
        images = -(-settings.batch_size // team.size)
        memory = check_fits(
            model_config, images, device, averaged=settings.ema > 0, frozen=settings.freeze, precision=precision
        )
        fingerprints = {"data": data.fingerprint}

        def begin(model: Model) -> None:
            if settings.pretrained is not None and not begun:
                load_pretrained(model, settings.pretrained)
                fingerprints["pretrained weights"] = fingerprint(model.encoder)

        state = State.fresh(settings, model_config, device, begin)
        if settings.finishing:
            check_finishable(state.model, "this network")
        if settings.snapshots and state.model.decoder is None:
            raise ValueError(f"{settings.model} has no decoder, so there is nothing to save; leave out --snapshots")
        try:
            training, validation = split(data, settings)
        except ValueError:
            if config.validation is not None:
                raise
            settings = replace(settings, validation=0.0)  # nobody asked for it
            training, validation = split(data, settings)
        held = 0 if validation is None or data.validation is not None else len(validation)
        if held > 1 + settings.validation * (held + len(training)):
            note = f"{held} of {held + len(training)} training images are held out, one of each class at least"
            data = replace(data, notes=(*data.notes, f"{note} (--validation 0 trains on all)"))
        if settings.patience and validation is None:
            raise ValueError("patience needs validation images to watch; add --validation 0.1, for example")
        training = training.to(device)
        some = at_most(training, WHITENED, data.num_classes, torch.Generator().manual_seed(0))
        state.model.encoder.prepare(some.pixels())
        variation = _variation(settings, data, device, fingerprints)
        batches = Batches(
            training,
            settings.batch_size,
            variation=variation,
            generator=state.generator,
            balance=settings.balance,
            rank=team.rank,
            world_size=team.size,
        )
        held_out = {"test": data.test.to(device)}
        if validation is not None:
            held_out = {"validation": validation.to(device), **held_out}
        yield Job(settings, data, batches, held_out, state, device, precision, team, memory), fingerprints


def _variation(settings: RunSettings, data: Dataset, device: torch.device, fingerprints: Fingerprints) -> Variation:
    hybrid = None
    if settings.teacher is not None:
        teacher = load_teacher(settings.teacher, data).to(device)
        fingerprints["teacher"] = fingerprint(teacher)
        hybrid = HybridAugmentation(teacher)
    if settings.augment == "none":
        return Variation()  # even if a run of a former version has a shift among its settings
    if settings.freeze:
        return Variation(flip=settings.flip, seed=settings.seed)
    return Variation(
        shift=min(settings.shift, *(side - 1 for side in data.image_shape[1:])),
        fill=settings.shift_fill,
        flip=settings.flip,
        rotate=settings.rotate,
        scale=settings.scale,
        shear=settings.shear,
        bend=settings.bend,
        colour=settings.colour,
        hybrid=hybrid,
        hybrid_fraction=settings.hybrid_fraction,
        erase=settings.erase,
        seed=settings.seed,
    )


class Recorder(Watcher):
    """Saves every epoch to the run folder. The state comes last: if it is there, so is everything else."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def started(self, job: Job) -> None:
        self.job = job

    def epoch_ended(self, row: Row) -> None:
        settings, state, run = self.job.settings, self.job.state, self.run
        model = state.kept_model
        if state.best_epoch(settings.patience) == state.epoch:
            model.save(run.model_folder)
        if settings.snapshots:
            assert model.decoder is not None
            path = run.snapshots_folder / f"epoch-{state.epoch:04d}.safetensors"
            write_tensors(path, model.decoder.state_dict(), {"epoch": str(state.epoch)})
        run.write_metrics(state.rows)
        state.save(run.state_file)


def _watchers(run: Run, job: Job, watcher: Watcher | None) -> list[Watcher]:
    """The watchers in the order they are called; only the leading process writes."""
    watchers: list[Watcher] = [Recorder(run)] if job.team.leads else []
    if job.settings.track == "tensorboard" and job.team.leads:
        watchers.append(TensorBoard(run.tensorboard_folder))
    return [*watchers, *([watcher] if watcher is not None else [])]


def _train(run: Run, job: Job, watchers: list[Watcher]) -> Run:
    if job.team.leads and not job.state.epoch:
        write_inputs(run, job)
    for watcher in watchers:
        watcher.opened(run.path)
    if isinstance(job.state.model, FrozenModel):
        _look(run, job, job.state.model, watchers)
    try:
        train_epochs(job, watchers)
    except TrainingStopped as stop:
        done = job.state.epoch
        kept = f"the state after epoch {done} is saved in {run.path}" if done else "no epoch was finished"
        raise TrainingStopped(f"{stop} ({kept})") from stop
    if job.team.leads:
        record = _finish(run, job, watchers) if job.settings.finishing else None
        if "validation" in job.held_out and job.state.model.head.has_hit_zone:
            find_radii(run, load_trained(run, job), job.held_out["validation"], job.settings.coverage)
        for watcher in watchers:
            watcher.measuring()
        write_result(run, job, record)
    job.team.wait()
    return run


def _look(run: Run, job: Job, model: FrozenModel, watchers: list[Watcher]) -> None:
    """The frozen encoder looks at all pictures before training."""

    def looked(done: int, pictures: int) -> None:
        for watcher in watchers:
            watcher.looking(done, pictures)

    look(model, job.batches.data, list(job.held_out.values()), job.settings.flip, run.features_folder, looked)


def _finish(run: Run, job: Job, watchers: list[Watcher]) -> dict[str, Any]:
    """The finishing phase of the model that was kept; what result.json says of it."""

    def stepped(done: int, steps: int) -> None:
        for watcher in watchers:
            watcher.finishing(done, steps)

    steps = count_steps(job.settings.finishing, job.state.epoch * len(job.batches))
    model = load_trained(run, job)
    finished, record = finish_model(run, model, job.batches.data, steps, job.settings, stepped)
    save_next(run, finished)
    return record
