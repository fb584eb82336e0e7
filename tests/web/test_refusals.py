"""The explorer over HTTP: what it refuses, and that nothing brings it down."""

import io
import json
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from subprocess import PIPE, Popen
from threading import Event
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from starlette.testclient import TestClient
from support.http import is_error, png

from hitnet.web import decoding
from hitnet.web.decoding import DecodingProcess
from hitnet.web.explorer import Explorer
from hitnet.web.server import LARGEST_UPLOAD, SECURITY, host_check

METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]
FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def bomb(width: int, height: int) -> bytes:
    """A PNG that claims to be enormous and is a few bytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"0")) + chunk(b"IEND", b"")


def many_scans(size: tuple[int, int], scans: int) -> bytes:
    """A progressive JPEG whose last scan, a few bytes, comes again and again."""
    content = io.BytesIO()
    Image.new("RGB", size, "grey").save(content, "JPEG", progressive=True)
    whole = content.getvalue()
    return whole[:-2] + scans * whole[whole.rindex(b"\xff\xda") : -2] + whole[-2:]


# What it refuses

BROKEN_HOSTS = ["[::1].evil.example", "[::1]evil", "127.0.0.1:evil.example", "127.0.0.1:80:80", "[::1", "::1]", "[]"]


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "evil.example:8421", "", "localhost.evil", "[::2]", *BROKEN_HOSTS],
)
def test_a_foreign_host_name_gets_nothing(client: TestClient, host: str) -> None:
    for path in ("/", "/api/run", "/static/app.js", "/nothing"):
        assert client.get(path, headers={"host": host}).status_code == 403


def test_hosts_that_are_answered_depend_on_where_the_server_listens() -> None:
    own = host_check("127.0.0.1")
    assert all(own(host) for host in ("127.0.0.1:8421", "localhost", "LOCALHOST:1", "[::1]:80"))
    assert not any(own(host) for host in ("192.168.0.5", "example.org", "0.0.0.0"))
    everywhere = host_check("0.0.0.0")
    assert everywhere("192.168.0.5:8421")
    assert everywhere("localhost")
    assert not everywhere("example.org")
    named = host_check("lab.example")
    assert named("lab.example:8421")
    assert not named("localhost")


def test_other_origins_are_refused_and_no_cors_header_is_ever_sent(client: TestClient) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8421"):
        answer = client.post("/api/explain", content=b"x", headers={"origin": origin})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
    own = client.get("/api/run", headers={"origin": "http://127.0.0.1:8421"})
    assert own.status_code == 200
    assert "access-control-allow-origin" not in own.headers


def test_what_a_browser_asks_for_another_page_is_refused(client: TestClient) -> None:
    for site in ("cross-site", "same-site"):  # same-site: another port of this machine
        asked = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
        for path in ("/", "/api/run", "/api/tests", "/static/app.js"):
            assert is_error(client.get(path, headers=asked), 403, "other pages")
        link = asked | {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        assert client.get("/", headers=link).status_code == 200
        assert client.get("/api/run", headers=link).status_code == 403
    for site in ("same-origin", "none"):
        assert client.get("/api/run", headers={"sec-fetch-site": site}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e%2f%2e%2e%2fcli.py",
        "/static//etc/passwd",
        "/static/",
        "/static/index.html%00",
        "/../../../../etc/passwd",
        "/api/runs/one?id=../../../../etc",
        "/api/runs/one?id=/etc",
        "/api/runs/one?id=mnist-mini/../mnist-mini/lenet5-s0",
        "/api/runs/one",
    ],
)
def test_no_path_of_a_request_reaches_the_disk(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code in (400, 404)
    assert set(answer.json()) == {"error"}


def test_uploads_have_a_limit_with_and_without_an_announced_length(client: TestClient) -> None:
    too_long = b"x" * (LARGEST_UPLOAD + 1)
    assert is_error(client.post("/api/explain", content=too_long), 413, "10 MB")
    pieces = (too_long[start : start + 1_000_000] for start in range(0, len(too_long), 1_000_000))
    assert is_error(client.post("/api/explain", content=pieces), 413, "10 MB")
    assert client.put("/api/names", content=b" " * 20_000).status_code == 413


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        ((4_000, 4_000), "more than the 9 million allowed"),
        ((65_000, 200), "more than the 9 million allowed"),
        ((12_000, 10_000), "pixels are more than the 89,478,485 allowed"),
        ((30_000, 30_000), "exceeds limit"),  # in PIL's words
        ((2**31 - 1, 2**31 - 1), "exceeds limit"),
    ],
)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_image_bombs_are_refused_from_their_header(client: TestClient, size: tuple[int, int], reason: str) -> None:
    assert is_error(client.post("/api/explain", content=bomb(*size)), 400, reason)


def test_a_photo_beyond_the_limit_is_refused(client: TestClient) -> None:
    large = io.BytesIO()
    Image.new("L", (6_000, 4_001)).save(large, "JPEG")
    assert is_error(client.post("/api/explain", content=large.getvalue()), 400, "more than the 24 million allowed")


def test_a_large_photo_is_welcome(client: TestClient) -> None:
    content = io.BytesIO()
    Image.new("RGB", (4032, 3024), "grey").save(content, "JPEG")
    answer = client.post("/api/explain", content=content.getvalue())
    assert answer.status_code == 200
    assert "28×28 from 4032×3024" in answer.json()["note"]


def test_files_that_are_no_pictures_are_refused_with_a_reason(client: TestClient) -> None:
    whole = png(np.zeros((28, 28), np.uint8))
    for content in (b"", b"hello", whole[:40], b"%PDF-1.4", b"<svg xmlns='http://www.w3.org/2000/svg'/>"):
        answer = client.post("/api/explain", content=content)
        assert is_error(answer, 400, "picture")


# That nothing brings it down


def test_a_jpeg_whose_last_scan_is_repeated_is_refused_before_decoding(client: TestClient) -> None:
    answer = client.post("/api/explain", content=many_scans((5_000, 4_000), 5_000))
    assert is_error(answer, 400, "5010 scans are more than the 100 allowed")
    assert client.post("/api/explain", content=many_scans((500, 400), 20)).status_code == 200


def test_a_picture_that_takes_too_long_is_given_up_and_the_next_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    process = DecodingProcess()
    with monkeypatch.context() as patch:
        patch.setattr(decoding, "SECONDS", 1)
        patch.setattr(decoding, "_start", lambda: Popen(["sleep", "600"], stdin=PIPE, stdout=PIPE))
        with pytest.raises(ValueError, match="needs more than 1 s or 1.5 GB to decode"):
            process.read(png(np.zeros((28, 28), np.uint8)), (1, 28, 28))
    assert process.read(png(np.full((28, 28), 7, np.uint8)), (1, 28, 28))[0].max() == 7


def test_while_a_picture_is_decoded_the_model_answers_others(
    client: TestClient, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = Event()

    def read(*_: object) -> None:
        ended.wait(60)
        raise ValueError("given up")

    monkeypatch.setattr(explorer.decoding, "read", read)
    with ThreadPoolExecutor() as pool:
        stuck = pool.submit(client.post, "/api/explain", content=b"endless")
        assert client.post("/api/what-if?class=1", content=bytes(784)).status_code == 200
        assert not stuck.done()
        ended.set()
        assert is_error(stuck.result(), 400, "given up")


@FUZZ
@given(
    st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]),
    st.text(max_size=40),
    st.binary(max_size=60),
)
def test_any_path_and_body_is_answered_without_a_server_error(
    client: TestClient, method: str, path: str, body: bytes
) -> None:
    answer = client.request(method, "/" + quote(path), content=body)
    assert answer.status_code < 500


ENDPOINTS = [
    "/api/tests",
    "/api/tests/one",
    "/api/explain",
    "/api/what-if",
    "/api/runs/one",
    "/api/names",
    "/api/run",
    "/api/decoder",
]
KEYS = ["show", "class", "offset", "limit", "index", "invert", "id"]
VALUES = st.one_of(
    st.text(max_size=20),
    st.integers().map(str),
    st.sampled_from(["mistakes", "NaN", "1e9", "-1", "٣", "9" * 5000, "mnist-mini/lenet5-s0", "0x10", " 1"]),
)


@FUZZ
@given(
    st.sampled_from(["GET", "POST", "PUT"]),
    st.sampled_from(ENDPOINTS),
    st.lists(st.tuples(st.sampled_from(KEYS), VALUES), max_size=4),
)
def test_any_query_is_answered_without_a_server_error(
    client: TestClient, method: str, path: str, query: list[tuple[str, str]]
) -> None:
    assert client.request(method, path, params=query).status_code < 500


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=50),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["class", "component", "name"]), inner),
    max_leaves=6,
)


@FUZZ
@given(st.one_of(JSON.map(lambda content: json.dumps(content).encode()), st.binary(max_size=80)))
def test_any_name_request_is_answered_without_a_server_error(client: TestClient, body: bytes) -> None:
    assert client.put("/api/names", content=body).status_code < 500


@FUZZ
@given(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP"]), st.data())
def test_damaged_pictures_are_answered_without_a_server_error(client: TestClient, kind: str, data: Any) -> None:
    content = io.BytesIO()
    Image.new("RGB", (20, 16), "orange").save(content, kind)
    damaged = bytearray(content.getvalue())
    for _ in range(data.draw(st.integers(0, 6))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(1, len(damaged)))
    assert client.post("/api/explain", content=bytes(damaged[:cut])).status_code < 500


def test_deeply_nested_json_and_absurd_lengths_are_refused(client: TestClient) -> None:
    assert client.put("/api/names", content=b"[" * 9_000).status_code == 400
    answer = client.put("/api/names", content=b"{}", headers={"content-length": "9" * 4_000})
    assert answer.status_code in (400, 413)


def test_after_a_failure_inside_the_server_answers_in_json_and_goes_on(
    client: TestClient, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(explorer, "describe", lambda: 1 / 0)
        answer = client.get("/api/run")
    assert is_error(answer, 500, "terminal")
    assert SECURITY.items() <= answer.headers.items()
    assert client.get("/api/run").status_code == 200
