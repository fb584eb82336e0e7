"""Everything on one page: report.html embeds its pictures and fetches nothing."""

import base64
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path

from hitnet.experiments.outcome import single_results
from hitnet.experiments.protocol import Protocol
from hitnet.experiments.tables import Table
from hitnet.runs.run import Run

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE = """
:root { color-scheme: light dark; --ink: #1b2430; --quiet: #5b6470; --paper: #ffffff; --line: #d8dde3; --band: #f4f6f8;
  --good: #1f7a43; --bad: #b3402a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ed; --quiet: #9aa4b0; --paper: #14181d; --line: #323a44; --band: #1c2229; --good: #63c587;
    --bad: #f08a72; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 78rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
p, li, figcaption { color: var(--quiet); } ul { padding-left: 1.2rem; margin: .6rem 0; font-size: .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .5rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
.words td:first-child { white-space: normal; min-width: 14rem; }
tbody tr:hover { background: var(--band); }
.holds { color: var(--good); font-weight: 600; } .does-not-hold { color: var(--bad); font-weight: 600; }
ul, figure, .words { max-width: 64rem; }
figure { margin: 1.2rem 0; } figure img { max-width: 100%; background: white; border-radius: 6px; padding: .4rem;
  border: 1px solid var(--line); }
figcaption { font-size: .9rem; margin-bottom: .3rem; }
"""


def report(
    protocol: Protocol, tables: Sequence[Table], pictures: Sequence[tuple[str, Path]], problems: Sequence[str]
) -> str:
    """The report as HTML: machines and notes, what failed, the claims, the tables, the pictures."""
    body = [f"<h1>HitNet: the paper’s experiments, scale {escape(protocol.scale.name)}</h1>"]
    of_all = [*_machines(protocol), *protocol.scale.notes, *problems]
    body.append(_notes(of_all))
    body += [_table(table, [note for note in table.notes if note not in of_all]) for table in tables]
    if pictures:
        body.append("<h2>Figures</h2>")
    body += [_figure(caption, path) for caption, path in pictures]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>HitNet: {escape(protocol.scale.name)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _machines(protocol: Protocol) -> list[str]:
    """The machines of the finished runs, as their env.json says."""
    machines: Counter[str] = Counter()
    for record in single_results(protocol):
        env = Run(protocol.out / str(record["run"])).read_environment()
        machines[f"{env['processor']}, {env['cores']} cores, {env['device']}; torch {env['torch']}"] += 1
    return [f"{count} runs on {words}" for words, count in machines.items()]


def _notes(notes: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>"


def _table(table: Table, notes: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in table.headings)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    kind = ' class="words"' if table.name == "claims" else ""
    return (
        f'<h2 id="{table.name}">{escape(table.title)}</h2>\n<div class="wide"><table{kind}>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody>\n</table></div>\n{_notes(notes)}"
    )


def _cell(text: str) -> str:
    kind = f' class="{text.replace(" ", "-")}"' if text in ("holds", "does not hold") else ""
    return f"<td{kind}>{escape(text)}</td>"


def _figure(caption: str, path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    words = escape(caption, quote=True)
    return f'<figure><figcaption>{words}</figcaption><img alt="{words}" src="data:image/png;base64,{data}"></figure>'
