"""The real pictures that a run keeps: RUN/exemplars.safetensors."""

import shlex

from hitnet.core.checkpoint import read_tensors, write_tensors
from hitnet.core.model import Model
from hitnet.data import ImageSet
from hitnet.interpret.exemplars import Exemplars, choose_exemplars
from hitnet.runs.run import Run


def keeps_exemplars(run: Run, model: Model) -> bool:
    """Whether the run may hold real pictures, and there are drawings to put them beside."""
    return not run.read_settings().no_exemplars and model.head.has_hit_zone and model.decoder is not None


def write_exemplars(run: Run, model: Model, training: ImageSet) -> Exemplars:
    """Choose among the run's training images, and keep them in its folder."""
    exemplars = choose_exemplars(model, training)
    write_tensors(run.exemplars_file, vars(exemplars))
    return exemplars


def read_exemplars(run: Run, model: Model) -> Exemplars:
    """The pictures in the run's folder; an error if they are not those of this model."""
    classes, dims, shape = model.head.num_classes, model.head.capsule_dim, model.config.image_shape
    path = run.exemplars_file
    remedy = f"remove it and make it again with: {remake_command(run)}"
    try:
        found = Exemplars(**read_tensors(path)[0])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} does not hold the pictures of a run ({error}); {remedy}") from None
    kinds = [str(part.dtype).removeprefix("torch.") for part in vars(found).values()]
    if kinds != ["uint8", "int64", "int64"] or found.pictures.ndim != 4:
        raise ValueError(f"{path} must hold uint8 pictures and their places as int64, got {', '.join(kinds)}; {remedy}")
    expected = (shape and shape[0], (classes,), (classes, dims, 2))
    got = (found.pictures.shape[1], tuple(found.typical.shape[:-1]), tuple(found.ends.shape[:-1]))
    if got != expected:
        raise ValueError(f"{path} must fit its model, channels and places {expected}, got {got}; {remedy}")
    for places in (found.typical, found.ends):
        if places.numel() and not -1 <= int(places.min()) <= int(places.max()) < len(found.pictures):
            raise ValueError(f"{path} must name places among its {len(found.pictures)} pictures only; {remedy}")
    return found


def remake_command(run: Run) -> str:
    """The command that makes the pictures of a run that has none."""
    return f"hitnet prototypes {shlex.quote(str(run.path))}"
