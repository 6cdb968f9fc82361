"""`flywheel blobs`: the bytes that events refer to."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

import typer

from eventlog.blobs import Listed
from eventlog.blobs.contract import GRACE, is_address
from eventlog.blobs.inventory import Survey, survey
from eventlog.blobs.inventory import sweep as sweep_blobs
from eventlog.blobs.inventory import verify as verify_blobs

from ..house import owned_blobs
from .output import AsJson, bar, confirm, emit_json, open_project, print_facts, print_rows, say, table

app = typer.Typer(help="Blobs: list, verify, sweep.", no_args_is_help=True)

_AGE = re.compile(r"(\d{1,6})([smhd])")
_UNIT = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@app.command("list")
def list_(
    orphans: Annotated[bool, typer.Option("--orphans", help="Only blobs that nothing refers to.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number.")] = 50,
    after: Annotated[str, typer.Option(help="Continue after this address.")] = "",
    as_json: AsJson = False,
) -> None:
    """List blobs by address, with media type, plain and stored size, and number of references."""
    if after and not is_address(after):
        raise typer.BadParameter(f"--after {after!r} is not an address; expected 64 lower-case hexadecimal digits")
    with open_project() as house, bar("counting references", None) as advance:
        found = survey(house.store, house.blobs, advance)
    wanted = found.orphans() if orphans else found.listed.values()
    rows = [_row(item, found) for item in wanted if item.address > after]
    columns = ("address", "media_type", "bytes", "stored", "references", "erased")
    print_rows(rows[:limit], columns, as_json=as_json, empty="no orphans" if orphans else "no blobs yet")
    if len(rows) > limit and not as_json:
        say(f"{len(rows) - limit} more; continue with --after {rows[limit - 1]['address']}")


def _row(item: Listed, found: Survey) -> dict[str, Any]:
    return {
        "address": item.address,
        "media_type": item.media_type,
        "bytes": item.size,
        "stored": item.stored,
        "references": found.counts.get(item.address, 0),
        "at": item.at.isoformat(),
        "is_subjects": item.subject is not None,
        "erased": item.is_erased,
    }


@app.command()
def verify(as_json: AsJson = False) -> None:
    """Decode every blob, compare it with its address, and list blobs that are referred to but missing."""
    with open_project() as house:
        total = len(house.blobs.digests())
        with bar("verifying blobs", total) as advance:
            found = verify_blobs(house.store, house.blobs, advance)
    is_sound = not found.damaged and not found.missing
    if as_json:
        bad = {"damaged": dict(found.damaged), "missing": dict(found.missing)}
        emit_json({"verified": found.blobs, "erased": found.erased, **bad})
    else:
        rows = [(address, "damaged", words) for address, words in found.damaged.items()]
        rows += [(address, "missing", f"referred to by {words}") for address, words in found.missing.items()]
        if rows:
            table(("address", "is", ""), rows)
        say(f"{found.blobs} blobs, {found.erased} erased, {len(found.damaged)} damaged, {len(found.missing)} missing")
    if not is_sound:
        raise typer.Exit(1)


@app.command()
def sweep(
    older_than: Annotated[
        str, typer.Option(help="Only blobs last written longer ago than this: 90m, 24h, 7d.")
    ] = "24h",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove blobs that no event and no message refers to. Needs the schema owner's rights."""
    age = _age(older_than)
    confirm(f"Remove all blobs that nothing refers to and that were last written more than {older_than} ago?", yes=yes)
    with open_project() as house, owned_blobs(house.settings) as blobs, bar("counting references", None) as advance:
        removed = sweep_blobs(house.store, blobs, age, advance)
    emit_json({"removed": removed}) if as_json else print_facts([("removed", f"{removed} blobs")])


def _age(text: str) -> timedelta:
    found = _AGE.fullmatch(text)
    age = None if found is None else timedelta(**{_UNIT[found[2]]: int(found[1])})
    if age is None or age < GRACE:
        raise typer.BadParameter(f"{text!r} is not an age of at least an hour; expected for example 90m, 24h or 7d")
    return age
