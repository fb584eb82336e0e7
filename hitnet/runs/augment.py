"""Write a larger data set: the original training images and new ones made by hybrid augmentation."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from hitnet.core.model import Model
from hitnet.data import Dataset, HybridAugmentation, ImageSet, to_bytes, to_float
from hitnet.data.folder import folder_name
from hitnet.files import new_folder, write_bytes
from hitnet.interpret import figures

BATCH = 128


def write_augmented(
    model: Model,
    data: Dataset,
    out: Path,
    per_image: int,
    tweak: float | None = None,
    seed: int = 0,
    format: Literal["folder", "npz"] = "folder",
    done: Callable[[int], None] = lambda count: None,
) -> Path:
    """Write the training images, `per_image` new ones for each, and the test images; `done(size)` after each batch."""
    if per_image < 1:
        raise ValueError(f"per_image must be at least 1, got {per_image}")
    if format == "folder" and out.suffix == ".npz":
        raise ValueError(f"{out} is the name of an .npz file; add --format npz, or choose another name")
    if format == "npz" and out.suffix != ".npz":
        out = out.with_name(f"{out.name}.npz")
    if format == "npz" and data.validation is not None:
        raise ValueError("an .npz file has no place for the pictures of val/; write a folder, without --format npz")
    if out.exists():
        raise FileExistsError(f"{out} already exists; choose another place for the new images, or remove it")
    made = _multiplied(HybridAugmentation(model, tweak), data.train, per_image, seed, done)
    if format == "npz":
        _write_npz(made, data, out)
    else:
        _write_folder(made, data, out)
    return out


def write_preview(model: Model, data: Dataset, folder: Path, tweak: float | None = None, seed: int = 0) -> Path:
    """FOLDER/hybrid.png: the first test image, deformed in 23 ways."""
    image = to_float(data.test.images[0].to(model.device))
    generator = torch.Generator().manual_seed(seed)
    figure = figures.hybrid_preview(HybridAugmentation(model, tweak), image, int(data.test.labels[0]), generator)
    return figures.save(figure, folder / "hybrid.png")


def _multiplied(
    augment: HybridAugmentation, data: ImageSet, per_image: int, seed: int, done: Callable[[int], None]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of bytes (batch, 1 + per_image, c, h, w), the original first, and their labels (batch,)."""
    device = augment.model.device
    generator = torch.Generator().manual_seed(seed)
    for images, labels in zip(data.images.split(BATCH), data.labels.split(BATCH), strict=True):
        floats, classes = to_float(images.to(device)), labels.to(device)
        new = [to_bytes(augment(floats, classes, generator)).cpu() for _ in range(per_image)]
        yield torch.stack([images.cpu(), *new], dim=1), labels.cpu()
        done(len(images))


def _write_npz(made: Iterator[tuple[Tensor, Tensor]], data: Dataset, out: Path) -> None:
    images, labels = zip(*made, strict=True)
    content = io.BytesIO()
    np.savez_compressed(
        content,
        x_train=torch.cat(images).flatten(0, 1).numpy(),
        y_train=torch.cat(labels).repeat_interleave(images[0].shape[1]).numpy(),
        x_test=data.test.pixels().cpu().numpy(),
        y_test=data.test.labels.cpu().numpy(),
        class_names=np.array(data.class_names),
    )
    write_bytes(out, content.getvalue())


def _write_folder(made: Iterator[tuple[Tensor, Tensor]], data: Dataset, out: Path) -> None:
    """train/<class>/<number>.png, the new images made from it <number>-new1.png …; test/ and val/ as they are."""
    classes = _folder_names(data.class_names)
    with new_folder(out) as folder:
        unchanged = {"test": data.test} | ({} if data.validation is None else {"val": data.validation})
        for split in ("train", *unchanged):
            for name in classes:
                (folder / split / name).mkdir(parents=True)
        number = 0
        for images, labels in made:
            for family, label in zip(images, labels.tolist(), strict=True):
                for member, picture in enumerate(family):
                    new = f"-new{member}" if member else ""
                    _write_png(picture, folder / "train" / classes[label] / f"{number:06d}{new}.png")
                number += 1
        for split, images_of in unchanged.items():
            for index, (picture, label) in enumerate(zip(images_of.images, images_of.labels.tolist(), strict=True)):
                _write_png(picture, folder / split / classes[label] / f"{index:06d}.png")


def _write_png(picture: Tensor, path: Path) -> None:
    pixels = picture.cpu().permute(1, 2, 0).numpy()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(path, compress_level=1)


def _folder_names(class_names: tuple[str, ...]) -> list[str]:
    """Class names as folder names, all different."""
    names = [folder_name(name) for name in class_names]
    if len(set(map(str.casefold, names))) < len(names):
        raise ValueError("some classes would get the same name as folders; use --format npz")
    return names
