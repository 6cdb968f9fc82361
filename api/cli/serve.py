"""`flywheel serve`: the dashboard and the REST API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Annotated

import typer
import uvicorn

from ..app import create_app
from ..house import House
from ..ports import listen
from ..settings import read_settings
from ..webhooks.addresses import read_networks
from ..webhooks.deliver import deliver_until
from .db import first_token
from .interrupts import INTERRUPTED, leave_to_server
from .output import open_project, say


def serve(
    host: Annotated[str | None, typer.Option(help="The address to listen on. Default: FLYWHEEL_HOST.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Default: FLYWHEEL_PORT.")] = None,
) -> None:
    """Serve the dashboard and the REST API until interrupted. Prints an admin token if there is none yet."""
    settings = read_settings()
    read_networks(settings.webhook_networks)
    with open_project() as house:
        listener = listen(host or settings.host, settings.port if port is None else port)
        address, taken = listener.getsockname()[:2]
        first_token(house)
        say(f"Serving on http://{address}:{taken}. The dashboard is at /; endpoints are at /docs.")
        app = create_app(house)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        app.state.is_stopping = lambda: server.should_exit
        with webhooks_beside(house), leave_to_server():
            server.run(sockets=[listener])
    raise typer.Exit(INTERRUPTED)


@contextmanager
def webhooks_beside(house: House) -> Iterator[None]:
    """Deliver to webhooks in a thread until the block ends; a message that is on its way ends first."""
    stop = Event()
    thread = Thread(target=deliver_until, args=(house, stop), name="webhooks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
