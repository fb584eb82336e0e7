"""One picture file -> pixels, for any format, colour mode, depth, transparency and orientation. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

if TYPE_CHECKING:
    from hitnet.settings import Fit

# The only decoders that are tried, even on a file with the wrong suffix.
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
# Pictures too, but no decoder of theirs is installed with Pillow.
FOREIGN = frozenset({".heic", ".heif", ".avif", ".jxl", ".jp2", ".psd", ".dng", ".cr2", ".nef", ".arw"})
COLOUR_NOISE = 2  # channels that differ by so few levels count as grey: lossy WebP distorts grey like this
ORIENTATION = 0x0112  # the EXIF tag; from 5 on the picture is stored on its side

MOST_SCANS = 100  # a progressive JPEG has about ten; each costs as much time as the first, however short it is
START_OF_SCAN = b"\xff\xda"
PIECE = 1_000_000  # bytes that are looked at together
ROWS = 64  # of deep pictures, likewise

Source = str | Path | BinaryIO
Pixels = npt.NDArray[np.uint8]


def is_picture(path: Path) -> bool:
    """Whether it is a file with the suffix of a picture, and not hidden: a Mac leaves ._x.png beside x.png."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()


def files_below(folder: Path) -> Iterator[Path]:
    """All files in a folder but hidden ones, at any depth, links followed; each folder once, even if links go round."""
    seen: set[str] = set()
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if (real := os.path.realpath(place)) in seen:
            folders.clear()
            continue
        seen.add(real)
        yield from (Path(place, name) for name in files if not name.startswith("."))


def foreign_kind(path: Path) -> str | None:
    """HEIC and the like, if the suffix says that it is a picture of a kind that is not read."""
    return path.suffix[1:].upper() if path.suffix.lower() in FOREIGN else None


def read_pixels(source: Source, image_shape: tuple[int, int, int], fit: Fit = "stretch") -> tuple[Pixels, str | None]:
    """A picture as a model expects it, and how it was converted: -> (height, width, channels), note or None."""
    channels, height, width = image_shape
    if channels not in (1, 3):
        raise ValueError(f"pictures have 1 or 3 channels, the model expects {channels}")
    was_height, was_width = picture_size(source)
    image = decode(source, (height, width), fit)
    wanted = "L" if channels == 1 else "RGB"
    done = []
    if (was_height, was_width) != (height, width):
        same_shape = fit == "stretch" or was_height * width == was_width * height
        how = "" if same_shape else ", cropped" if fit == "crop" else ", padded"
        done.append(f"{width}×{height} from {was_width}×{was_height}{how}")
    if image.mode != wanted:
        done.append("grey from colour" if channels == 1 else "colour from grey")
    return np.array(image.convert(wanted)).reshape(height, width, channels), ", ".join(done) or None


def picture_size(source: Source) -> tuple[int, int]:
    """(height, width) as a viewer shows the picture, from its header alone."""
    try:
        with _open(source) as image:
            width, height = image.size
            # The PNG class's own method would decode the picture to look for EXIF data after the pixels.
            orientation = Image.Image.getexif(image).get(ORIENTATION, 1)
            return (width, height) if orientation >= 5 else (height, width)
    except Exception as error:
        raise _unreadable(source, error) from error


def decode(source: Source, size: tuple[int, int] | None = None, fit: Fit = "stretch") -> Image.Image:
    """The picture in mode L where it has no colour, else RGB, made (height, width) if given.

    fit: stretch it to that size, crop the middle that has its shape, or pad it by repeating the pixels at its edge.
    Transparent pixels are put on white, 16 bits become 8, an animation gives its first frame, the EXIF orientation is
    applied. A picture is grey if every pixel is, however the file stores it.
    """
    try:
        with _open(source) as image:
            if image.format in ("JPEG", "MPO"):  # MPO: several JPEG in one file
                _check_scans(source)
            if size is not None:
                # JPEG can be decoded at a fraction of its size; twice the requested size keeps the resizing smooth.
                image.draft(None, (2 * max(size), 2 * max(size)))
            upright = _eight_bits(ImageOps.exif_transpose(image))
        if size is not None and upright.size != (size[1], size[0]):
            upright = _fitted(upright, size, fit)
        return _grey_if_colourless(upright)
    except Exception as error:
        raise _unreadable(source, error) from error


