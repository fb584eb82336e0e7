"""The tables: our results next to what the paper reports, as Markdown, CSV and LaTeX."""

import csv
import io
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hitnet.experiments import paper
from hitnet.experiments.outcome import ErrorTable, Failures, all_errors, begun, single_results, unfinished
from hitnet.experiments.protocol import CONSTANT, FALLING, FOUR, PAIRS, Grid, Protocol
from hitnet.experiments.significance import LEVEL, Errors, welch
from hitnet.files import write_text


@dataclass(frozen=True)
class Table:
    """Text for readers (`rows`), and the same as numbers for programs (`records`)."""

    name: str
    title: str
    headings: list[str]
    rows: list[list[str]]
    notes: list[str]
    records: list[dict[str, Any]]


TITLES = {
    "table1": "Test error on MNIST, %",
    "table2": "Test error of HitNet and CapsNet on five data sets, %",
    "table3": "Test error with and without Hit-or-Miss, %",
    "hybrid": "Test error with and without hybrid augmentation, %",
    "ablations": "What the paper leaves open: test error of HitNet on MNIST, %",
}
READING = "mean ± deviation between runs (number of runs)"
REPORTED = "in the next column, what the paper reports"
DERIVED = "derived: the paper gives the difference to plain training only"


def all_tables(protocol: Protocol, failures: Failures, requested: Collection[str]) -> list[Table]:
    """A table for every experiment requested now or before, if it has finished runs."""
    tables = []
    shown = {*requested, *begun(protocol)}
    for name, title in TITLES.items():
        grid = protocol.grid(name)
        errors = all_errors(grid)
        if name not in shown or not errors:
            continue
        notes = [*protocol.scale.notes, *unfinished(grid, failures)]
        table = grid_table(name, title, errors, grid, notes)
        tables.append(EXTRAS[name](table, errors, grid) if name in EXTRAS else table)
        if name == "table3" and pairs_of(errors):
            tables.append(decrease_table(errors, notes))
    return tables


def grid_table(name: str, title: str, errors: ErrorTable, grid: Grid, notes: list[str]) -> Table:
    """The rows and columns that are not empty, in the protocol's order."""
    reported = paper.REPORTED.get(name, {})
    columns = sorted({column for _, column in errors}, key=[column for _, column in grid].index)
    rows, records = [], []
    for row in dict.fromkeys(row for row, _ in errors):
        cells = [row]
        for column in columns:
            # The paper's rate is constant, but ours may always fall.
            theirs = reported.get((row, column)) or reported.get((row, column.replace(FALLING, CONSTANT)))
            ours = errors.get((row, column))
            cells += [str(ours or "–"), str(theirs or "–")] if reported else [str(ours or "–")]
            if ours is not None:
                records.append({"row": row, "column": column, **_numbers(ours), **_theirs(theirs)})
        rows.append(cells)
    notes = [f"{READING}; {REPORTED}" if reported else READING, *notes]
    if any("(derived)" in cell for cells in rows for cell in cells):
        notes.append(DERIVED)
    headings = [""] + [part for column in columns for part in ((column, "paper") if reported else (column,))]
    return Table(name, title, headings, rows, notes, records)


BEST = "best run on MNIST"


def with_best(table: Table, errors: ErrorTable, grid: Grid) -> Table:
    """Add the best single run of each network on MNIST, as the paper does."""
    for row in table.rows:
        # the errors of all runs of this network on MNIST
        runs = [
            error
            for (network, column), ours in errors.items()
            if network == row[0] and (column in (CONSTANT, FALLING) or column.startswith("MNIST,"))
            for error in ours.values
        ]
        row += [f"{min(runs):.2f}" if runs else "–", f"{paper.BEST[row[0]]:.2f}"]
        if runs:
            best = {"mean": min(runs), "runs": len(runs), "paper_mean": paper.BEST[row[0]]}
            table.records.append({"row": row[0], "column": BEST, **best})
    table.headings.extend([BEST, "paper"])
    return table


def with_quoted(table: Table, errors: ErrorTable, grid: Grid) -> Table:
    """Add the CapsNets of other authors, as the paper quotes them."""
    columns = table.headings[1::2]
    for name, quoted in paper.CAPSNETS.items():
        table.rows.append([name, *(part for column in columns for part in ("–", quoted.get(column, "–")))])
        table.records.extend(
            {"row": name, "column": column, "paper_mean": error}
            for column, error in quoted.items()
            if column in columns
        )
    return table


def against_default(table: Table, errors: ErrorTable, grid: Grid) -> Table:
    """Add the difference of each choice to the default one, and whether it is significant."""
    default = next(iter(grid))
    for row, record in zip(table.rows, table.records, strict=True):
        place = (row[0], "MNIST")
        same = grid[place].trials[0] == grid[default].trials[0]
        row.append("default" if same else _compared(errors[place], errors.get(default)))
        record["against_default"] = row[-1]
    table.headings.append("against the default")
    table.notes.append(
        "against the default: Welch's t test at 5 % in each direction, not corrected for the number of tests"
    )
    return table


