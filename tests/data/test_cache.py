"""Large folders: decoded once, into a file that batches are read from."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from support.tiny import snapshot

import hitnet
from hitnet.data import Loading, load_dataset, split_training
from hitnet.data import reading as reading_module
from hitnet.data.dataset import in_channels
from hitnet.data.mapped import MappedImages
from hitnet.settings import TrainConfig


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Two classes of ten pictures in colour."""
    random = np.random.default_rng(0)
    for index in range(20):
        folder = tmp_path / "pictures" / ("dark" if index % 2 else "light")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 100 if index % 2 else 255, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{index}.png")
    return tmp_path / "pictures"


@pytest.fixture
def all_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every folder counts as large."""
    monkeypatch.setattr(reading_module, "MOST_IN_MEMORY", 0)


class Heard(Loading):
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.done: list[int] = []

    def announced(self, text: str) -> None:
        self.texts.append(text)

    def decoded(self, done: int, total: int) -> None:
        self.done.append(done)

    @property
    def decodings(self) -> int:
        return sum(text.startswith("decoding") for text in self.texts)


def load(folder: Path, **options):
    """(data set, what was heard of its loading)."""
    heard = Heard()
    return load_dataset(folder, cache=folder.parent / "cache", loading=heard, **options), heard


@pytest.fixture
def in_memory(pictures):
    """The same pictures before any folder counts as large."""
    return load_dataset(pictures)


@pytest.mark.parametrize("grey", [False, True])
def test_images_in_a_file_are_those_in_memory(pictures, monkeypatch, grey):
    if grey:
        for file in pictures.rglob("*.png"):
            Image.open(file).convert("L").save(file)
    expected = load_dataset(pictures)
    monkeypatch.setattr(reading_module, "MOST_IN_MEMORY", 0)
    loaded, heard = load(pictures)
    assert isinstance(loaded.train.images, MappedImages)
    assert loaded.image_shape == expected.image_shape == (1 if grey else 3, 32, 32)
    for part, known in ((loaded.train, expected.train), (loaded.test, expected.test)):
        assert torch.equal(part.pixels(), known.images)
        assert torch.equal(torch.cat([*part.images.split(3)]), known.images)
        assert torch.equal(part.images[2], known.images[2])
        assert torch.equal(part.images[part.labels == 1], known.images[known.labels == 1])
        assert torch.equal(part.subset(torch.tensor([3, 0])).images[:], known.images[[3, 0]])
        assert part.files == known.files
    assert loaded.fingerprint == expected.fingerprint
    assert replace(loaded, train=loaded.test, test=loaded.train).fingerprint != expected.fingerprint
    assert heard.done == [*range(1, 21)]
    assert (loaded.train.images.file.path.stat().st_size) == 20 * (1 if grey else 3) * 32 * 32
    other = in_channels(loaded, 3 if grey else 1)
    assert torch.equal(other.test.images[:], in_channels(expected, 3 if grey else 1).test.images)


@pytest.mark.usefixtures("all_large")
def test_the_second_start_decodes_nothing_until_a_file_changes(pictures, monkeypatch):
    first, heard = load(pictures)
    assert heard.decodings == 1
    assert "0.0000614 GB" in heard.texts[0].replace("6.14e-05", "0.0000614")  # announced before
    first.fingerprint  # noqa: B018 - kept beside the pixels
    with monkeypatch.context() as without:
        without.setattr(reading_module, "decode", None)
        without.setattr(reading_module, "picture_size", None)
        again, heard = load(pictures)
        assert heard.done == []
        assert torch.equal(again.train.pixels(), first.train.pixels())
        without.setattr("hitnet.data.dataset._fingerprint", None)
        assert again.fingerprint == first.fingerprint
    changed = pictures / "dark" / "1.png"
    Image.new("RGB", (32, 32), "red").save(changed)
    other, heard = load(pictures)
    assert heard.decodings == 1
    assert other.fingerprint != first.fingerprint
    os.utime(changed, ns=(0, 0))
    assert load(pictures)[1].decodings == 1
    load(pictures, image_size=20)
    load(pictures, image_size=(20, 30), fit="crop")
    assert load(pictures)[1].decodings == 0  # other sizes have places of their own
    assert len([path for path in (pictures.parent / "cache").iterdir() if path.is_dir()]) == 3


@pytest.mark.usefixtures("all_large")
@pytest.mark.parametrize("damage", ["cut pixels", "no record", "half-written"])
def test_a_killed_or_damaged_decoding_is_made_again(pictures, damage):
    first, _ = load(pictures)
    expected, file = first.train.pixels(), first.train.images.file.path
    if damage == "cut pixels":
        os.truncate(file, 100)
    elif damage == "no record":
        (file.parent / "record.json").write_text("{")
    else:
        file.parent.rename(file.parent.with_name(f".{file.parent.name}.part"))
    loaded, heard = load(pictures)
    assert heard.decodings == 1
    assert torch.equal(loaded.train.pixels(), expected)
    assert not [*file.parent.parent.glob(".*.part")]


@pytest.mark.usefixtures("all_large")
def test_nothing_stays_if_decoding_is_interrupted(pictures, monkeypatch):
    monkeypatch.setattr(Heard, "decoded", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        load(pictures)
    assert [path.suffix for path in (pictures.parent / "cache").iterdir()] == [".lock"]


@pytest.mark.usefixtures("all_large")
def test_two_at_once_decode_once(pictures):
    with ThreadPoolExecutor(4) as pool:
        loaded = list(pool.map(load, [pictures] * 4))
    assert sum(heard.decodings for _, heard in loaded) == 1
    assert len({data.fingerprint for data, _ in loaded}) == 1


@pytest.mark.usefixtures("all_large")
def test_too_little_room_is_refused_before_anything_is_written(pictures, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=50_000))
    with pytest.raises(
        ValueError, match=r"take 6\.14e-05 GB, .*cache has 5e-05 GB free; make room, .*--cache, or a sma"
    ):
        load(pictures)
    assert [path.suffix for path in (pictures.parent / "cache").iterdir()] == [".lock"]


@pytest.mark.usefixtures("all_large")
def test_a_place_that_cannot_be_written_to_is_named_with_the_remedy(pictures):
    (pictures.parent / "cache").write_text("a file")
    with pytest.raises(
        OSError, match=r"cannot be written to .*cache \(File exists\); choose another folder with --cache"
    ):
        load(pictures)


@pytest.mark.usefixtures("all_large")
def test_bad_pictures_are_listed_and_skipping_them_decodes_nothing_again(pictures):
    (pictures / "dark" / "cut.png").write_bytes((pictures / "dark" / "1.png").read_bytes()[:500])
    with pytest.raises(ValueError, match="1 of 21 pictures are bad"):
        load(pictures)
    loaded, heard = load(pictures, skip_bad=True)
    assert heard.done == []
    assert len(loaded.train) + len(loaded.test) == 20
    assert all("cut" not in file for file in (*loaded.train.files, *loaded.test.files))


def test_memory_is_given_back_without_loss(pictures, in_memory, monkeypatch, all_large):
    monkeypatch.setattr("hitnet.data.mapped.GIVEN_BACK", 5_000)
    loaded, _ = load(pictures)
    for _ in range(3):
        assert torch.equal(torch.cat([*loaded.train.images.split(2)]), in_memory.train.images)
    assert loaded.train.images.file.read < 12_000


def test_parts_of_a_large_folder_copy_nothing(pictures, all_large):
    loaded, _ = load(pictures)
    kept, held = split_training(loaded, count=12, validation=0.25, seed=0)
    assert isinstance(kept.images, MappedImages)
    assert isinstance(held.images, MappedImages)
    assert kept.images.file is loaded.train.images.file
    assert sorted({*kept.files} | {*held.files}) == sorted((*kept.files, *held.files))


@pytest.mark.usefixtures("no_pictures")
def test_training_from_a_file_makes_the_same_weights_and_resumes_to_them(pictures, tmp_path, monkeypatch):
    usual = {"model": "lenet5-hom", "width": 2, "epochs": 2, "validation": 0.2, "threads": 1, "device": "cpu"}
    config = TrainConfig(data=str(pictures), out=tmp_path / "memory", **usual)
    expected = snapshot(hitnet.train(config).model_folder)
    monkeypatch.setattr(reading_module, "MOST_IN_MEMORY", 0)
    config = replace(config, out=tmp_path / "file", cache=tmp_path / "cache")
    run = hitnet.train(config)
    assert snapshot(run.model_folder) == expected
    assert len([*(tmp_path / "cache").iterdir()]) == 2

    class Stop(hitnet.training.watchers.Watcher):
        def epoch_ended(self, row):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hitnet.runs.train.train(config, watcher=Stop(), overwrite=True)
    assert not run.is_finished
    hitnet.runs.train.resume(run.path)
    assert snapshot(run.model_folder) == expected
