"""Whatever README and docs tell people to type works, in the order of the page; and the pages make a site."""

import re
import shlex
import subprocess
import sys
from functools import wraps
from pathlib import Path

import pytest

import hitnet
from hitnet import cli
from hitnet.training import finishing

ROOT = Path(__file__).parent.parent
# Their examples need something, and are run by the tests of that.
ELSEWHERE = {"export.md", "hub.md", "pytorch.md"}
PAGES = ["README.md", *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md")))]
RUN_HERE = [
    page for page in PAGES if "```sh\n" in (ROOT / page).read_text() or "```python\n" in (ROOT / page).read_text()
]
# Those that take too long are indented, perhaps over several lines.
SHOWN = re.compile(r"^ {4}(?:torchrun .* -m )?(hitnet (?:.*\\\n)*.*)$", re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in RUN_HERE if Path(page).name not in ELSEWHERE])
def test_the_examples_of_a_page_run_one_after_the_other(
    page: str, folder_of_pictures: Path, run_examples, monkeypatch: pytest.MonkeyPatch
):
    # On so few images the finishing phase has its least length; here it is just long enough for the critic to join in.
    monkeypatch.setattr(finishing, "FEWEST_STEPS", finishing.CRITIC_FROM + 5)
    monkeypatch.setattr("hitnet.defaults.USUAL_STEPS", 40)
    if page == "docs/index.md":  # begins with a whole minute of training
        small = {"width": 4, "capsule_dim": 4, "epochs": 1, "train_images": 500}
        hitnet.train(hitnet.TrainConfig(out=folder_of_pictures / "runs", **small))
    run_examples(page, folder_of_pictures)


@pytest.mark.parametrize("page", [page for page in PAGES if SHOWN.search((ROOT / page).read_text())])
def test_a_command_that_is_only_shown_has_a_verb_and_options_that_are_there(page: str, monkeypatch: pytest.MonkeyPatch):
    called: list[str] = []
    for name, verb in cli.VERBS.items():
        # The real verb's arguments, and nothing done with them.
        monkeypatch.setitem(cli.VERBS, name, wraps(verb)(lambda *_, name=name, **__: called.append(name)))
    shown = SHOWN.findall((ROOT / page).read_text())
    commands = [shlex.split(command.replace("\\\n", ""), comments=True) for command in shown]
    for command in commands:
        monkeypatch.setattr(sys, "argv", command)
        cli.main()
    assert called == [command[1] for command in commands]


def test_the_pages_make_a_site_without_a_warning(tmp_path: Path):
    # Not --quiet: mkdocs would then not count warnings.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").is_file()


def test_the_tables_of_the_results_are_those_that_the_commands_wrote():
    pages = [page.read_text() for page in (ROOT / "docs" / "results").glob("*.md")]
    written = sorted((ROOT / "results").rglob("*.md"))
    assert len(written) > 10
    for file in written:
        table = "\n".join(line for line in file.read_text().splitlines() if line.startswith("|"))
        assert any(f"\n\n{table}\n\n" in page for page in pages), f"no page has the table of {file}"
