"""`flywheel doctor`: check the installation and the database for problems."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from ..checks import checks
from ..settings import read_settings
from .output import AsJson, emit_json, say, table
from .ready import ask_ready


def doctor(
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port to check. Default: FLYWHEEL_PORT.")
    ] = None,
    ready: Annotated[
        bool, typer.Option("--ready", help="Only ask the server that runs on this machine whether it can be asked.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check the installation, the database and the log.

    Looks at Python, home, port, database, schema, log, projections and token (FLYWHEEL_TOKEN). The exit code is 1 if a
    check fails. With --ready it is 1 unless `flywheel serve` answers, over TLS or not, that it is ready.
    """
    if ready:
        settings = read_settings()
        ask_ready(settings.port if port is None else port, is_tls=settings.tls_certificate is not None)
        say("ready")
        return
    found = list(checks(read_settings(), port=port))
    if as_json:
        emit_json([dataclasses.asdict(check) for check in found])
    else:
        table(("check", "", "found"), [(check.name, "ok" if check.ok else "FAILS", check.found) for check in found])
    if not all(check.ok for check in found):
        raise typer.Exit(1)
