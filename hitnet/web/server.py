"""The explorer over HTTP: small handlers behind a guard. No part of a request is ever used as a file path."""

from __future__ import annotations

import ipaddress
import json
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hitnet.runs.run import Run
from hitnet.web import comparison
from hitnet.web.audit import SHOWS, Audit, Outdated
from hitnet.web.explorer import Explorer
from hitnet.web.testset import FILTERS, LARGEST_PAGE

LARGEST_UPLOAD = 10_000_000
LARGEST_JSON = 10_000
MOST_HELD = 100_000_000  # bytes of all uploads that are under way or wait
QUESTIONS_AT_ONCE = 8
UPLOAD_SECONDS, UPLOAD_RATE = 5, 50_000  # an upload may take so long, and a second more for so many bytes received
PIECE = 65_536  # of an answer: the next is only sent when the reader keeps up
HOST = re.compile(r"(\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^\[\]:]+))(:[0-9]{1,5})?")
LOOPBACK = {"localhost", "127.0.0.1", "::1"}
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}

# Everything comes from this server, and no other page may frame this one or read from it.
SECURITY = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


def create_app(explorer: Explorer, host: str = "127.0.0.1") -> ASGIApp:
    """The whole explorer as an ASGI application; it only answers requests addressed to `host`."""
    static = _read_static()
    uploads, places = Uploads(), anyio.Semaphore(QUESTIONS_AT_ONCE)

    async def answer(request: Request, work: Callable[[bytes], Any]) -> Response:
        """The work's answer about an upload, which is complete before it takes a place among the questions."""
        async with uploads.read(request, LARGEST_UPLOAD) as content, places:
            if await request.is_disconnected():
                return Response()  # nobody reads it
            return Json(await _in_thread(work, content))

    async def page(request: Request) -> Response:
        return static["index.html"]

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in static:
            raise HTTPException(404, "there is no such file")
        return static[name]

    async def run(request: Request) -> Response:
        return Json(await run_in_threadpool(explorer.describe))

    async def decoder(request: Request) -> Response:
        return Response(explorer.weights, media_type="application/octet-stream")

    async def exemplars(request: Request) -> Response:
        return Json(await run_in_threadpool(lambda: explorer.exemplars))

    async def evolution(request: Request) -> Response:
        return Json(await run_in_threadpool(lambda: explorer.evolution))

    async def example(request: Request) -> Response:
        return Json(await _in_thread(explorer.explain_example))

    async def explain(request: Request) -> Response:
        invert = _one_of(request, "invert", ("0", "1"), "0") == "1"
        return await answer(request, lambda content: explorer.explain_picture(content, invert))

    async def what_if(request: Request) -> Response:
        index = _integer(request, "class", 0, explorer.model.head.num_classes - 1)
        if index is None:
            raise HTTPException(400, "what would make it which class? Give its index")
        return await answer(request, lambda content: explorer.what_if(content, index))

    async def tests(request: Request) -> Response:
        explorer.tests.start()
        show = _one_of(request, "show", FILTERS, "all")
        index = _integer(request, "class", 0, explorer.model.head.num_classes - 1)
        offset = _integer(request, "offset", 0, 10**9) or 0
        limit = _integer(request, "limit", 1, LARGEST_PAGE) or 24
        return Json(await run_in_threadpool(explorer.tests.page, show, index, offset, limit))

    async def test(request: Request) -> Response:
        index = _integer(request, "index", 0, 10**9)
        if index is None:
            raise HTTPException(400, "which test image? Give its index")
        explorer.tests.start()
        return Json(await _in_thread(explorer.explain_test, index))

    async def name(request: Request) -> Response:
        async with uploads.read(request, LARGEST_JSON) as body:
            content = _checked(_json_object(body), {"class": int, "component": int, "name": str})
        arguments = (content["class"], content["component"], content["name"])
        return Json({"names": await _in_thread(explorer.names.write, *arguments)})

    async def audit(request: Request) -> Response:
        return Json(await _in_thread(_audit_of(explorer).describe))

    async def suspect(request: Request) -> Response:
        opened = _audit_of(explorer)
        show = _one_of(request, "show", SHOWS, "wrong label")
        place = _integer(request, "place", 0, 10**9) or 0
        if (index := _integer(request, "index", 0, 10**9)) is not None:
            place = await _in_thread(opened.place_of, index, show)
        return Json(await _in_thread(opened.suspect, show, place))

    async def decide(request: Request) -> Response:
        async with uploads.read(request, LARGEST_JSON) as body:
            content = _checked(_json_object(body), {"path": str, "action": str, "label": str, "version": str})
        return Json(await _in_thread(lambda: _audit_of(explorer).decide(**content)))

    async def undo(request: Request) -> Response:
        async with uploads.read(request, LARGEST_JSON) as body:
            content = _checked(_json_object(body), {"version": str})
        return Json(await _in_thread(lambda: _audit_of(explorer).undo(**content)))

    async def runs(request: Request) -> Response:
        return Json({"runs": await run_in_threadpool(comparison.list_runs, explorer.run)})

    async def compared(request: Request) -> Response:
        return Json(await _in_thread(lambda: comparison.describe_run(_neighbour(explorer, request))))

    async def compared_answer(request: Request) -> Response:
        return await answer(request, lambda content: comparison.answer(_neighbour(explorer, request), content))

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/static/{name}", asset),
            Route("/api/run", run),
            Route("/api/decoder", decoder),
            Route("/api/exemplars", exemplars),
            Route("/api/evolution", evolution),
            Route("/api/example", example),
            Route("/api/explain", explain, methods=["POST"]),
            Route("/api/what-if", what_if, methods=["POST"]),
            Route("/api/tests", tests),
            Route("/api/tests/one", test),
            Route("/api/names", name, methods=["PUT"]),
            Route("/api/audit", audit),
            Route("/api/audit/one", suspect),
            Route("/api/audit/decide", decide, methods=["PUT"]),
            Route("/api/audit/undo", undo, methods=["PUT"]),
            Route("/api/runs", runs),
            Route("/api/runs/one", compared),
            Route("/api/runs/answer", compared_answer, methods=["POST"]),
        ],
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    # Outermost: a Starlette middleware would not see the response to an unhandled exception.
    return Guard(app, host_check(host))


