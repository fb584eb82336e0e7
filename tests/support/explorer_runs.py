"""What tests of the explorer put up: run folders without training, a server in a thread."""

import threading
import time
from pathlib import Path

import uvicorn

from hitnet.core.model import Model
from hitnet.files import write_json
from hitnet.runs.run import Run
from hitnet.settings import TrainConfig
from hitnet.web.connections import server_settings
from hitnet.web.explorer import Explorer
from hitnet.web.launch import bind
from hitnet.web.server import create_app


def fake_run(folder: Path, model: Model, data: str = "nowhere") -> Path:
    """A run folder around a network that was never trained."""
    model.save(folder / "model")
    write_json(folder / "args.json", TrainConfig(data=data, model=model.config.name).to_json())
    Run(folder).write_metrics([{"epoch": 1, "test_error": 50.0}])
    return folder


class serving:
    """A server in a thread: `with serving(explorer) as url`."""

    def __init__(self, explorer: Explorer, port: int = 0) -> None:
        self.listening = bind("127.0.0.1", port)
        self.server = uvicorn.Server(server_settings(create_app(explorer)))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listening]}, daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return f"http://127.0.0.1:{self.listening.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.listening.close()