def _open(source: Source) -> Image.Image:
    if not isinstance(source, (str, Path)):
        source.seek(0)
    elif Path(source).exists() and not Path(source).is_file():  # reading from a pipe would never end
        raise ValueError("it is not a file; give a picture file, or a link to one")
    image = Image.open(source, formats=FORMATS)
    # PIL only warns at its limit and raises an error at twice that; here the limit is strict.
    if (limit := Image.MAX_IMAGE_PIXELS) is not None and image.width * image.height > limit:
        image.close()
        raise ValueError(f"{image.width}×{image.height} pixels are more than the {limit:,} allowed")
    return image


def _check_scans(source: Source) -> None:
    """Refuse a JPEG that would be decoded over and over; inside a scan, the marker of its start cannot occur."""
    with open(source, "rb") if isinstance(source, (str, Path)) else nullcontext(source) as file:
        position = file.tell()
        file.seek(0)
        scans, tail = 0, b""
        while piece := file.read(PIECE):
            scans += (tail + piece).count(START_OF_SCAN)
            tail = piece[-1:]
        file.seek(position)
    if scans > MOST_SCANS:
        raise ValueError(f"{scans} scans are more than the {MOST_SCANS} allowed; save it again as an ordinary JPEG")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Any mode -> L or RGB."""
    if image.mode.startswith(("I", "F")):
        return _scaled(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _scaled(image: Image.Image) -> Image.Image:
    """16 bits per pixel or floats, which PIL would clip at 255, scaled to 8 bits."""
    deep, shallow = np.asarray(image), np.empty((image.height, image.width), np.uint8)
    low, high = deep.min(), deep.max()
    # Floats and 32 bits hold any range: what fits into a smaller one is meant so.
    smaller, larger = {"F": (1, 255), "I": (255, 65535)}.get(image.mode, (65535, 65535))
    limit = smaller if high <= smaller else larger
    if not (low >= 0 and high <= limit):  # written this way, NaN fails too
        expected = "floats from 0 to 1 or to 255" if image.mode == "F" else "numbers from 0 to 65535"
        raise ValueError(f"expected {expected}, got {low} to {high}; save it with 8 or 16 bits")
    # Some rows at a time: the arithmetic needs more bytes than the picture.
    for rows in range(0, image.height, ROWS):
        shallow[rows : rows + ROWS] = np.rint(deep[rows : rows + ROWS] * (255 / limit))
    return Image.fromarray(shallow)


def _fitted(image: Image.Image, size: tuple[int, int], fit: Fit) -> Image.Image:
    """As `decode` makes it (height, width)."""
    height, width = size
    smooth = Image.Resampling.BILINEAR
    if fit == "stretch":
        return image.resize((width, height), smooth)
    if fit == "crop":
        return ImageOps.fit(image, (width, height), smooth)
    scale = min(width / image.width, height / image.height)
    inner = (min(width, max(1, round(scale * image.width))), min(height, max(1, round(scale * image.height))))
    right, below = width - inner[0], height - inner[1]
    frame = [(below // 2, below - below // 2), (right // 2, right - right // 2), (0, 0)]
    pixels = np.asarray(image.resize(inner, smooth))
    return Image.fromarray(np.pad(pixels, frame[: pixels.ndim], mode="edge"))


def _grey_if_colourless(image: Image.Image) -> Image.Image:
    if image.mode == "L":
        return image
    red, green, blue = np.moveaxis(np.asarray(image), 2, 0)
    # Not np.ptp over three neighbouring values, which takes longer than to decode a JPEG.
    spread = (np.maximum(np.maximum(red, green), blue) - np.minimum(np.minimum(red, green), blue)).max()
    return image.convert("L") if spread <= COLOUR_NOISE else image


def _unreadable(source: Source, error: Exception) -> Exception:
    """One consistent error for anything that a decoder raises on a broken file."""
    name = source if isinstance(source, (str, Path)) else "the picture"
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(f"{name} does not exist")
    if isinstance(source, (str, Path)) and Path(source).is_file() and Path(source).stat().st_size == 0:
        return ValueError(f"{name} is empty")
    if isinstance(source, (str, Path)) and (kind := foreign_kind(Path(source))):
        return ValueError(f"{name} is {kind}, which is not read; convert it to JPEG or PNG")
    if isinstance(error, UnidentifiedImageError):
        return ValueError(f"{name} is not one of {', '.join(FORMATS)}, or is damaged")
    return ValueError(f"{name} cannot be read as a picture: {error}")
