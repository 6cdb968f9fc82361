"""`flywheel mcp`: tools for agents over the Model Context Protocol."""

from __future__ import annotations

from .interrupts import leave_to_server
from .output import open_project


def mcp() -> None:
    """Serve tools that read the log to an agent, over standard input and output.

    Nothing can be changed through them, and what sealed runs earned is told in bands. Needs the extra `mcp`. See
    docs/mcp.md.
    """
    from ..mcp.server import create_server

    with open_project() as house, leave_to_server():
        create_server(house).run("stdio")
