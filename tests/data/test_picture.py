"""Single pictures, converted to what a model wants."""

import io
import os
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from hitnet.data import read_image
from hitnet.pictures import MOST_SCANS, decode, picture_size


def saved(image: Image.Image, format: str = "PNG", **options) -> io.BytesIO:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file


def test_a_fitting_picture_comes_unchanged_and_without_a_note(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (28, 28), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "digit.png")
    image, note = read_image(tmp_path / "digit.png", (1, 28, 28))
    assert np.array_equal(image[0], pixels)
    assert note is None


def test_a_tiff_is_read_and_a_foreign_format_is_named(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (28, 28), dtype=np.uint8)
    for options in ({}, {"compression": "tiff_lzw"}):
        image, _ = read_image(saved(Image.fromarray(pixels), "TIFF", **options), (1, 28, 28))
        assert np.array_equal(image[0], pixels)
    deep = Image.fromarray(pixels.astype(np.uint16) * 257)
    assert np.array_equal(read_image(saved(deep, "TIFF"), (1, 28, 28))[0][0], pixels)
    (tmp_path / "photo.heic").write_bytes(b"\0\0\0\x18ftypheic")
    with pytest.raises(ValueError, match=r"photo\.heic is HEIC, which is not read; convert it to JPEG or PNG"):
        read_image(tmp_path / "photo.heic", (1, 28, 28))


def test_the_note_says_what_was_converted():
    photo = Image.new("RGB", (640, 480), (255, 0, 0))
    image, note = read_image(saved(photo, "JPEG"), (1, 28, 28))
    assert note == "28×28 from 640×480, grey from colour"
    assert image.shape == (1, 28, 28)
    assert abs(int(image[0, 14, 14]) - 76) <= 2  # the luma of red, 0.299 · 255
    image, note = read_image(saved(Image.new("L", (28, 28), 9)), (3, 28, 28))
    assert note == "colour from grey"
    assert image.shape == (3, 28, 28)
    assert set(image.flatten().tolist()) == {9}


def test_sixteen_bits_are_scaled_not_clipped():
    deep = np.array([[0, 257, 32768, 65535]], np.uint16)
    assert np.asarray(decode(saved(Image.fromarray(deep)))).tolist() == [[0, 1, 128, 255]]


def test_32_bits_are_scaled_from_their_range():
    for limit in (255, 65535):
        deep = (np.array([[0, 0.25, 0.5, 1]]) * limit).round().astype(np.int32)
        assert np.asarray(decode(saved(Image.fromarray(deep), "TIFF"))).tolist() == [[0, 64, 128, 255]]


def test_floats_are_scaled_from_their_range():
    for limit in (1, 255):
        floats = np.array([[0, 0.25, 0.5, 1]], np.float32) * limit
        assert np.asarray(decode(saved(Image.fromarray(floats), "TIFF"))).tolist() == [[0, 64, 128, 255]]


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (np.array([[0, 4095]], np.float32), "expected floats from 0 to 1 or to 255, got 0.0 to 4095.0; save it with 8"),
        (np.array([[-0.5, 1]], np.float32), "expected floats"),
        (np.array([[0, np.nan]], np.float32), "expected floats"),
        (np.array([[0, np.inf]], np.float32), "expected floats"),
        (np.array([[0, 2**30]], np.int32), "expected numbers from 0 to 65535, got 0 to 1073741824"),
    ],
)
def test_a_range_that_nobody_knows_is_refused(pixels, message):
    with pytest.raises(ValueError, match=message):
        decode(saved(Image.fromarray(pixels), "TIFF"))


def test_transparency_is_laid_on_white():
    image = Image.new("RGBA", (3, 1), (0, 0, 0, 0))
    image.putpixel((1, 0), (0, 0, 0, 255))
    image.putpixel((2, 0), (255, 0, 0, 255))
    assert np.asarray(decode(saved(image))).tolist() == [[[255, 255, 255], [0, 0, 0], [255, 0, 0]]]
    assert np.asarray(decode(saved(Image.new("LA", (2, 1), (0, 128))))).tolist() == [[127, 127]]


def test_palettes_with_and_without_transparency():
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((1, 0), 1)
    assert np.asarray(decode(saved(image))).tolist() == [[[10, 20, 30], [200, 100, 50]]]
    transparent = saved(image, transparency=bytes([0, 255]))
    assert np.asarray(decode(transparent)).tolist() == [[[255, 255, 255], [200, 100, 50]]]


def test_black_and_white_and_cmyk():
    assert np.asarray(decode(saved(Image.new("1", (2, 1), 1)))).tolist() == [[255, 255]]
    assert decode(saved(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG")).mode == "RGB"


def test_an_animation_gives_its_first_frame():
    frames = [Image.new("L", (4, 4), value) for value in (50, 200)]
    for format in ("GIF", "PNG"):
        file = saved(frames[0], format, save_all=True, append_images=frames[1:])
        assert set(np.asarray(decode(file)).ravel().tolist()) == {50}


def test_the_exif_orientation_is_applied():
    image = Image.new("L", (16, 8), 0)
    image.paste(255, (0, 0, 8, 8))  # the left half is white
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter clockwise: left becomes up
    file = saved(image, "PNG", exif=exif)
    assert picture_size(file) == (16, 8)
    upright = np.asarray(decode(file))
    assert upright.shape == (16, 8)
    assert upright[:8].min() == 255
    assert upright[8:].max() == 0
    assert read_image(file, (1, 16, 8))[1] is None


def test_a_large_jpeg_shrinks_to_the_average_of_its_parts():
    image = Image.new("RGB", (1200, 800), (0, 0, 200))
    image.paste((200, 0, 0), (0, 0, 600, 800))
    small = np.asarray(decode(saved(image, "JPEG", quality=95), (8, 12))).astype(int)
    assert small.shape == (8, 12, 3)
    assert abs(small[:, :5] - [200, 0, 0]).max() <= 3
    assert abs(small[:, 7:] - [0, 0, 200]).max() <= 3


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"", "is empty"), (b"hello", "is not one of PNG, JPEG"), (b"\x89PNG\r\n\x1a\n\x00", "x.png")],
)
def test_an_unreadable_file_is_refused_in_clear_words(tmp_path, content, complaint):
    path = tmp_path / "x.png"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=complaint):
        read_image(path, (1, 28, 28))
    with pytest.raises(ValueError, match="the picture"):
        read_image(io.BytesIO(content), (1, 28, 28))


