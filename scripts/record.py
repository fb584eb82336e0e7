"""What the scripts share: tables in Markdown, means with their spread, and results as OUT.json and OUT.md."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from hitnet.files import write_json, write_text
from hitnet.runs.environment import describe_environment


def markdown(titles: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table whose first `left` columns are words; the others are numbers and stand on the right."""
    rules = ["---"] * left + ["---:"] * (len(titles) - left)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (titles, rules, *rows))


def mean(values: Sequence[float], digits: int) -> str:
    """The mean ± the standard deviation, if there are several values."""
    if not values:
        return "–"
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{spread}"


def machine(data: str) -> dict[str, Any]:
    """Where the numbers come from: versions, processor, commit, command; `data` says what was measured on."""
    return describe_environment(torch.device("cpu"), torch.float32, 1, {"data": data})


def write(out: Path, content: dict[str, Any], table: str) -> None:
    """OUT.json with everything, OUT.md with the table."""
    # Not with_suffix, which would replace what follows a dot in the name.
    write_json(out.with_name(f"{out.name}.json"), content)
    write_text(out.with_name(f"{out.name}.md"), table)
