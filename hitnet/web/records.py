"""What a page shows of a run's records. They may be damaged, so only what is as expected gets through."""

import json
from typing import Any

LONGEST_TEXT = 200


def number(value: Any) -> float | None:
    """A finite number, or None."""
    # Written this way, NaN and integers that no float can hold fail too.
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if plain and -1e300 < value < 1e300 else None


def text(value: Any) -> str:
    """As a short text that can be encoded: file names and JSON may hold halves of characters."""
    return str(value)[:LONGEST_TEXT].encode(errors="replace").decode()


def part(content: dict[str, Any], name: str) -> dict[str, Any]:
    """The JSON object of this name, empty if there is none; numbers that are not finite become None."""
    found = content.get(name)
    return json.loads(json.dumps(found), parse_constant=lambda _: None) if isinstance(found, dict) else {}
