"""How the explorer treats connections: those that send nothing, read nothing or are too many do not hold up others."""

import asyncio
import logging

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 300
HEAD_SECONDS = 15  # to send the head of a request, counted from the connection or the last answer
READ_SECONDS = 20  # to read some of an answer
MOST_LOGGED = 200


class ImpatientProtocol(H11Protocol):
    """Closes a connection without a request in time, one whose answer is not read, and the most idle of too many."""

    timer: asyncio.TimerHandle | None = None
    waiting_since: float | None = None
    """When it began to wait for a request; None while there is one."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_request()
        if len(self.connections) > MOST_CONNECTIONS:
            idle = [each for each in self.connections if isinstance(each, ImpatientProtocol) and each.waiting_since]
            most_idle = min(idle, key=lambda each: each.waiting_since or 0)
            most_idle.waiting_since = None  # it stays in the set for a moment, and is not to be chosen again
            most_idle.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._set_timer(None)

    def handle_events(self) -> None:
        former = self.cycle
        super().handle_events()
        if self.cycle is not former:
            self.waiting_since = None
            self._set_timer(None)

    def on_response_complete(self) -> None:
        self._wait_for_request()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._set_timer(READ_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._set_timer(None if self.waiting_since is None else HEAD_SECONDS)

    def _wait_for_request(self) -> None:
        self.waiting_since = self.loop.time()
        self._set_timer(HEAD_SECONDS)

    def _set_timer(self, seconds: float | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


class FirstMessages(logging.Filter):
    """Lets only so many messages through: whoever provokes them must not fill a disk."""

    def __init__(self) -> None:
        super().__init__()
        self.left = MOST_LOGGED

    def filter(self, record: logging.LogRecord) -> bool:
        self.left -= 1
        if self.left == 0:
            record.msg, record.args, record.exc_info = "Further messages are not shown.", (), None
        return self.left >= 0


def server_settings(app: ASGIApp) -> uvicorn.Config:
    """How uvicorn serves the explorer."""
    settings = uvicorn.Config(
        app, http=ImpatientProtocol, ws="none", log_level="warning", access_log=False, server_header=False
    )
    logging.getLogger("uvicorn.error").addFilter(FirstMessages())
    return settings
