"""`flywheel blobs`: the bytes that events refer to."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from eventlog.blobs.contract import GRACE, is_address
from eventlog.blobs.inventory import survey
from eventlog.blobs.inventory import sweep as sweep_blobs
from eventlog.blobs.inventory import verify as verify_blobs

from ..house import owned_blobs
from ..queries.blobs import BlobPage, BlobRow, blob_row, list_blobs
from .output import (
    AsJson,
    Limit,
    bar,
    confirm,
    emit_json,
    open_project,
    print_facts,
    print_rows,
    say,
    say_more,
    table,
)
from .sources import Server, open_server, refuse_options

if TYPE_CHECKING:
    from ..house import House

app = typer.Typer(help="Blobs: list, verify, sweep.", no_args_is_help=True)

_AGE = re.compile(r"(\d{1,6})([smhd])")
_UNIT = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _read_address(given: str | None) -> str | None:
    if given is not None and not is_address(given):
        raise typer.BadParameter(f"{given!r} is not an address; expected 64 lower-case hexadecimal digits")
    return given


@app.command("list")
def list_(
    orphans: Annotated[bool, typer.Option("--orphans", help="Only blobs that nothing refers to.")] = False,
    references: Annotated[
        bool, typer.Option("--references", help="Also count the references to each, which reads the whole log.")
    ] = False,
    limit: Limit = 50,
    after: Annotated[str | None, typer.Option(callback=_read_address, help="Continue after this address.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List blobs by address, with media type, plain and stored size. A server tells administrators alone."""
    counting = {"--orphans": orphans, "--references": references}
    refuse_options(server, counting, "references are counted where the log is")
    if server is not None:
        with open_server(server) as source:
            page, following = source.pages(BlobPage, "blobs", "/v1/blobs", None, after, limit)
        rows = [_row(each) for each in page]
    else:
        with open_project() as house:
            if any(counting.values()):
                rows, following = _count_blobs(house, after, limit, orphans=orphans)
            else:
                found = list_blobs(house.blobs, after=after, limit=limit)
                rows, following = [_row(each) for each in found.blobs], found.next
    columns = (
        "address",
        "media_type",
        "bytes",
        "stored",
        *(["references"] if any(counting.values()) else []),
        "erased",
    )
    print_rows(rows, columns, as_json=as_json, empty="no orphans" if orphans else _none(after))
    say_more(following)


def _count_blobs(
    house: House, after: str | None, limit: int, *, orphans: bool
) -> tuple[list[dict[str, Any]], str | None]:
    """A page of the blobs, or of the orphans among them, with the references to each; and where it goes on."""
    with bar("counting references", None) as advance:
        found = survey(house.store, house.blobs, advance)
    wanted = [item for item in (found.orphans() if orphans else found.listed.values()) if item.address > (after or "")]
    rows = [{**_row(blob_row(item)), "references": found.counts.get(item.address, 0)} for item in wanted[:limit]]
    return rows, rows[-1]["address"] if len(wanted) > limit else None


def _none(after: str | None) -> str:
    return "no blobs yet" if after is None else f"no blobs after {after}"


def _row(blob: BlobRow) -> dict[str, Any]:
    return {**msgspec.structs.asdict(blob), "at": blob.at.isoformat()}


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
