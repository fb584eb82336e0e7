"""Folders of class folders, with pictures as people have them."""

import os
import struct
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from hitnet.data import load_dataset, split_training
from hitnet.data.reading import Allowance


def picture(seed: int = 0, size: tuple[int, int] = (12, 10), colour: bool = False) -> Image.Image:
    """Noise of (width, height)."""
    shape = (size[1], size[0], 3) if colour else (size[1], size[0])
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def fill(folder, count=5, suffix=".png", **options):
    """`count` pictures in a class folder, 0.png, 1.png and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        picture(number, **options).save(folder / f"{number}{suffix}")


def test_a_folder_is_split_by_class_and_seed(tmp_path):
    fill(tmp_path / "cat", 10)
    fill(tmp_path / "dog", 5)
    loaded, same, other = (load_dataset(tmp_path, test_fraction=0.4, split_seed=seed) for seed in (1, 1, 2))
    assert loaded.name == tmp_path.name
    assert loaded.class_names == ("cat", "dog")
    assert loaded.train.labels.bincount().tolist() == [6, 3]
    assert loaded.test.labels.bincount().tolist() == [4, 2]
    assert loaded.fingerprint == same.fingerprint != other.fingerprint
    assert "split into 9 training and 6 test images, seed 1" in loaded.notes


def test_train_and_test_folders_are_kept_apart_pixel_by_pixel(tmp_path):
    for split, count in (("train", 3), ("test", 2)):
        for name in ("class10", "class2"):
            fill(tmp_path / split / name, count)
    loaded = load_dataset(str(tmp_path))
    assert loaded.class_names == ("class2", "class10")
    assert loaded.train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert loaded.test.labels.tolist() == [0, 0, 1, 1]
    assert loaded.image_shape == (1, 10, 12)
    for number in range(3):
        assert np.array_equal(loaded.train.images[number, 0], np.asarray(picture(number)))
    assert loaded.notes == ("grey: no picture has colour",)


@pytest.mark.parametrize("name", ["val", "Validation", "dev"])
def test_a_validation_folder_beside_train_and_test_is_kept_for_validation(tmp_path, name):
    for split, count in (("train", 3), ("test", 2), (name, 4)):
        for class_name in "ab":
            fill(tmp_path / split / class_name, count)
    loaded = load_dataset(tmp_path)
    assert loaded.validation is not None
    assert loaded.validation.labels.tolist() == [0] * 4 + [1] * 4
    assert "the 8 pictures in val/ are used for validation" in loaded.notes
    training, held_out = split_training(loaded, count=None, validation=0.5, seed=0)
    assert (len(training), held_out) == (6, loaded.validation)
    without = replace(loaded, validation=None)
    assert loaded.fingerprint != without.fingerprint


def test_every_image_knows_its_file(tmp_path):
    for name in "ab":
        fill(tmp_path / name, 4)
    loaded = load_dataset(tmp_path, test_fraction=0.5)
    for part in (loaded.train, loaded.test):
        assert part.files is not None
        for file, image in zip(part.files, part.images, strict=True):
            assert np.array_equal(image[0], np.asarray(Image.open(tmp_path / file)))


@pytest.mark.parametrize(("suffix", "exact"), [(".png", True), (".bmp", True), (".webp", False), (".JPG", False)])
def test_every_format_is_read(tmp_path, suffix, exact):
    for name in "ab":
        folder = tmp_path / name
        folder.mkdir()
        for number in range(2):
            grey = Image.new("RGB", (16, 16), (200, 60 + 10 * number, 20))
            grey.save(folder / f"{number}{suffix}")
    loaded = load_dataset(tmp_path)
    assert loaded.image_shape == (3, 16, 16)
    assert loaded.notes[0] == "in colour"
    error = (loaded.train.images[:, 0].int() - 200).abs().max()
    assert int(error) <= (0 if exact else 6)


def test_one_colour_picture_makes_all_colour(tmp_path):
    fill(tmp_path / "a", 3)
    fill(tmp_path / "b", 3)
    picture(7, colour=True).save(tmp_path / "b" / "colour.png")
    loaded = load_dataset(tmp_path)
    assert loaded.image_shape == (3, 10, 12)
    assert "in colour, although 6 of 7 pictures are grey" in loaded.notes
    images = torch.cat([loaded.train.images, loaded.test.images])
    assert int((images[:, 0] == images[:, 1]).flatten(1).all(1).sum()) == 6


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp"])
def test_grey_pictures_stored_as_colour_are_grey(tmp_path, suffix):
    for name in "ab":
        (tmp_path / name).mkdir()
        for number in range(2):
            picture(number).convert("RGB").save(tmp_path / name / f"{number}{suffix}")
    assert load_dataset(tmp_path).image_shape == (1, 10, 12)


def test_mixed_sizes_get_a_stated_default_or_the_size_asked(tmp_path):
    fill(tmp_path / "a", 3, size=(100, 80))
    fill(tmp_path / "b", 3, size=(30, 50))
    loaded = load_dataset(tmp_path)
    assert loaded.image_shape == (1, 64, 64)
    assert "resized to 64×64 (they come in 2 sizes, 30×50 to 100×80); choose another with image_size" in loaded.notes[0]
    assert load_dataset(tmp_path, image_size=20).image_shape == (1, 20, 20)
    assert load_dataset(tmp_path, image_size=(8, 30)).image_shape == (1, 8, 30)


def test_large_pictures_of_one_size_are_made_smaller_and_small_ones_kept(tmp_path):
    fill(tmp_path / "a", 2, size=(200, 150))
    fill(tmp_path / "b", 2, size=(200, 150))
    assert load_dataset(tmp_path).image_shape == (1, 64, 64)
    assert load_dataset(tmp_path, image_size=(150, 200)).image_shape == (1, 150, 200)


def break_some(folder):
    """Three bad files among the good: empty, no picture at all, cut off."""
    (folder / "empty.png").touch()
    (folder / "text.jpg").write_text("not a picture")
    whole = (folder / "0.png").read_bytes()
    (folder / "cut.png").write_bytes(whole[: len(whole) // 2])


def test_bad_files_are_listed_in_one_error(tmp_path):
    fill(tmp_path / "a")
    fill(tmp_path / "b")
    break_some(tmp_path / "b")
    with pytest.raises(ValueError, match="3 of 13 pictures are bad") as caught:
        load_dataset(tmp_path)
    for name, reason in (("empty.png", "is empty"), ("text.jpg", "is not one of PNG"), ("cut.png", "cannot be read")):
        assert f"{tmp_path / 'b' / name} {reason}" in str(caught.value)
    assert "skip_bad" in str(caught.value)


def test_skip_bad_goes_on_without_them_and_says_so(tmp_path):
    fill(tmp_path / "a")
    fill(tmp_path / "b")
    break_some(tmp_path / "b")
    loaded = load_dataset(tmp_path, skip_bad=True)
    assert len(loaded.train) + len(loaded.test) == 10
    assert loaded.notes[0].startswith("3 bad pictures left out:")
    assert "cut.png" in loaded.notes[0]


def test_skip_bad_does_not_hide_a_class_that_is_gone(tmp_path):
    for split in ("train", "test"):
        for name in "abc":
            fill(tmp_path / split / name, 2)
    for file in (tmp_path / "train" / "c").iterdir():
        file.write_bytes(b"")
    with pytest.raises(ValueError, match="train/ lacks c; every class needs readable pictures there"):
        load_dataset(tmp_path, skip_bad=True)


def test_only_bad_files_are_an_error_even_when_skipped(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.png").touch()
    with pytest.raises(ValueError, match="none of the 2 pictures can be read"):
        load_dataset(tmp_path, skip_bad=True)


def test_links_to_folders_are_followed_once_and_links_to_nothing_are_counted(tmp_path):
    fill(tmp_path / "elsewhere", 3)
    for name in "ab":
        fill(tmp_path / "data" / name, 2)
    (tmp_path / "data" / "b" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data" / "b" / "round").symlink_to(tmp_path / "data" / "b")
    (tmp_path / "data" / "b" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    loaded = load_dataset(tmp_path / "data")
    labels = torch.cat([loaded.train.labels, loaded.test.labels])
    assert labels.bincount().tolist() == [2, 5]
    assert "1 links in data/ lead to nothing and are left out" in loaded.notes


def test_pictures_of_a_foreign_kind_are_named(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "photo.HEIC").write_text("x")
    words = f"2 files in {tmp_path.name}/ are HEIC, which is not read; convert them to JPEG or PNG"
    with pytest.raises(ValueError, match=f"got none; {words}"):
        load_dataset(tmp_path)
    for name in "ab":
        fill(tmp_path / name, 2)
    assert words in load_dataset(tmp_path).notes


def test_other_and_hidden_files_are_left_out_quietly(tmp_path):
    for name in "ab":
        fill(tmp_path / name, 3)
        for other in (".DS_Store", "Thumbs.db", "README.txt", "._0.png"):
            (tmp_path / name / other).write_text("x")
    (tmp_path / ".git").mkdir()
    picture().save(tmp_path / "loose.png")
    loaded = load_dataset(tmp_path)
    assert loaded.class_names == ("a", "b")
    assert len(loaded.train) + len(loaded.test) == 6
    assert f"2 files in {tmp_path.name}/ are not pictures and are left out" in loaded.notes
    assert f"1 pictures in {tmp_path.name}/ are in no class folder and are left out" in loaded.notes


def test_pictures_deeper_in_a_class_folder_belong_to_it(tmp_path):
    fill(tmp_path / "a" / "monday", 2)
    fill(tmp_path / "a" / "tuesday", 2)
    fill(tmp_path / "b", 4)
    loaded = load_dataset(tmp_path)
    assert loaded.class_names == ("a", "b")
    assert len(loaded.train) + len(loaded.test) == 8


def test_train_and_test_may_be_written_in_other_ways(tmp_path):
    for split, count in (("Training", 3), ("TEST", 2)):
        for name in ("cat", "dog"):
            fill(tmp_path / split / name, count)
    loaded = load_dataset(tmp_path)
    assert loaded.class_names == ("cat", "dog")
    assert (len(loaded.train), len(loaded.test)) == (6, 4)


def test_a_class_may_be_called_train(tmp_path):
    fill(tmp_path / "train", 2)
    fill(tmp_path / "plane", 2)
    assert load_dataset(tmp_path).class_names == ("plane", "train")


def test_stray_pictures_beside_the_classes_do_not_make_train_and_test_classes(tmp_path):
    for split in ("train", "test"):
        for name in ("cat", "dog"):
            fill(tmp_path / split / name, 3)
        picture().save(tmp_path / split / "overview.png")
    loaded = load_dataset(tmp_path)
    assert loaded.class_names == ("cat", "dog")
    assert (len(loaded.train), len(loaded.test)) == (6, 6)
    assert "1 pictures in train/ are in no class folder and are left out" in loaded.notes
    # The vehicle, a few pictures of which are in a folder of their own.
    fill(tmp_path / "vehicles" / "train", 5)
    fill(tmp_path / "vehicles" / "train" / "steam", 2)
    fill(tmp_path / "vehicles" / "bus", 5)
    assert load_dataset(tmp_path / "vehicles").class_names == ("bus", "train")


def test_a_hidden_folder_of_pictures_is_left_out_and_said(tmp_path):
    for name in ("cat", "dog", "..dots..", ".git"):
        fill(tmp_path / name, 3)
    (tmp_path / ".git" / "0.png").unlink()
    loaded = load_dataset(tmp_path)
    assert loaded.class_names == ("cat", "dog")
    assert f"folder ..dots../ in {tmp_path.name}/ is hidden and is left out; rename it" in loaded.notes


def test_every_class_needs_training_pictures_but_not_test_pictures(tmp_path):
    for name in ("train/a", "train/b", "test/b"):
        fill(tmp_path / name, 1)
    loaded = load_dataset(tmp_path)
    assert loaded.class_names == ("a", "b")
    assert loaded.test.labels.tolist() == [1]
    assert "test/ has no pictures of a" in loaded.notes
    fill(tmp_path / "test" / "c", 1)
    with pytest.raises(ValueError, match="train/ lacks c; every class needs readable pictures"):
        load_dataset(tmp_path)


def test_train_without_test_names_the_remedy(tmp_path):
    fill(tmp_path / "train" / "a", 2)
    fill(tmp_path / "train" / "b", 2)
    (tmp_path / "val").mkdir()
    with pytest.raises(ValueError, match="has train/ with class folders but no such test/"):
        load_dataset(tmp_path)


@pytest.mark.parametrize("classes", [0, 1])
def test_fewer_than_two_classes_are_refused(tmp_path, classes):
    for number in range(classes):
        fill(tmp_path / f"class{number}", 3)
    with pytest.raises(ValueError, match="at least 2 class folders with pictures .* put the pictures of each class"):
        load_dataset(tmp_path)


def test_a_class_that_no_file_could_name_is_refused(tmp_path):
    fill(tmp_path / "tea", 2)
    coffee = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        fill(coffee, 2)
    except OSError:
        pytest.skip("this file system takes no such name")
    with pytest.raises(ValueError, match=r"class folder 'caf\\udce9' in .* is not UTF-8; rename it"):
        load_dataset(tmp_path)


def test_a_class_of_one_picture_is_refused(tmp_path):
    fill(tmp_path / "a", 3)
    fill(tmp_path / "b", 1)
    with pytest.raises(ValueError, match="at least 2 pictures of each class, got one of b"):
        load_dataset(tmp_path)


def test_an_empty_class_folder_is_left_out_and_said(tmp_path):
    fill(tmp_path / "a", 3)
    fill(tmp_path / "b", 3)
    (tmp_path / "c").mkdir()
    loaded = load_dataset(tmp_path)
    assert loaded.class_names == ("a", "b")
    assert f"folder c/ in {tmp_path.name}/ has no pictures and is left out" in loaded.notes


def test_a_picture_beyond_the_pixel_limit_is_refused_without_decoding(tmp_path):
    fill(tmp_path / "a", 2)
    fill(tmp_path / "b", 2)
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    chunk = b"IHDR" + header
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    (tmp_path / "b" / "bomb.png").write_bytes(bomb)
    with pytest.raises(ValueError, match="bomb.png"):
        load_dataset(tmp_path)


def test_another_kind_of_file_is_refused(tmp_path):
    (tmp_path / "data.zip").touch()
    with pytest.raises(ValueError, match="expected a folder of class folders or an .npz file, got .*data.zip"):
        load_dataset(tmp_path / "data.zip")


def test_pictures_are_decoded_together_only_up_to_so_many_pixels():
    allowance, at_work, most = Allowance(100), [], []

    def decode(pixels):
        with allowance.of(pixels):
            at_work.append(pixels)
            most.append(sum(at_work))
            time.sleep(0.01)
            at_work.remove(pixels)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(decode, [10, 60, 50, 40, 30, 1000] * 5))
    alone = [total for total in most if total >= 1000]
    assert max(total for total in most if total < 1000) <= 100
    assert set(alone) == {1000}  # too large for the limit, but alone
    assert allowance.left == 100


def test_many_pictures_of_another_shape_are_not_squeezed_silently(tmp_path):
    fill(tmp_path / "a", 8, size=(40, 40))
    fill(tmp_path / "b", 8, size=(40, 40))
    assert not any("shape" in note for note in load_dataset(tmp_path, image_size=20).notes)
    picture(size=(49, 40)).save(tmp_path / "b" / "nearly.png")
    picture(size=(60, 40)).save(tmp_path / "b" / "wide.png")
    assert not any("shape" in note for note in load_dataset(tmp_path, image_size=20).notes)  # one of 18
    picture(size=(20, 40)).save(tmp_path / "b" / "narrow.png")
    squeezed = "2 of 19 pictures have another shape than 20×20"
    assert (
        f"{squeezed} and are squeezed; keep their shape with --fit pad"
        in load_dataset(tmp_path, image_size=20).notes[0]
    )
    assert f"{squeezed}: their middle is taken (--fit crop)" in load_dataset(tmp_path, image_size=20, fit="crop").notes


@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_arrays_are_fitted_like_pictures(tmp_path, fit):
    """The same noise as files and as an array; both are brought to another size and shape."""
    smooth = [np.asarray(picture(seed, (6, 4)).resize((48, 32), Image.Resampling.BICUBIC)) for seed in range(4)]
    for number, pixels in enumerate(smooth):
        (tmp_path / "files" / str(number % 2)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "files" / str(number % 2) / f"{number}.png")
    np.savez(tmp_path / "array.npz", x_train=np.stack(smooth)[[0, 2, 1, 3]], y_train=[0, 0, 1, 1])
    files, array = (
        load_dataset(tmp_path / name, image_size=24, fit=fit, test_fraction=0.5) for name in ("files", "array.npz")
    )
    assert (files.train.images.int() - array.train.images.int()).abs().float().mean() < 3
