"""`flywheel ui`: open the dashboard of a server in a browser."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from ..errors import NothingServed
from ..settings import read_settings
from .output import say


def ui(
    url: Annotated[
        str | None, typer.Option(help="Where it is served. Default: FLYWHEEL_HOST and FLYWHEEL_PORT.")
    ] = None,
) -> None:
    """Open the dashboard in a browser. It is served by `flywheel serve`."""
    import httpx2

    settings = read_settings()
    scheme = "http" if settings.tls_certificate is None else "https"
    address = (url or f"{scheme}://{settings.host}:{settings.port}").rstrip("/")
    try:
        httpx2.get(f"{address}/healthz", timeout=5)
    except httpx2.HTTPError as error:
        raise NothingServed(actual=type(error).__name__, expected=address) from error
    if not webbrowser.open(f"{address}/"):
        say("No browser could be opened here.")
    say(f"The dashboard is at {address}/")
