"""Damaged files of every kind that HitNet opens, the same ones for the same seed. By hand, the long form:

python tests/support/fuzz.py 100000
"""

import contextlib
import gzip
import io
import json
import math
import random
import resource
import sys
import tarfile
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.io import savemat

import hitnet
from hitnet.core.model import create_model
from hitnet.data.formats import CIFAR_FILES, read_cifar, read_idx, read_svhn
from hitnet.data.npz import load_npz
from hitnet.files import write_json
from hitnet.pictures import read_pixels
from hitnet.runs.run import Run
from hitnet.settings import TrainConfig
from hitnet.web.comparison import describe_run, list_runs
from hitnet.web.server import Json

EXTREMES = [
    b"\x00" * 4,
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x00\x01\x00\x00",
    b"\x80\x00\x00\x00",
]
STRANGE = [math.nan, math.inf, -1, 0, 10**9, 10**30, 1e-320, 1e308, "", "\ud800", "\x1b[2J", [], {}, [[]], None, True]
STRANGE += ["x" * 500, ["a", 1], {"a": math.nan}, 2**31, -(2**63), "../../etc/passwd", "nan", 0.5, 16, "hitnet"]


@dataclass
class Report:
    """What came of the inputs."""

    inputs: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {count:,} ({self.refused[kind]:,} refused)" for kind, count in self.inputs.items())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        return (
            f"{self.inputs.total():,} inputs: {kinds}; failures {len(self.failures)}; "
            f"slowest {self.slowest:.1f} s; peak memory {peak:.2f} GB"
        )


def fuzz(count: int, seed: int = 0) -> Report:
    """Open so many damaged files; whatever is not opened must be refused with a ValueError or an OSError."""
    chance, report = random.Random(seed), Report()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attacks = prepare(Path(folder))
        kinds, weights = list(attacks), [3 if kind in ("picture", "npz", "idx") else 1 for kind in attacks]
        for number in range(count):
            kind = chance.choices(kinds, weights)[0]
            report.inputs[kind] += 1
            start = time.monotonic()
            try:
                attacks[kind](chance)
            except (ValueError, OSError):
                report.refused[kind] += 1
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                report.failures.append(f"input {number}, {kind}: {''.join(traceback.format_exception(error)[-3:])}")
            report.slowest = max(report.slowest, time.monotonic() - start)
    return report


def prepare(folder: Path) -> dict[str, Callable[[random.Random], object]]:
    """By the kind of file: a function that damages one and opens it."""
    pictures, (npz, idx, mat, tar) = sound_pictures(), sound_archives()
    run = fake_run(folder / "runs" / "data" / "own")
    model = {path.name: path.read_bytes() for path in run.model_folder.iterdir()}
    records = {path: path.read_bytes() for path in (run.settings_file, run.result_file, run.metrics_file)}

    def opened(name: str, content: bytes, read: Callable[[Path], object]) -> object:
        (folder / name).write_bytes(content)
        return read(folder / name)

    def model_folder(chance: random.Random) -> object:
        for name, content in model.items():
            (folder / "model").mkdir(exist_ok=True)
            (folder / "model" / name).write_bytes(content)
        name = chance.choice(list(model))
        damaged = damage_json(model[name], chance) if name.endswith("json") else damage(model[name], chance)
        return opened(f"model/{name}", damaged, lambda path: hitnet.load(path.parent))

    def run_records(chance: random.Random) -> None:
        path = chance.choice(list(records))
        change = damage_json if path.suffix == ".json" and chance.random() < 0.8 else damage
        path.write_bytes(change(records[path], chance))
        try:
            Json({"runs": list_runs(run)})  # always answered
            with contextlib.suppress(ValueError, OSError):
                Json(describe_run(run))
        finally:
            path.write_bytes(records[path])

    return {
        "picture": lambda chance: read_pixels(io.BytesIO(damage(chance.choice(pictures), chance)), (1, 28, 28)),
        "npz": lambda chance: opened("arrays.npz", npz(chance), load_npz),
        "idx": lambda chance: opened("i.gz", idx(chance), lambda path: read_idx(path, 3)),
        "mat": lambda chance: opened("a.mat", mat(chance), read_svhn),
        "tar": lambda chance: opened("cifar.tar.gz", tar(chance), read_cifar),
        "model": model_folder,
        "records": run_records,
    }