def test_a_missing_file_a_folder_and_odd_channels_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.png does not exist"):
        read_image(tmp_path / "nowhere.png", (1, 28, 28))
    with pytest.raises(ValueError, match="cannot be read as a picture"):
        read_image(tmp_path, (1, 28, 28))
    with pytest.raises(ValueError, match="1 or 3 channels, the model expects 2"):
        read_image(saved(Image.new("L", (4, 4))), (2, 28, 28))


def test_the_pixel_limit_of_pil_is_respected(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(ValueError, match="the picture cannot be read"):
        read_image(saved(Image.new("L", (11, 10))), (1, 28, 28))


def test_a_large_picture_of_sixteen_bits_takes_little_more_memory_than_its_pixels():
    file = saved(Image.fromarray(np.full((3000, 3000), 514, np.uint16)))
    tracemalloc.start()
    assert set(np.unique(decode(file))) == {2}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * 3000 * 3000


@pytest.mark.parametrize("scans", [MOST_SCANS - 10, MOST_SCANS - 9])
def test_a_jpeg_may_have_a_hundred_scans_and_no_more(tmp_path, scans):
    whole = saved(Image.new("RGB", (40, 30), "teal"), "JPEG", progressive=True).getvalue()
    assert whole.count(b"\xff\xda") == 10
    again = scans * whole[whole.rindex(b"\xff\xda") : -2]
    (tmp_path / "again.jpg").write_bytes(whole[:-2] + again + whole[-2:])
    if scans + 10 > MOST_SCANS:
        with pytest.raises(ValueError, match=r"again.jpg cannot be read as a picture: 101 scans are more than the 100"):
            decode(tmp_path / "again.jpg")
    else:
        assert decode(tmp_path / "again.jpg").size == (40, 30)


def test_a_pipe_or_device_in_place_of_a_picture_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "endless.png").symlink_to("/dev/zero")
    for name in ("pipe.png", "endless.png"):
        with pytest.raises(ValueError, match=f"{name} cannot be read as a picture: it is not a file"):
            read_image(tmp_path / name, (1, 28, 28))
    Image.new("L", (28, 28)).save(tmp_path / "real.png")
    (tmp_path / "link.png").symlink_to("real.png")
    assert read_image(tmp_path / "link.png", (1, 28, 28))[1] is None


def bands(width: int, height: int) -> Image.Image:
    """Red, green and blue, side by side along the longer side."""
    pixels = np.zeros((height, width, 3), np.uint8)
    for band, part in enumerate(np.array_split(pixels, 3, axis=int(width > height))):
        part[..., band] = 255
    return Image.fromarray(pixels)


@pytest.mark.parametrize(("width", "height"), [(90, 30), (30, 90)])
def test_a_picture_of_another_shape_is_stretched_cropped_or_padded(width, height):
    file = saved(bands(width, height))
    wide = width > height
    stretched, cropped, padded = (np.asarray(decode(file, (30, 30), fit)) for fit in ("stretch", "crop", "pad"))
    along = (lambda pixels: pixels[15, [1, 15, 28]]) if wide else (lambda pixels: pixels[[1, 15, 28], 15])
    primary = [[255, 0, 0], [0, 255, 0], [0, 0, 255]]
    assert along(stretched).tolist() == along(padded).tolist() == primary
    assert (cropped == [0, 255, 0]).all()  # the middle third
    # Padded: the picture in the middle, 30×10, its edge repeated to both sides.
    turned = padded if wide else padded.transpose(1, 0, 2)
    assert (turned == turned[15]).all()
    assert read_image(file, (3, 30, 30), "pad")[1] == f"30×30 from {width}×{height}, padded"
    assert read_image(file, (3, 30, 30), "crop")[1] == f"30×30 from {width}×{height}, cropped"
    assert read_image(saved(bands(60, 60)), (3, 30, 30), "crop")[1] == "30×30 from 60×60"


@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("size", [(1000, 1), (1, 1000), (1, 1), (7, 500)])
def test_any_shape_fits(fit, size):
    assert decode(saved(Image.new("RGB", size, "red")), (28, 20), fit).size == (20, 28)


def test_padding_and_turning_and_transparency_go_together():
    """Turned upright first, transparent pixels on white, then padded."""
    exif = Image.Exif()
    exif[0x0112] = 6  # stored on its side
    image = Image.new("RGBA", (40, 20), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (10, 5, 30, 15))
    pixels = np.asarray(decode(saved(image, exif=exif), (40, 40), "pad"))
    assert pixels[20, 20] == 0
    assert (pixels[:, [0, 8, 31, 39]] == 255).all()
    assert pixels[:, 20].tolist().count(0) == pytest.approx(20, abs=1)
