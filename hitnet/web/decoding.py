"""Pictures are decoded in a process of their own, which is ended when one takes too long or too much memory.

That process imports no torch, so another one is there in half a second. Both sides send a line of JSON, then bytes.
"""

import io
import json
import os
import subprocess
import sys
import weakref
from contextlib import suppress
from threading import Lock, Timer
from typing import IO, Any

import numpy as np

from hitnet.pictures import Pixels, picture_size, read_pixels
from hitnet.settings import Fit

SECONDS = 10
MEMORY = 1_500_000_000
# A JPEG can be decoded at an eighth of its size; other formats need several times their full size in memory.
MOST_PIXELS_JPEG, MOST_PIXELS = 24_000_000, 9_000_000


class DecodingProcess:
    """Decodes one picture at a time; started with the first one, and anew after it was ended. Thread-safe."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.process: subprocess.Popen[bytes] | None = None

    def read(
        self, content: bytes, image_shape: tuple[int, int, int], fit: Fit = "stretch"
    ) -> tuple[Pixels, str | None]:
        """As `read_pixels`, or a ValueError that says what is wrong with the picture."""
        with self.lock:
            answer, pixels = self._ask(content, image_shape, fit)
        if "error" in answer:
            raise ValueError(answer["error"])
        channels, height, width = image_shape
        return np.frombuffer(bytearray(pixels), np.uint8).reshape(height, width, channels), answer["note"]

    def _ask(self, content: bytes, image_shape: tuple[int, int, int], fit: Fit) -> tuple[dict[str, Any], bytes]:
        if self.process is None or self.process.poll() is not None:
            self.process = _start()
            self.end = weakref.finalize(self, _end, self.process)
        clock = Timer(SECONDS, self.process.kill)
        clock.start()
        try:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            _send(self.process.stdin, {"bytes": len(content), "image_shape": image_shape, "fit": fit}, content)
            return _receive(self.process.stdout)
        except (OSError, ValueError):
            self.end()
            limits = f"{SECONDS} s or {MEMORY / 1e9:g} GB"
            return {"error": f"the picture needs more than {limits} to decode; save it as an ordinary PNG or JPEG"}, b""
        finally:
            clock.cancel()
            clock.join()


def _start() -> subprocess.Popen[bytes]:
    # With this process's own search path: `python -m` would first look in the current folder.
    code = f"import sys; sys.path[:] = {sys.path!r}; from hitnet.web.decoding import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # numpy's matrix library reserves memory for each thread
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    # Closes its pipes and waits; what was not sent yet cannot be.
    with suppress(OSError), process:
        pass


def _send(pipe: IO[bytes], message: dict[str, Any], content: bytes) -> None:
    pipe.write(json.dumps(message).encode() + b"\n" + content)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    """A message and its bytes; a ValueError if the other side has ended."""
    message: dict[str, Any] = json.loads(pipe.readline())
    content = pipe.read(message["bytes"])
    if len(content) != message["bytes"]:
        raise ValueError(f"expected {message['bytes']} bytes, got {len(content)}")
    return message, content


def check_pixels(content: bytes) -> None:
    """Refuse pictures that would need too much memory; reads only their header."""
    if not content:
        raise ValueError("the picture is empty")
    height, width = picture_size(io.BytesIO(content))
    limit = MOST_PIXELS_JPEG if content.startswith(b"\xff\xd8") else MOST_PIXELS
    if height * width > limit:
        raise ValueError(
            f"the picture has {width}×{height} pixels, more than the {limit // 1_000_000} million allowed; "
            "make it smaller first"
        )


def decode_all(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer one picture after the other, until the other side ends."""
    while True:
        message, content = _receive(requests)
        try:
            check_pixels(content)
            pixels, note = read_pixels(io.BytesIO(content), tuple(message["image_shape"]), message["fit"])
            _send(answers, {"bytes": pixels.size, "note": note}, pixels.tobytes())
        except ValueError as error:
            _send(answers, {"bytes": 0, "error": str(error)}, b"")


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit; the number of pixels is limited everywhere
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def main() -> None:
    _limit_memory()
    decode_all(sys.stdin.buffer, sys.stdout.buffer)
