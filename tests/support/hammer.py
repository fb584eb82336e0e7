"""Many people at once: mixed requests, good and bad, from many connections. By hand:

hitnet explore RUN --no-browser --port 8500, then: python tests/web/hammer.py 8500 20
"""

import asyncio
import io
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

from PIL import Image

CONNECTIONS = 200


def picture(side: int) -> bytes:
    content = io.BytesIO()
    Image.effect_noise((side, side), 90).save(content, "PNG")
    return content.getvalue()


def requests() -> list[tuple[str, str, bytes]]:
    """What is asked for, each as likely as the others."""
    return [
        ("GET", "/", b""),
        ("GET", "/static/app.js", b""),
        ("GET", "/static/../../etc/passwd", b""),
        ("GET", "/api/run", b""),
        ("GET", "/api/decoder", b""),
        ("GET", "/api/tests?show=mistakes", b""),
        ("GET", "/api/tests?class=99999", b""),
        ("GET", "/api/tests/one?index=5", b""),
        ("GET", "/api/runs", b""),
        ("POST", "/api/explain", picture(28)),
        ("POST", "/api/explain", picture(600)),
        ("POST", "/api/explain", b"no picture at all" * 100),
        ("PUT", "/api/names", b'{"class": 0, "component": 0, "name": "busy"}'),
        ("PUT", "/api/names", b"{"),
    ]


async def hammer(port: int, seconds: float, connections: int = CONNECTIONS) -> Counter[int]:
    """How often each status came; 0 stands for a connection that broke."""
    end, statuses, mix = time.monotonic() + seconds, Counter[int](), requests()

    async def client(seed: int) -> None:
        chance = random.Random(seed)
        while time.monotonic() < end:
            statuses[await ask(port, *chance.choice(mix))] += 1

    await asyncio.gather(*(client(seed) for seed in range(connections)))
    return statuses


async def ask(port: int, method: str, path: str, body: bytes) -> int:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nContent-Length: {len(body)}"
        writer.write(head.encode() + b"\r\n\r\n" + body)
        await writer.drain()
        answer = await reader.read()
        writer.close()
        return int(answer.split(b" ", 2)[1])
    except (OSError, IndexError, ValueError):
        return 0


def memory(process: int) -> float:
    """Resident memory of a process in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    print(dict(asyncio.run(hammer(int(sys.argv[1]), float(sys.argv[2])))))
