"""Files that are either wholly there or not at all."""

import errno
import os
from pathlib import Path

import pytest

from hitnet import files
from hitnet.files import read_json, remove_leftovers, write_bytes, write_json


def test_a_file_is_written_with_the_folders_above_it(tmp_path: Path):
    write_bytes(tmp_path / "a" / "b" / "file", b"content")
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"content"
    assert os.listdir(tmp_path / "a" / "b") == ["file"]


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path: Path):
    write_bytes(tmp_path / ("я" * 127), b"content")
    assert (tmp_path / ("я" * 127)).read_bytes() == b"content"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_former_file_and_nothing_else(step: str, tmp_path: Path, monkeypatch):
    write_bytes(tmp_path / "file", b"former")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, step, full)
    with pytest.raises(OSError, match=r"cannot write .*file \(No space left on device\); make room"):
        write_bytes(tmp_path / "file", b"newer and longer")
    assert (tmp_path / "file").read_bytes() == b"former"
    assert os.listdir(tmp_path) == ["file"]


def test_an_interrupted_write_leaves_the_former_file_and_nothing_else(tmp_path: Path, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    write_bytes(tmp_path / "file", b"former")
    monkeypatch.setattr(files.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(tmp_path / "file", b"newer")
    assert (tmp_path / "file").read_bytes() == b"former"
    assert os.listdir(tmp_path) == ["file"]


def test_a_path_below_a_file_is_refused_by_name(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match=r"cannot write .*file/below/this .*Not a directory"):
        write_bytes(tmp_path / "file" / "below" / "this", b"")


def test_the_rights_of_a_new_file_follow_the_umask(tmp_path: Path):
    before = os.umask(0o077)
    try:
        write_bytes(tmp_path / "private", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600


def test_only_what_a_killed_write_left_is_removed(tmp_path: Path):
    (tmp_path / "deeper").mkdir()
    for name in (
        "model.safetensors",
        ".hidden",
        "notes.part",
        "deeper/.state.01234567.part",
        ".args.json.89abcdef.part",
    ):
        (tmp_path / name).write_bytes(b"")
    remove_leftovers(tmp_path)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"model.safetensors", ".hidden", "notes.part"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not valid JSON"),
        (b'{"a": 1', "is not valid JSON"),
        (b"\xff\xfe", "is not valid JSON"),
        (b"[" * 100_000, "is not valid JSON"),
        (b"3", "must hold a JSON object, got int"),
    ],
)
def test_damaged_json_is_refused_with_the_name_of_the_file(content: bytes, message: str, tmp_path: Path):
    (tmp_path / "some.json").write_bytes(content)
    with pytest.raises(ValueError, match=f"some.json {message}"):
        read_json(tmp_path / "some.json")


def test_a_file_name_that_is_not_utf_8_comes_back_from_json(tmp_path: Path):
    content = {"file": os.fsdecode(b"caf\xe9.png"), "note": "grüße"}
    write_json(tmp_path / "card.json", content)
    assert "grüße" in (tmp_path / "card.json").read_text("utf-8")
    assert read_json(tmp_path / "card.json") == content
