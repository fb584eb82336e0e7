"""The prototypes of a run through its epochs, from the snapshots that it kept."""

import base64
from typing import Any

from hitnet.core.model import Model
from hitnet.data import to_bytes
from hitnet.runs.run import Run
from hitnet.web.records import number, text

MOST_BYTES = 4_000_000  # of all pictures; of a longer film every second epoch is shown, or every third, and so on


def pack_evolution(run: Run, model: Model) -> dict[str, Any] | None:
    """Prototypes of all classes after each epoch, as JSON; None without snapshots, a note if they cannot be read."""
    count = len(list(run.snapshots_folder.glob("epoch-*.safetensors")))
    if not count:
        return None
    from hitnet.runs.atlas import read_evolution  # with all of matplotlib, which few pages need

    shape = model.config.drawing_shape
    assert shape is not None
    size = model.head.num_classes * shape[0] * shape[1] * shape[2]
    step = max(1, -(-count * size // MOST_BYTES))
    titles, films = [], []
    try:
        errors = {f"epoch {row['epoch']:g}": number(row.get("test_error")) for row in run.read_metrics()}
        for place, (title, pictures) in enumerate(read_evolution(model, run), start=1):
            if place % step == 0 or place == 1 or place >= count:
                titles.append(title)
                films.append(to_bytes(pictures).cpu().numpy().tobytes())
    except (OSError, ValueError) as error:
        return {"note": text(f"The snapshots of this run cannot be read: {error}")}
    return {
        "titles": titles,
        "errors": [errors.get(title) for title in titles],
        "pixels": base64.b64encode(b"".join(films)).decode(),
    }
