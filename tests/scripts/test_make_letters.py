"""scripts/make_letters.py, with the fonts that matplotlib brings."""

import runpy
import sys
from pathlib import Path

import pytest
from PIL import Image

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "make_letters.py"
LETTERS = runpy.run_path(str(SCRIPT))["LETTERS"]


def make(monkeypatch: pytest.MonkeyPatch, folder: Path, fonts: int) -> set[Path]:
    monkeypatch.setattr(sys, "argv", ["make_letters.py", str(folder), "--fonts", str(fonts), "--test-fonts", "2"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    return {path.relative_to(folder) for path in folder.rglob("*.png")}


def test_more_fonts_add_training_pictures_and_change_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = make(monkeypatch, tmp_path, 1)
    content = {path: (tmp_path / path).read_bytes() for path in before}
    after = make(monkeypatch, tmp_path, 2)
    assert {path.parts[:2] for path in before if path.parts[0] == "test"} == {("test", letter) for letter in LETTERS}
    assert len(before) == 3 * len(LETTERS)
    assert len(after) == 4 * len(LETTERS)
    assert before < after
    assert all(path.parts[0] == "train" for path in after - before)
    assert all((tmp_path / path).read_bytes() == content[path] for path in before)
    assert all(Image.open(tmp_path / path).getextrema()[1] == 255 for path in after)


def test_too_few_fonts_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        make(monkeypatch, tmp_path, 100_000)
    assert "install more, or use fewer" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
