"""Open the server's listening socket before its address is printed."""

from __future__ import annotations

import errno
import socket

from .errors import ApiPortInUse, BadHost


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on host and port. Raises ApiPortInUse, BadHost."""
    # uvicorn sets TCP_NODELAY only on sockets made with an explicit protocol
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(512)
    except socket.gaierror as error:
        listener.close()
        raise BadHost(actual=host, why=error.strerror) from error
    except OSError as error:
        listener.close()
        actual = "taken" if error.errno == errno.EADDRINUSE else str(error.strerror or error)
        raise ApiPortInUse(port=port, host=host, actual=actual) from error
    return listener