def _compared(own: Errors, default: Errors | None) -> str:
    if default is None:
        return "–"
    p = welch(own, default)
    words = "not significant" if p is None or LEVEL <= p <= 1 - LEVEL else "better" if p < LEVEL else "worse"
    if own.deviation is None or default.deviation is None:
        words = "too few runs to tell"
    return f"{own.mean - default.mean:+.2f}, {words}".replace("-", "−")


EXTRAS: dict[str, Callable[[Table, ErrorTable, Grid], Table]] = {
    "table1": with_best,
    "hybrid": with_best,
    "table2": with_quoted,
    "ablations": against_default,
}


def decrease_table(errors: ErrorTable, notes: list[str]) -> Table:
    """How much Hit-or-Miss lowers each network's mean error and its deviation between runs."""
    records: list[dict[str, Any]] = []
    for (name, data), (before, after) in pairs_of(errors).items():
        spread = None
        if before.deviation and after.deviation is not None:
            spread = relative_decrease(before.deviation, after.deviation)
        mean = relative_decrease(before.mean, after.mean)
        theirs = paper.DECREASE[name][data]
        records.append({"row": name, "column": data, "error": mean, "deviation": spread, "paper": theirs})
    columns = [data for data in FOUR if any(record["column"] == data for record in records)]
    rows = []
    for name in dict.fromkeys(record["row"] for record in records):
        of_row = {record["column"]: record for record in records if record["row"] == name}
        cells = [name]
        for data in columns:
            own = of_row.get(data, {"error": None, "deviation": None})
            cells += [f"{_signed(own['error'])} / {_signed(own['deviation'])}", _signed(paper.DECREASE[name][data])]
        rows.append(cells)
    headings = ["", *(part for data in columns for part in (data, "paper"))]
    reading = (
        "relative decrease of the mean error / of the deviation between runs; in the next column, the paper's decrease "
        "of the error"
    )
    return Table("table3-decrease", "Relative decrease with Hit-or-Miss, %", headings, rows, [reading, *notes], records)


def pairs_of(errors: ErrorTable) -> dict[tuple[str, str], tuple[Errors, Errors]]:
    """(network, data set) -> errors without and with Hit-or-Miss, if there are both."""
    return {
        (name, data): (errors[without, data], errors[with_hom, data])
        for name, (without, with_hom) in ((name, tuple(pair.values())) for name, pair in PAIRS.items())
        for data in FOUR
        if (without, data) in errors and (with_hom, data) in errors
    }


def relative_decrease(before: float, after: float) -> float:
    """In %; negative where it grew."""
    return 100 * (before - after) / before


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}".replace("-", "−")


def _numbers(errors: Errors) -> dict[str, Any]:
    return {
        "mean": errors.mean,
        "deviation": errors.deviation,
        "runs": errors.count,
        "lowest": min(errors.values),
        "highest": max(errors.values),
    }


def _theirs(reported: paper.Reported | None) -> dict[str, Any]:
    return {f"paper_{name}": getattr(reported, name, None) for name in paper.Reported._fields}


# ---- as files


def write_tables(tables: Iterable[Table], folder: Path) -> None:
    """FOLDER/<name>.md, .csv and .tex."""
    for table in tables:
        write_text(folder / f"{table.name}.md", to_markdown(table))
        write_text(folder / f"{table.name}.csv", to_csv(table.records))
        write_text(folder / f"{table.name}.tex", to_latex(table))


def write_results(protocol: Protocol) -> Path:
    """OUT/results.csv: one line per finished run."""
    path = protocol.out / "results.csv"
    write_text(path, to_csv(single_results(protocol)))
    return path


def to_markdown(table: Table) -> str:
    lines = [f"**{table.title}**", "", _markdown_row(table.headings)]
    lines.append(_markdown_row(["---", *["---:"] * (len(table.headings) - 1)]))
    lines += [_markdown_row(row) for row in table.rows]
    return "\n".join([*lines, "", *(f"- {note}" for note in table.notes)]) + "\n"


def _markdown_row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def to_csv(records: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    if records:
        writer = csv.DictWriter(text, fieldnames=list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    return text.getvalue()


def to_latex(table: Table) -> str:
    """A tabular with the rules of booktabs."""
    columns = "l" + "r" * (len(table.headings) - 1)
    lines = [
        f"% {table.title}",
        *(f"% {note}" for note in table.notes),
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
    ]
    lines += [_latex_row(table.headings), "\\midrule", *(_latex_row(row) for row in table.rows)]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


LATEX = {"%": "\\%", "&": "\\&", "_": "\\_", "–": "--", "−": "$-$"}
LATEX |= {"±": "$\\pm$", "→": "$\\to$", "×": "$\\times$", "≥": "$\\geq$"}


def _latex_row(cells: list[str]) -> str:
    return " & ".join("".join(LATEX.get(letter, letter) for letter in cell) for cell in cells) + " \\\\"
