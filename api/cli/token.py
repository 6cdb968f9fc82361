"""`flywheel token`: access tokens for the REST API."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from eventlog.events import TokenRole

from .. import tokens
from ..queries.access import TokenList, list_tokens
from .output import AsJson, AsOf, emit_json, open_project, print_rows, say
from .sources import Server, open_source

app = typer.Typer(help="Tokens: issue, list, revoke.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The token's name.")]
Role = Annotated[
    TokenRole,
    typer.Option(
        help="read: every GET. ingest: also append runs of other agents, their rewards, opinions and blobs. "
        "operate: also have runs played, register slices, append prices. admin: also read sealed results."
    ),
]


@app.command()
def issue(name: Name, role: Role = tokens.DEFAULT_ROLE, as_json: AsJson = False) -> None:
    """Create a token and print it. It cannot be shown again.

    The role ingest, the default, reads and records runs of other agents; having runs played takes operate. docs/rest.md
    has what each role may call and append.
    """
    with open_project() as house:
        plain = tokens.issue(house.store, name, "operator", role)
    emit_json({"name": name, "role": role, "token": plain}) if as_json else say(plain)


@app.command("list")
def list_(as_of: AsOf = None, server: Server = None, as_json: AsJson = False) -> None:
    """List tokens by name. The tokens themselves are not stored. A server tells administrators alone."""
    with open_source(server, as_of) as source:
        rows, _ = source.pages(TokenList, "tokens", "/v1/tokens", lambda _house, views: list_tokens(views), None, None)
    print_rows(
        msgspec.to_builtins(rows),
        ("token", "role", "revoked"),
        as_json=as_json,
        empty="no tokens; create one with `flywheel token issue NAME`",
    )


@app.command()
def revoke(name: Name, reason: Annotated[str, typer.Option(help="Why.")]) -> None:
    """Stop accepting a token."""
    with open_project() as house:
        tokens.revoke(house.store, house.views(), name, reason, "operator")
    say(f"{name} is no longer accepted")
