"""Whatever README and docs tell people to type works, in the order of the page, in an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if BLOCK.search(page.read_text())]
HITNET = f'set -e; hitnet() {{ "{sys.executable}" -m hitnet "$@"; }}\n'


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run_one_after_the_other(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    names: dict[str, object] = {}
    for language, text in BLOCK.findall(page.read_text()):
        if language == "python":
            exec(compile(text, page.name, "exec"), names)
        else:
            done = subprocess.run(
                ["bash", "-c", HITNET + text], capture_output=True, text=True, timeout=300, check=False
            )
            assert done.returncode == 0, done.stderr