def sound_pictures() -> list[bytes]:
    """One of each format and of many modes."""
    noise = Image.effect_noise((40, 30), 90)
    modes = {"PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"), "GIF": ("L", "P"), "BMP": ("1", "L", "RGB")}
    modes |= {"JPEG": ("L", "RGB", "CMYK"), "WEBP": ("RGB", "RGBA")}
    found = []
    for kind, of_kind in modes.items():
        for mode in of_kind:
            for options in ({"progressive": True}, {}) if kind == "JPEG" else ({},):
                content = io.BytesIO()
                image = Image.new(mode, (40, 30), 515) if mode == "I;16" else noise.convert(mode)
                image.save(content, kind, **options)
                found.append(content.getvalue())
    return found


def sound_archives() -> list[Callable[[random.Random], bytes]]:
    """Makers of damaged .npz, IDX, .mat and .tar.gz files: the packed bytes are damaged, or what is in them."""
    images, labels, array = np.zeros((20, 9, 8), np.uint8), np.arange(20) % 2, io.BytesIO()
    np.save(array, images)
    raw_idx = b"\x00\x00\x08\x03" + b"".join(side.to_bytes(4, "big") for side in (20, 9, 8)) + images.tobytes()
    mats = []
    for packed in (True, False):
        mats.append(io.BytesIO())
        savemat(mats[-1], {"X": np.zeros((32, 32, 3, 4), np.uint8), "y": np.ones((4, 1))}, do_compression=packed)
    batches = io.BytesIO()
    with tarfile.open(fileobj=batches, mode="w") as archive:
        for name in CIFAR_FILES:
            member = tarfile.TarInfo(name)
            member.size = 3073
            archive.addfile(member, io.BytesIO(bytes(3073)))

    def npz(chance: random.Random) -> bytes:
        content, inside = io.BytesIO(), chance.random() < 0.5
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x_train.npy", damage(array.getvalue(), chance, 120) if inside else array.getvalue())
            with archive.open("y_train.npy", "w") as file:
                np.save(file, labels)
        return content.getvalue() if inside else damage(content.getvalue(), chance)

    def gzipped(raw: bytes, chance: random.Random, start: int) -> bytes:
        if chance.random() < 0.5:
            return gzip.compress(damage(raw, chance, start), 1)
        return damage(gzip.compress(raw, 1), chance)

    return [
        npz,
        lambda chance: gzipped(raw_idx, chance, 16),
        lambda chance: damage(chance.choice(mats).getvalue(), chance, 400),
        lambda chance: gzipped(batches.getvalue(), chance, 512),
    ]


def fake_run(path: Path) -> Run:
    """A finished run of a tiny network."""
    model = create_model("lenet5-hom", (1, 28, 28), 3, 2, width=1, decoder="picture")
    model.save(path / "model")
    run = Run(path)
    write_json(run.settings_file, TrainConfig(model="lenet5-hom").to_json())
    run.write_metrics([{"epoch": epoch, "train_error": 3.0, "test_error": 4.0} for epoch in range(1, 4)])
    result = {"data": "x", "model": "m", "test": {"error": 1.5}, "epochs": 3, "seconds": 2.0, "quality": {"r2": 0.5}}
    write_json(run.result_file, result)
    return run


def damage(content: bytes, chance: random.Random, start: int = 0) -> bytes:
    """Some bytes changed, lost, repeated or extreme; half of the time only among the first `start`, if given."""
    if start and chance.random() < 0.5:
        return damage(content[:start], chance) + content[start:]
    damaged = bytearray(content)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(damaged)) if damaged else 0
        length = min(chance.choice((1, 2, 8, 64, 1000)), len(damaged) - at)
        kind = chance.randrange(6)
        if kind == 0 and damaged:
            damaged[at] = chance.randrange(256)
        elif kind == 1:
            damaged[at : at + 4] = chance.choice(EXTREMES)
        elif kind == 2:
            del damaged[at : at + length]
        elif kind == 3:
            damaged[at:at] = damaged[at : at + length] * chance.choice((1, 2, 100))
        elif kind == 4 and chance.random() < 0.3:
            del damaged[at:]
        else:
            damaged[at:at] = chance.randbytes(length)
    return bytes(damaged)


def damage_json(content: bytes, chance: random.Random) -> bytes:
    """Some values replaced by others that are valid JSON, or nearly so."""
    value: dict[str, Any] = json.loads(content)
    for _ in range(chance.randint(1, 3)):
        inside = value
        while (
            deeper := [part for part in inside.values() if isinstance(part, dict) and part]
        ) and chance.random() < 0.5:
            inside = chance.choice(deeper)
        if inside:
            inside[chance.choice([*inside, "unheard-of"])] = chance.choice(STRANGE)
    return json.dumps(value if chance.random() < 0.95 else chance.choice(STRANGE)).encode()


if __name__ == "__main__":
    outcome = fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(outcome, *outcome.failures[:20], sep="\n")
    sys.exit(bool(outcome.failures))
