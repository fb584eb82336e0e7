"""Decision cards of picture files."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hitnet.files import write_json
from hitnet.interpret import figures
from hitnet.interpret.explanation import explain
from hitnet.interpret.predict import read_pictures
from hitnet.model import Model


@dataclass(frozen=True)
class Card:
    """Where the card of one file is and what it says, or why there is none."""

    file: str
    words: str | None = None
    path: Path | None = None
    note: str | None = None
    """How the picture was converted to the size and colours that the network knows."""
    error: str | None = None


def write_cards(model: Model, files: Sequence[Path], folder: Path) -> list[Card]:
    """FOLDER/<file>-card.png and .json for each file, in their order."""
    cards = []
    seen: Counter[str] = Counter()
    for picture in read_pictures(model, files):
        file = picture.file
        if picture.image is None:
            cards.append(Card(str(file), error=picture.error))
            continue
        found = explain(model, picture.image)
        seen[file.stem] += 1
        # Files of the same name may come from different folders.
        name = f"{file.stem}-card" if seen[file.stem] == 1 else f"{file.stem}-card-{seen[file.stem]}"
        path = figures.save(figures.decision_card(found), folder / f"{name}.png", dpi=120)
        write_json(path.with_suffix(".json"), {"file": str(file), "note": picture.note, **found.to_json()})
        cards.append(Card(str(file), found.words, path, picture.note))
    return cards
