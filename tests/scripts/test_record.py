"""scripts/record.py: what the scripts share."""

from pathlib import Path

from record import write


def test_results_whose_names_differ_after_a_dot_go_to_different_files(tmp_path: Path):
    for momentum in ("0.1", "0.2"):
        write(tmp_path / f"momentum-{momentum}", {"momentum": momentum}, f"| {momentum} |\n")
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        f"momentum-0.{digit}.{kind}" for digit in (1, 2) for kind in ("json", "md")
    ]
    assert (tmp_path / "momentum-0.1.md").read_text() == "| 0.1 |\n"
