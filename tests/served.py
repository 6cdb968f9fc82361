"""The REST application on a socket, for tests that need a real server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from api.app import create_app
from api.house import House


@contextmanager
def served_app(house: House, **state: Any) -> Iterator[str]:
    """A real server on a port of its own."""
    app = create_app(house)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical"))
    app.state.is_stopping = lambda: server.should_exit
    for name, value in state.items():
        setattr(app.state, name, value)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
