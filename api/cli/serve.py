"""`flywheel serve`: the REST API."""

from __future__ import annotations

import errno
import socket
from typing import Annotated

import typer
import uvicorn

from ..app import create_app
from ..errors import PortInUse
from ..settings import read_settings
from .db import first_token
from .output import opened, say


def serve(
    host: Annotated[str | None, typer.Option(help="The address to listen on. Default: FLYWHEEL_HOST.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Default: FLYWHEEL_PORT.")] = None,
) -> None:
    """Serve the REST API until interrupted. Prints an admin token if there is none yet."""
    settings = read_settings()
    with opened() as house:
        first_token(house)
        listener = listening(host or settings.host, settings.port if port is None else port)
        address, taken = listener.getsockname()[:2]
        say(f"Serving on http://{address}:{taken}; the API is described at /docs")
        config = uvicorn.Config(create_app(house), log_level="warning", access_log=False)
        uvicorn.Server(config).run(sockets=[listener])


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises PortInUse."""
    # uvicorn sets TCP_NODELAY only on sockets made with an explicit protocol
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        actual = "taken" if error.errno == errno.EADDRINUSE else str(error.strerror or error)
        raise PortInUse(port=port, host=host, actual=actual) from error
    return listener
