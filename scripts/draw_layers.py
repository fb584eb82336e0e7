"""The architecture as one picture, from the real imports: which part of the package imports from which.

    python scripts/draw_layers.py [--out docs/images/architecture.svg]

The layers come from import-linter's first contract in pyproject.toml, the purpose of a part is the first sentence of
its docstring, and the numbers count its imports. The same code gives the same file.
"""

import argparse
import ast
import textwrap
from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path

import grimp
from importlinter.api import read_configuration

from hitnet.files import write_text

ROOT = Path(__file__).resolve().parent.parent
# In pixels: where things begin, the height of a box, the space between two layers.
WIDTH, LEFT, PURPOSE, USES, TOP, ROW, GAP = 1000, 52, 178, 584, 92, 50, 9
LETTERS = 54  # of a purpose on one line
LETTER, PADDING = 6.4, 8  # pixels: how wide a letter of a chip is, and the space beside its words

# The words on the left, and the last part that each of them covers.
GROUPS = {"front ends": "estimator", "the library": "core", "foundation": "pictures"}
# Parts of one colour; those not named here have the first.
COLOURS = (
    *((), ("runs",), ("training",), ("interpret",), ("data",), ("core",)),
    ("settings", "errors", "files", "pictures"),
)

STYLE = """
  svg { --page: #ffffff; --ink: #1b2230; --soft: #556075; --line: #c9d0dc;
    --c0: #dbe7fb; --c1: #d3eeda; --c2: #d2edee; --c3: #fce7c8; --c4: #fadce2; --c5: #e6dcf8; --c6: #e7e9ee }
  @media (prefers-color-scheme: dark) {
    svg { --page: #11151d; --ink: #e9edf5; --soft: #a5afc1; --line: #3b4557;
      --c0: #1f3358; --c1: #1a4229; --c2: #164346; --c3: #4c3717; --c4: #502431; --c5: #392a5a; --c6: #303542 }
  }
  text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--ink) }
  .title { font-size: 18px; font-weight: 600 }
  .name { font-size: 14px; font-weight: 600 }
  .soft { font-size: 12px; fill: var(--soft) }
  .chip { font-size: 12px; text-anchor: middle }
  .count { font-weight: 600 }
  .group { font-size: 13px; fill: var(--soft); text-anchor: middle }
  .page { fill: var(--page) }
  .line { stroke: var(--line); stroke-width: 2; fill: none }
""" + "".join(f"  .c{number} {{ fill: var(--c{number}) }}\n" for number in range(len(COLOURS)))


def read_layers() -> list[list[str]]:
    """The parts of the package as import-linter lists them, the top layer first."""
    contract = read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"][0]
    return [[part.strip(" ()") for part in layer.replace("|", ":").split(":")] for layer in contract["layers"]]


def count_imports() -> Counter[tuple[str, str]]:
    """(part, other part) -> how many imports lead from files of the one to files of the other, at run time."""
    graph = grimp.build_graph("hitnet", exclude_type_checking_imports=True, cache_dir=None)
    counts: Counter[tuple[str, str]] = Counter()
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            # hitnet/__init__.py is left out: it is not a layer.
            if "." in importer and "." in imported:
                counts[importer.split(".")[1], imported.split(".")[1]] += 1
    return counts


def describe(part: str) -> tuple[str, str, int]:
    """(name on disk, purpose, number of Python files)."""
    place = ROOT / "hitnet" / part
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    name, source = (f"{part}/", place / "__init__.py") if place.is_dir() else (f"{part}.py", files[0])
    words = " ".join((ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "").split())
    return name, words.partition(". ")[0].rstrip("."), len(files)


def draw() -> str:
    """The picture as SVG."""
    imports = count_imports()
    tops: dict[str, int] = {}
    y = TOP
    for layer in read_layers():
        # Within a layer, a part that imports from its neighbours stands above them.
        above = [part for part in layer if any(imports[part, other] for other in layer if other != part)]
        for part in (*above, *(part for part in layer if part not in above)):
            tops[part], y = y, y + ROW
        y += GAP
    height = y + 30
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            "<title>The parts of the package hitnet, and which other parts each of them imports from</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="page" width="{WIDTH}" height="{height}" rx="10"/>',
            _text(LEFT, 40, "hitnet, layer by layer", "title"),
            _text(LEFT, 64, "A box imports only from boxes below it. Boxes that touch form one layer.", "soft"),
            _text(USES, 40, "imports from", "title"),
            _text(USES, 64, "the number of imports, file to file, in the colour of their box", "soft"),
            *_groups(tops),
            *(piece for part, top in tops.items() for piece in _box(part, top)),
            *(piece for part, top in tops.items() for piece in _uses(part, top, tops, imports)),
            _text(LEFT, height - 18, "Drawn from the code by scripts/draw_layers.py", "soft"),
            "</svg>\n",
        ]
    )


def _groups(tops: dict[str, int]) -> Iterator[str]:
    first = TOP
    for words, last in GROUPS.items():
        end = tops[last] + ROW
        middle = (first + end) // 2
        yield f'<path class="line" d="M38 {first} V{end}"/>'
        yield f'<text class="group" transform="translate(27 {middle}) rotate(-90)">{words}</text>'
        first = end + GAP


def _box(part: str, top: int) -> Iterator[str]:
    name, purpose, files = describe(part)
    lines = textwrap.wrap(purpose, LETTERS)
    if len(lines) > 2:
        lines = [lines[0], textwrap.shorten(" ".join(lines[1:]), LETTERS, placeholder=" …")]
    middle = top + ROW // 2
    box = f'x="{LEFT}" y="{top + 1}" width="{USES - LEFT - 20}" height="{ROW - 2}" rx="5"'
    yield f'<rect class="{_colour(part)}" {box}/>'
    yield _text(LEFT + 12, middle - 2 if files > 1 else middle + 5, name, "name")
    if files > 1:
        yield _text(LEFT + 12, middle + 15, f"{files} files", "soft")
    for number, line in enumerate(lines):
        yield _text(PURPOSE, middle + 5 - 8 * (len(lines) - 1) + 16 * number, line, "purpose")


def _uses(part: str, top: int, tops: dict[str, int], imports: Counter[tuple[str, str]]) -> Iterator[str]:
    """A chip for each other part that this one imports from, in the order of the layers."""
    lines: list[list[tuple[str, int]]] = [[]]
    x = USES
    for other in tops:
        if other == part or not imports[part, other]:
            continue
        width = round(LETTER * len(f"{other} {imports[part, other]}")) + 2 * PADDING
        if x + width > WIDTH - 12:
            lines.append([])
            x = USES
        lines[-1].append((other, width))
        x += width + 5
    for number, line in enumerate(lines):
        x, middle = USES, top + ROW // 2 + 24 * number - 12 * (len(lines) - 1)
        for other, width in line:
            box = f'x="{x}" y="{middle - 11}" width="{width}" height="22" rx="11"'
            words = f'{other} <tspan class="count">{imports[part, other]}</tspan>'
            yield f'<rect class="{_colour(other)}" {box}/>'
            yield f'<text class="chip" x="{x + width / 2:g}" y="{middle + 4}">{words}</text>'
            x += width + 5


def _colour(part: str) -> str:
    return f"c{next((number for number, parts in enumerate(COLOURS) if part in parts), 0)}"


def _text(x: int, y: int, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(words, quote=False)}</text>'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "architecture.svg")
    args = parser.parse_args()
    write_text(args.out, draw())
    print(f"written to {args.out}")


if __name__ == "__main__":
    main()
