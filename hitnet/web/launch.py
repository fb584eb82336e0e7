"""Open the explorer: choose the run and the address, start the server and the browser."""

import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

from hitnet.errors import require
from hitnet.runs.run import find_runs
from hitnet.web.bundle import check_drawable

PORT = 8421


def require_server() -> None:
    """An error with the install command if the extra packages are missing."""
    require("the explorer", ["starlette", "uvicorn"], "explore")


def newest_run(folder: Path) -> Path | None:
    """The newest finished run below a folder whose network can draw prototypes."""
    for run in reversed(find_runs(folder)):
        try:
            if run.is_finished:
                check_drawable(run.load_model())
                return run.path
        except (OSError, ValueError, RuntimeError):  # RuntimeError: timm is not installed
            continue
    return None


def bind(host: str, port: int | None) -> socket.socket:
    """A listening socket; if no port is requested, the default one, or any free one if that is taken."""
    if port is not None and not 0 <= port <= 65535:
        raise ValueError(f"--port must lie in 0..65535 (0: any free one), got {port}")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port or PORT, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ValueError(f"there is no address {host!r} on this machine ({error}); try 127.0.0.1") from None
    for candidate in [port] if port is not None else [PORT, 0]:
        # With the protocol named, asyncio turns Nagle's algorithm off: answers leave at once.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((address[0], candidate, *address[2:]))
            listening.listen(1024)  # from now on a browser waits instead of being refused
            return listening
        except OSError as error:
            listening.close()
            reason = error
    raise ValueError(f"cannot listen on {host}, port {port or PORT} ({reason}); choose another with --port")


def serve(
    path: Path, host: str, port: int | None, browser: bool, say: Callable[[str], None], device: str = "cpu"
) -> None:
    """Serve the explorer of a run until it is interrupted."""
    require_server()
    import uvicorn

    from hitnet.web.connections import server_settings
    from hitnet.web.explorer import Explorer
    from hitnet.web.server import create_app, is_loopback, is_wildcard

    explorer = Explorer(path, device)
    listening = bind(host, port)
    shown = "127.0.0.1" if is_wildcard(host) else f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/"
    if not is_loopback(host):
        say(f"warning: anyone who can reach {host} can use this page; there is no password")
    say(f"exploring {path} at {address} (stop with Ctrl+C)")
    if browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    with listening:
        uvicorn.Server(server_settings(create_app(explorer, host))).run(sockets=[listening])