class Json(Response):
    """JSON in ASCII: names may hold halves of characters, which have no other encoding."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        try:
            return json.dumps(content, allow_nan=False).encode()
        except ValueError:
            raise HTTPException(500, "the run answers with numbers that are not finite; train it again") from None


def host_check(host: str) -> Callable[[str], bool]:
    """Which Host headers are allowed: another name that resolves to this address (DNS rebinding) is refused."""
    names = {host.lower().strip("[]"), *(LOOPBACK if is_loopback(host) or is_wildcard(host) else ())}
    if is_wildcard(host):
        names.add(socket.gethostname().lower())

    def allows(header: str) -> bool:
        bare = _without_port(header.strip().lower())
        # DNS rebinding needs a name, so a numeric address is safe.
        return bare in names or (is_wildcard(host) and _is_address(bare))

    return allows


def is_loopback(host: str) -> bool:
    return host.lower() == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_wildcard(host: str) -> bool:
    return _is_address(host) and ipaddress.ip_address(host).is_unspecified


class Guard:
    """Refuses requests for other hosts and from other origins, and adds the security headers to every response."""

    def __init__(self, app: ASGIApp, allows: Callable[[str], bool]) -> None:
        self.app, self.allows = app, allows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                response_headers = MutableHeaders(scope=message)
                for name, value in SECURITY.items():
                    response_headers.setdefault(name, value)
            await _send_in_pieces(send, message)

        host, origin = headers.get("host", ""), headers.get("origin")
        if not self.allows(host):
            respond: ASGIApp = _error(403, "this address is not served; open the one that hitnet explore printed")
        elif _is_foreign(origin, f"{scope['scheme']}://{host}") or not _is_own_fetch(scope["path"], headers):
            respond = _error(403, "other pages may not use the explorer")
        else:
            respond = self.app
        await respond(scope, receive, send_guarded)


async def _send_in_pieces(send: Send, message: Message) -> None:
    """A reader who does not keep up makes the server wait between two pieces instead of filling its memory."""
    body = message.get("body", b"")
    for start in range(PIECE, len(body), PIECE):
        await send({**message, "body": body[start - PIECE : start], "more_body": True})
    await send({**message, "body": body[-(len(body) % PIECE or PIECE) :]} if body else message)


def _is_foreign(origin: str | None, own: str) -> bool:
    return origin is not None and origin.lower() != own.lower()


def _is_own_fetch(path: str, headers: Headers) -> bool:
    """Whether a browser says that this page asks, or a person; anyone may link to the page itself."""
    if headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
        return True
    return path == "/" and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"


class Uploads:
    """Reads bodies of requests; refuses those that are too long or too slow, and all while too much is held."""

    def __init__(self) -> None:
        self.held = 0

    @asynccontextmanager
    async def read(self, request: Request, limit: int) -> AsyncIterator[bytes]:
        """The body, counted as held until the block ends."""
        too_long = HTTPException(413, f"more than {limit / 1e6:g} MB are not accepted; make it smaller")
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > limit:
            raise too_long
        content = bytearray()
        try:
            with anyio.fail_after(UPLOAD_SECONDS) as clock:
                async for chunk in request.stream():
                    content += chunk
                    self.held += len(chunk)
                    clock.deadline += len(chunk) / UPLOAD_RATE
                    if len(content) > limit:
                        raise too_long
                    if self.held > MOST_HELD:
                        raise HTTPException(503, "too many are asking at the same time; try again in a moment")
            yield bytes(content)
        except TimeoutError:
            raise HTTPException(408, f"an upload needs {UPLOAD_RATE // 1000} kB/s; try again") from None
        except ClientDisconnect:
            raise HTTPException(400, "the upload ended early") from None
        finally:
            self.held -= len(content)


def _read_static() -> dict[str, Response]:
    """Every file of the page by name, read once."""
    return {
        file.name: Response(file.read_bytes(), media_type=TYPES[suffix])
        for file in files("hitnet.web").joinpath("static").iterdir()
        for suffix in TYPES
        if file.name.endswith(suffix)
    }


def _neighbour(explorer: Explorer, request: Request) -> Run:
    run = comparison.neighbours(explorer.run).get(request.query_params.get("id", ""))
    if run is None:
        raise ValueError("there is no such run in the same runs folder")
    return run


async def _in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """Do the work in a thread; ValueError and OSError become 400, since the request is at fault."""
    try:
        return await run_in_threadpool(work, *arguments)
    except Outdated as error:
        raise HTTPException(409, str(error)) from error
    except (ValueError, OSError) as error:
        raise HTTPException(400, str(error)) from error


def _json_object(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise HTTPException(400, "expected JSON") from None
    if not isinstance(value, dict):
        raise HTTPException(400, f"expected a JSON object, got {type(value).__name__}")
    return value


def _checked(content: dict[str, Any], wanted: dict[str, type]) -> dict[str, Any]:
    """The content itself if it has these parts, of these types, and no other."""
    if set(content) != set(wanted) or any(type(content[key]) is not kind for key, kind in wanted.items()):
        parts = ", ".join(f'"{key}": a {"number" if kind is int else "text"}' for key, kind in wanted.items())
        raise HTTPException(400, f"expected {{{parts}}}")
    return content


def _audit_of(explorer: Explorer) -> Audit:
    if explorer.audit is None:
        raise HTTPException(404, "this is a run, not an audit; open one with hitnet explore AUDIT")
    return explorer.audit


def _one_of(request: Request, key: str, known: tuple[str, ...], default: str) -> str:
    value = request.query_params.get(key, default)
    if value not in known:
        raise HTTPException(400, f"{key} must be one of {', '.join(known)}, got {value[:40]!r}")
    return value


def _integer(request: Request, key: str, low: int, high: int) -> int | None:
    """A whole number from the query, or None if it is not given."""
    value = request.query_params.get(key)
    if not value:
        return None
    if not (value.isascii() and value.isdecimal() and len(value) <= 10 and low <= int(value) <= high):
        raise HTTPException(400, f"{key} must be a whole number in {low}..{high}, got {value[:40]!r}")
    return int(value)


def _error(status: int, message: str, headers: Any = None) -> Response:
    return Json({"error": message}, status, headers)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, error.detail, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    return _error(500, "the explorer failed on this request; its terminal says more")


def _without_port(header: str) -> str:
    """The name or address in a Host header, the empty string if it is no such header."""
    found = HOST.fullmatch(header)
    return (found["address"] or found["name"]) if found else ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
