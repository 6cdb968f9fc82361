"""`flywheel doctor`: check the installation and the database for problems."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from ..checks import checks
from ..settings import read_settings
from .output import AsJson, emit_json, table


def doctor(
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port to check. Default: FLYWHEEL_PORT.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the installation, the database and the log.

    Looks at Python, home, port, database, schema, log, projections and token (FLYWHEEL_TOKEN). The exit code is 1 if a
    check fails.
    """
    found = list(checks(read_settings(), port=port))
    if as_json:
        emit_json([dataclasses.asdict(check) for check in found])
    else:
        table(("check", "", "found"), [(check.name, "ok" if check.ok else "FAILS", check.found) for check in found])
    if not all(check.ok for check in found):
        raise typer.Exit(1)
