"""Sends a file to whoever connects, and nothing else: what the way from one process to another can carry."""

from __future__ import annotations

import socket
from pathlib import Path

PIECE = 1 << 20


def main() -> None:
    """Print the port, then send the file whose path each connection's first line holds, until the process is killed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                path = Path(connection.makefile("rb").readline().decode().strip())
                with path.open("rb") as file:
                    while piece := file.read(PIECE):
                        connection.sendall(piece)


if __name__ == "__main__":
    main()
