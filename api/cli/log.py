"""`flywheel log`: the events themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from eventlog.chain import GENESIS, verified
from eventlog.database import open_engine
from eventlog.events import EVENT_TYPES
from eventlog.store import START, Position, Recorded
from eventlog.transfer import export_log, import_log

from ..house import blobs_of, owner_url
from ..routes.events import plain
from ..settings import read_settings
from ..summary import head_chain
from .db import migrated
from .output import AsJson, bar, emit_json, listing, opened, say

app = typer.Typer(help="The log: head, tail, verify, archive, export, import.", no_args_is_help=True)


@app.command()
def head(as_json: AsJson = False) -> None:
    """Print the last position and the chain digest there."""
    with opened() as house:
        position = house.store.head()
        found = {"position": position, "chain": head_chain(house, position)}
    emit_json(found) if as_json else say(f"{found['position']}  {found['chain']}")


@app.command()
def tail(
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=10_000, help="How many of the last events.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new events until interrupted.")] = False,
    kind: Annotated[str | None, typer.Option("--type", help="Only events of this type.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the last events, and new ones with --follow."""
    if kind is not None and kind not in EVENT_TYPES:
        raise typer.BadParameter(f"{kind!r} is no event type; expected one of {', '.join(sorted(EVENT_TYPES))}")
    with opened() as house:
        start = Position(max(0, house.store.head() - count))
        events = [event for event in house.store.read(after=start) if kind in {None, event.event.type}]
        if as_json and not follow:
            emit_json([_plain(event) for event in events])
            return
        for event in events:
            _line(event, as_json=as_json)
        if follow:
            for batch in house.store.subscribe(after=events[-1].position if events else start, until=lambda _p: False):
                for event in batch:
                    if kind in {None, event.event.type}:
                        _line(event, as_json=as_json)


def _line(event: Recorded, *, as_json: bool) -> None:
    if as_json:
        emit_json(_plain(event))
    else:
        say(
            f"{event.position:>8}  {event.at:%Y-%m-%d %H:%M:%S}  {event.event.type:<18} {event.stream}  ({event.actor})"
        )


def _plain(event: Recorded) -> dict[str, Any]:
    return {**plain(event), "at": event.at.isoformat(), "digest": event.digest.hex()}


@app.command()
def verify(as_json: AsJson = False) -> None:
    """Check every event's digest, the gapless order and the hash chain."""
    with opened() as house:
        upto = house.store.head()
        last = GENESIS
        with bar("verifying the log", upto) as advance:
            for row in verified(house.store.stored(upto=upto), after=START, previous=GENESIS):
                last = row.chain
                advance()
    found = {"verified": upto, "chain": last.hex()}
    emit_json(found) if as_json else say(f"{upto} events verify; chain {last.hex()}")


@app.command(name="export")
def export(
    file: Annotated[Path, typer.Argument(help="Where to write; a .gz ending compresses.")], as_json: AsJson = False
) -> None:
    """Write the whole log and its blobs, without any keys, to a file for your eyes alone that `log import` reads."""
    with opened() as house, bar("exporting", house.store.head()) as advance:
        count = export_log(house.engine, file, advance, blobs=house.blobs, archive=house.store.archive)
    emit_json({"events": count, "file": file}) if as_json else say(f"{count} events and their blobs are in {file}")


@app.command(name="import")
def import_(
    file: Annotated[Path, typer.Argument(help="What `log export` wrote.", exists=True, dir_okay=False)],
    as_json: AsJson = False,
) -> None:
    """Read an exported log into this project's empty log, with the same positions, times and digests."""
    settings = read_settings()
    migrated(settings)
    engine = open_engine(owner_url(settings), settings.project)
    try:
        blobs = blobs_of(settings, engine) if settings.blobs else None
        with bar("importing", None) as advance:
            count = import_log(engine, file, advance, blobs=blobs)
    finally:
        engine.dispose()
    found = {"events": count, "file": file}
    emit_json(found) if as_json else say(f"{count} events imported; `flywheel log verify` checks them")


@app.command()
def stats(as_json: AsJson = False) -> None:
    """Count events by type."""
    with opened() as house:
        rows = [{"type": kind, "events": events} for kind, events in sorted(house.store.counts().items())]
    listing(rows, ("type", "events"), as_json=as_json, empty="no events")
