"""What tests of the server send and expect."""

import io
from typing import Any

import numpy as np
from PIL import Image


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


def is_error(answer: Any, status: int, word: str) -> bool:
    return answer.status_code == status and word in answer.json()["error"]
