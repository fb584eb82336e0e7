"""A run in a form that others can use without HitNet."""

from pathlib import Path

from hitnet.files import write_text


def export_html(run: Path, out: Path | None = None) -> Path:
    """One self-contained page with the run's prototypes and sliders: RUN/explorer.html if no other place is given."""
    from hitnet.web.page import static_page

    out = run / "explorer.html" if out is None else out
    write_text(out, static_page(run))
    return out
