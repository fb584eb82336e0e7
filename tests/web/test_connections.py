"""Connections that send slowly, read nothing, stay idle or are too many: the others are answered all the same."""

import asyncio
import logging
import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from urllib.request import Request, urlopen

import pytest
from support.explorer_runs import serving
from support.fuzz import damage
from support.hammer import memory, picture

from hitnet.web import connections, launch
from hitnet.web.explorer import Explorer

PATIENCE = 25  # seconds; on any machine an answer takes a fraction of it, behind slow ones it would take more


@pytest.fixture
def port(explorer: Explorer) -> Iterator[int]:
    """The port of a server of this test's own."""
    with serving(explorer) as url:
        yield int(url.rpartition(":")[2])


def connect(port: int, text: str, body: bytes = b"") -> socket.socket:
    """A connection that has sent this text as the beginning of a request."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(PATIENCE)
    connection.connect(("127.0.0.1", port))
    connection.sendall(text.replace("\n", "\r\n").encode() + body)
    return connection


def post(length: int) -> str:
    return f"POST /api/explain HTTP/1.1\nHost: localhost\nContent-Length: {length}\n\n"


def is_answered(port: int) -> bool:
    """Whether a question about a picture gets its answer soon."""
    with urlopen(Request(f"http://127.0.0.1:{port}/api/explain", picture(28)), timeout=PATIENCE) as answer:
        return answer.status == 200


def is_closed(connection: socket.socket) -> bool:
    """Whether the server ends the connection, within some time."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_behind_slow_uploads_others_are_answered_and_the_slow_ones_given_up(port: int) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(port, post(1_000), b"x")) for _ in range(24)]
        assert is_answered(port)
        assert all(b" 408 " in connection.recv(4096) for connection in slow)


def test_questions_of_people_who_left_are_not_worked_on(
    port: int, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, asked = Event(), []

    def explain_picture(content: bytes, invert: bool) -> dict[str, object]:
        asked.append(content)
        go_on.wait(PATIENCE)
        return {}

    monkeypatch.setattr(explorer, "explain_picture", explain_picture)
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(connect(port, post(4), b"left"))
        while len(asked) < 8:
            time.sleep(0.01)
        time.sleep(0.5)
    time.sleep(0.5)  # they left, eight of them while they were being answered
    go_on.set()
    assert is_answered(port)
    assert asked.count(b"left") == 8


def test_too_many_bytes_at_once_are_refused_and_then_accepted_again(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hitnet.web.server.MOST_HELD", 100_000)
    with connect(port, post(90_000), bytes(80_000)), connect(port, post(90_000), bytes(80_000)) as second:
        assert b" 503 " in second.recv(4096)
    assert is_answered(port)


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="memory is read from /proc")
def test_answers_that_nobody_reads_take_no_memory(started: tuple[object, int]) -> None:
    process, port = started
    assert is_answered(port)
    before = memory(process.pid)  # type: ignore[attr-defined]
    with ExitStack() as stack:
        for _ in range(150):
            stack.enter_context(connect(port, "GET /api/decoder HTTP/1.1\nHost: localhost\n\n"))
        assert is_answered(port)
        assert memory(process.pid) - before < 150  # type: ignore[attr-defined]


def test_who_does_not_read_is_cut_off(port: int, explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "READ_SECONDS", 0.5)
    monkeypatch.setattr(explorer, "weights", bytes(30_000_000))
    with connect(port, "GET /api/decoder HTTP/1.1\nHost: localhost\n\n") as connection:
        time.sleep(3)
        received = 0
        try:
            while piece := connection.recv(1_000_000):
                received += len(piece)
        except ConnectionError:
            pass
        assert received < 30_000_000


@pytest.mark.parametrize("beginning", ["", "GET / HT", "GET / HTTP/1.1\nHost: localhost\n\nGET / HT"])
def test_a_request_whose_head_does_not_come_is_not_waited_for(
    port: int, beginning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    with connect(port, beginning) as connection:
        assert is_closed(connection)


def test_of_too_many_connections_the_most_idle_makes_room(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 10)
    monkeypatch.setattr(connections, "HEAD_SECONDS", 1000)
    with ExitStack() as stack:
        idle = [stack.enter_context(connect(port, "")) for _ in range(40)]
        assert is_answered(port)
        assert all(is_closed(connection) for connection in idle[:30])


def test_messages_have_an_end_and_say_so() -> None:
    limit = connections.FirstMessages()
    records = [logging.makeLogRecord({"msg": f"number {number}"}) for number in range(3 * connections.MOST_LOGGED)]
    shown = [record.getMessage() for record in records if limit.filter(record)]
    assert len(shown) == connections.MOST_LOGGED
    assert shown[0] == "number 0"
    assert shown[-1] == "Further messages are not shown."


def test_answers_leave_at_once() -> None:
    """Nagle's algorithm is off on every connection."""

    async def option() -> int:
        accepted: asyncio.Queue[int] = asyncio.Queue()

        def on_connection(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.put_nowait(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with launch.bind("127.0.0.1", 0) as listening:
            async with await asyncio.start_server(on_connection, sock=listening):
                _, writer = await asyncio.open_connection(*listening.getsockname())
                writer.close()
                return await accepted.get()

    assert asyncio.run(option()) != 0


def test_after_damaged_requests_others_are_answered(port: int) -> None:
    chance, whole = random.Random(0), (post(4) + "body").replace("\n", "\r\n").encode()
    with ExitStack() as stack:
        for _ in range(300):
            connection = stack.enter_context(connect(port, ""))
            connection.sendall(damage(whole, chance))
            connection.shutdown(socket.SHUT_WR)
        assert is_answered(port)
