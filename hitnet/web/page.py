"""The explorer as one file: prototypes and sliders with the decoder inside, for papers and talks."""

import base64
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from hitnet.runs.exemplars import keeps_exemplars, read_exemplars
from hitnet.runs.run import Run
from hitnet.web.bundle import pack_decoder, pack_exemplars, pack_ways
from hitnet.web.evolution import pack_evolution
from hitnet.web.explorer import describe_run_and_model
from hitnet.web.names import ComponentNames

# Dependencies first. Joined, they share one scope, so their top-level names must differ.
MODULES = (
    *("geometry.js", "decoder.js", "picture.js", "dom.js", "address.js", "terms.js", "rings.js", "idea.js", "real.js"),
    *("gallery.js", "hero.js", "rows.js", "deform.js", "standalone.js"),
)
# Nothing can be fetched, even if a class or component name contains HTML.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def static_page(path: Path, exemplars: bool = True) -> str:
    """The whole page of a run as HTML that needs no server, with its real pictures if it has any."""
    run = Run.open(path)
    model = run.load_model()
    weights = base64.b64encode(pack_decoder(model)).decode()
    names = ComponentNames(run, model.head.num_classes, model.head.capsule_dim)
    kept = None
    if exemplars and keeps_exemplars(run, model) and run.exemplars_file.is_file():
        kept = read_exemplars(run, model)
    described = describe_run_and_model(run, model, names) | {"ways": pack_ways(model, kept)}
    real = None if kept is None else pack_exemplars(kept)
    page = re.sub(r"[ ]*<!-- served -->.*?<!-- /served -->\n", "", _static("index.html"), flags=re.DOTALL)
    parts = {
        '<meta charset="utf-8">\n': f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n',
        '<link rel="stylesheet" href="/static/style.css">': f"<style>\n{_static('style.css')}</style>",
        '<script type="module" src="/static/app.js"></script>': (
            f'<script type="application/json" id="model">{_inside_script(described)}</script>\n'
            f'<script type="application/json" id="exemplars">{_inside_script(real)}</script>\n'
            f'<script type="application/json" id="evolution">{_inside_script(pack_evolution(run, model))}</script>\n'
            f'<script type="text/plain" id="weights">{weights}</script>\n'
            f'<script type="module">\n{_joined()}</script>'
        ),
    }
    for place, content in parts.items():
        before, separator, after = page.partition(place)
        assert separator, f"index.html lacks {place}"
        page = before + (separator if place.startswith("<meta") else "") + content + after
    return page


def _joined() -> str:
    """All modules as one script, without imports and exports."""
    text = "\n".join(_static(name) for name in MODULES)
    return re.sub(r"^export ", "", re.sub(r"^import .*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)


def _static(name: str) -> str:
    return files("hitnet.web").joinpath("static").joinpath(name).read_text(encoding="utf-8")


def _inside_script(content: Any) -> str:
    """JSON that cannot close the script element around it."""
    return json.dumps(content, ensure_ascii=False).replace("<", "\\u003c")
