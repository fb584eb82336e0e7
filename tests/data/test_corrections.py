"""Corrections: as they were written, applied to the right image, refused with the line that is wrong."""

from pathlib import Path

import numpy as np
import pytest

from hitnet.data import load_dataset
from hitnet.data.corrections import Correction, correct, read_corrections, write_corrections

NASTY = [
    'a,b "c".png',
    "=1+1.png",
    "line\nbreak.png",
    "carriage\rreturn.png",
    "<script>.png",
    "not-utf8-\udcff.png",
    " spaces .png",
]


def test_corrections_come_back_as_they_were_written_whatever_the_names(tmp_path: Path):
    written = [Correction(name, "relabel", f"class {name}", "x") for name in NASTY] + [Correction("k", "keep")]
    write_corrections(tmp_path / "c.csv", written)
    read = read_corrections(tmp_path / "c.csv")
    assert [(each.path, each.action, each.label, each.given_label) for each in read] == [
        (each.path, each.action, each.label, each.given_label) for each in written
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected the columns path, action, label"),
        ("file,what\n", "line 1: expected the columns"),
        ("path,action,label\na,relable,b\n", "line 2: the action must be keep, relabel, leave out, got 'relable'"),
        ("path,action,label\na,keep,\nb,relabel,\n", "line 3: relabel needs the right class"),
        ("path,action,label\na,keep,b\n", "line 2: keep has no label, got 'b'"),
        ("path,action,label\n,keep,\n", "line 2: expected the name of a picture"),
        ("path,action,label\na,keep,\n\na,leave out,\n", "line 4: 'a' was in line 2 already"),
        ("path,action,label\na,keep,\nb,relabel,dog,puppy\n", "line 3: expected 3 cells, as the first line has, got 4"),
        ('path,action,label\n"a"b,keep,\n', "line 2: not a line of a CSV file"),
    ],
)
def test_a_line_that_is_no_correction_is_named(text: str, message: str, tmp_path: Path):
    (tmp_path / "c.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_corrections(tmp_path / "c.csv")


def test_a_file_written_by_a_spreadsheet_is_read(tmp_path: Path):
    (tmp_path / "c.csv").write_bytes(b"\xef\xbb\xbfpath,action,label,my notes\r\ntrain/1,Leave-Out,,?\r\n")
    assert read_corrections(tmp_path / "c.csv") == [Correction("train/1", "leave out", "", "", 2)]


def test_a_file_in_utf_16_is_named_as_such(tmp_path: Path):
    (tmp_path / "c.csv").write_text("path,action,label\ntrain/1,keep,\n", encoding="utf-16")
    with pytest.raises(ValueError, match="is UTF-16, expected UTF-8; save it as CSV UTF-8"):
        read_corrections(tmp_path / "c.csv")


def test_columns_of_the_user_are_kept(tmp_path: Path):
    (tmp_path / "c.csv").write_text("path,by,action,label,why\na,Ann,keep,,clear\nb,Bob,relabel,dog,ears\n")
    write_corrections(tmp_path / "c.csv", [*read_corrections(tmp_path / "c.csv"), Correction("c", "keep")])
    assert (tmp_path / "c.csv").read_text().splitlines() == [
        "path,action,label,given_label,by,why",
        "a,keep,,,Ann,clear",
        "b,relabel,dog,,Bob,ears",
        "c,keep,,,,",
    ]


@pytest.fixture
def data(tmp_path: Path):
    x = np.arange(12, dtype=np.uint8).repeat(16).reshape(12, 4, 4)
    np.savez(tmp_path / "x.npz", x_train=x, y_train=["cat", "dog"] * 6, x_test=x[:2], y_test=["cat", "dog"])
    return load_dataset(tmp_path / "x.npz")


def test_labels_are_corrected_and_images_left_out_and_everything_else_stays(data):
    changes = [
        Correction("train/0", "relabel", "dog"),
        Correction("train/3", "leave out"),
        Correction("test/1", "keep"),
    ]
    corrected = correct(data, changes, Path("c.csv"))
    assert corrected.train.labels.tolist() == [1, 1, 0, *data.train.labels.tolist()[4:]]
    assert corrected.train.images[:, 0, 0, 0].tolist() == [0, 1, 2, *range(4, 12)]
    assert corrected.test.labels.equal(data.test.labels)
    assert data.train.labels[0] == 0
    assert corrected.fingerprint != data.fingerprint
    assert "1 labels corrected and 1 pictures left out, as c.csv says" in corrected.notes


@pytest.mark.parametrize(
    ("correction", "message"),
    [
        (Correction("train/99", "keep", line=7), "c.csv, line 7: x has no picture 'train/99'"),
        (Correction("../train/0", "keep", line=2), "line 2: x has no picture"),
        (Correction("train/0", "relabel", "dgo", line=3), "line 3: there is no class 'dgo'; did you mean 'dog'"),
        (Correction("train/0", "keep", given_label="dog", line=4), "line 4: 'train/0' was 'dog' .* now 'cat'"),
    ],
)
def test_what_does_not_fit_the_data_is_refused_with_its_line(correction: Correction, message: str, data):
    with pytest.raises(ValueError, match=message):
        correct(data, [correction], Path("c.csv"))


def test_a_class_may_not_vanish(data):
    dogs = [Correction(f"train/{index}", "leave out") for index in range(1, 12, 2)]
    with pytest.raises(ValueError, match="leaves no training images of dog"):
        correct(data, dogs, Path("c.csv"))
