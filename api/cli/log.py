"""`flywheel log`: read, verify, sign, archive and transfer the log, and disown forged events."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from eventlog.events import EVENT_TYPES
from eventlog.signature import Signed, key_fingerprint
from eventlog.store import Position, Recorded
from eventlog.transfer import events_in, export_log, import_log, refuse_unwritable
from eventlog.verification import verify_log

from ..errors import BeyondHead
from ..history.disown import disown, forged_events
from ..history.sign import PUBLIC, check_signed, sign_head, signed_text, store_opener, to_sign, write_signed
from ..house import House, blobs_of, project_engine
from ..queries.events import logged_event
from ..queries.log_status import CountAnswer, ForgedPage, HeadAnswer, chain_head, count_events, list_forged
from ..settings import read_settings
from .archive import archive_command
from .db import migrate_project
from .log_tail import plain_event, print_event, tail_server
from .output import ERR, AsJson, AsOf, bar, emit_json, open_project, print_rows, say, say_more
from .sources import Server, open_server, open_source

app = typer.Typer(
    help="The log: head, tail, verify, sign, inspect, disown, archive, export, import.", no_args_is_help=True
)

_WORTH_A_PROCESS = 20_000

Workers = Annotated[
    int | None, typer.Option(min=1, max=64, help="Parallel processes. Default: one per core for a long log.")
]


@app.command()
def head(server: Server = None, as_json: AsJson = False) -> None:
    """Print the last position and the chain digest there."""
    if server is None:
        with open_project() as house:
            found = chain_head(house.store, house.store.head())
    else:
        with open_server(server) as source:
            found = source.read(HeadAnswer, "/v1/log")
    emit_json(found) if as_json else say(f"{found.position}  {found.chain}")


@app.command()
def tail(
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=10_000, help="Number of events.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new events until interrupted.")] = False,
    kind: Annotated[str | None, typer.Option("--type", help="Only events of this type.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Print the last events, and new ones with --follow. Those of a server come without their digests."""
    if kind is not None and kind not in EVENT_TYPES:
        raise typer.BadParameter(f"{kind!r} is no event type; expected one of {', '.join(sorted(EVENT_TYPES))}")
    if server is not None:
        tail_server(server, count, kind, follow=follow, as_json=as_json)
        return
    with open_project() as house:
        start = Position(max(0, house.store.head() - count))
        events = [event for event in house.store.read(after=start) if kind in {None, event.event.type}]
        if as_json and not follow:
            emit_json([_plain(event) for event in events])
            return
        for event in events:
            print_event(logged_event(event), _plain(event), as_json=as_json)
        if follow:
            for batch in house.store.subscribe(after=events[-1].position if events else start, until=lambda _p: False):
                for event in batch:
                    if kind in {None, event.event.type}:
                        print_event(logged_event(event), _plain(event), as_json=as_json)


def _plain(event: Recorded) -> dict[str, Any]:
    return plain_event(logged_event(event)) | {"digest": event.digest.hex()}


@app.command()
def verify(
    first: Annotated[int, typer.Option("--from", min=1, metavar="P", help="The first position to verify.")] = 1,
    last: Annotated[
        int | None, typer.Option("--to", min=1, metavar="P", help="The last one. Default: the head.")
    ] = None,
    workers: Workers = None,
    signature: Annotated[
        Path | None,
        typer.Option(help="The file that `log sign` wrote.", exists=True, dir_okay=False),
    ] = None,
    public_key: Annotated[
        Path | None,
        typer.Option(help="The key you trust, in PEM. Default: this project's own.", exists=True, dir_okay=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check every event's digest, the gapless order, the hash chain, versions, append keys, and the guards.

    With --signature, also check that the log still contains the signed head. The check stops at the first damage, which
    is the same for any --workers.
    """
    if public_key is not None and signature is None:
        raise typer.BadParameter("--public-key is for --signature; name both")
    if last is not None and last < first:
        raise typer.BadParameter(f"--to {last} lies before --from {first}; expected a range of positions")
    with open_project() as house:
        head = house.store.head()
        if max(first - 1, last or 0) > head:
            raise BeyondHead(expected=max(first, last or 0), actual=head)
        signed = None if signature is None else check_signed(house, signature, public_key, head)
        upto = Position(last or head)
        chain = _verify_chain(house, Position(first - 1), upto, workers, "verifying the log")
    amount = upto - first + 1
    if as_json:
        plain = None if signed is None else signed.model_dump(mode="json", exclude_none=True)
        shown = None if signed is None or plain is None else {**plain, "key": _fingerprint(signed)}
        found = {"verified": amount, "from": first, "to": upto, "chain": chain.hex()}
        emit_json({**found, "signature": shown})
        return
    say(f"{amount} events verify{'' if first == 1 else f' from position {first} on'}; chain {chain.hex()}")
    if signed is not None:
        say(f"What {_fingerprint(signed)} signed at {signed.at} still stands at position {signed.position}.")


def _verify_chain(house: House, after: Position, upto: Position, workers: int | None, title: str) -> bytes:
    """The chain digest at `upto`. Default workers: one per core, each with enough events to check."""
    amount = upto - after
    side_by_side = min(os.cpu_count() or 1, 1 + amount // _WORTH_A_PROCESS) if workers is None else workers
    with bar(title, amount) as advance:
        return verify_log(store_opener(house), after=after, upto=upto, workers=side_by_side, progress=advance)


@app.command()
def sign(
    out: Annotated[
        Path | None, typer.Option(help="Where to write the signed head. Default: the terminal.", dir_okay=False)
    ] = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Sign the head, for a place outside this machine; `log verify --signature` compares the log with it later.

    Events since the last signature are verified first. A log that does not extend the signed one is refused.
    """
    with open_project() as house:
        now, after = to_sign(house)
        _verify_chain(house, after, now.head, workers, "verifying what is new")
        found = sign_head(house, now, datetime.now(UTC))
        kept = house.settings.key_folder / PUBLIC
    if out is not None:
        write_signed(found, out)
    if out is None or as_json:
        typer.echo(signed_text(found), nl=False)
    where = "" if out is None else f" in {out}"
    ERR.print(Text(f"Position {found.position} is signed{where} with {_fingerprint(found)}"), soft_wrap=True)
    ERR.print(Text(f"Keep the statement and {kept} where the database's owner cannot change them."), soft_wrap=True)


def _fingerprint(signed: Signed) -> str:
    return key_fingerprint(bytes.fromhex(signed.public_key))


@app.command(name="export")
def export(
    file: Annotated[Path, typer.Argument(help="Where to write; a .gz ending compresses.")], as_json: AsJson = False
) -> None:
    """Write the log and its blobs, without keys, to a file that `log import` reads and only you can open."""
    refuse_unwritable(file)
    with open_project() as house, bar("exporting", house.store.head()) as advance:
        count = export_log(house.engine, file, advance, blobs=house.blobs, archive=house.store.archive)
    emit_json({"events": count, "file": file}) if as_json else say(f"{count} events and their blobs are in {file}")


@app.command(name="import")
def import_(
    file: Annotated[Path, typer.Argument(help="What `log export` wrote.", exists=True, dir_okay=False)],
    as_json: AsJson = False,
) -> None:
    """Read an exported log into this project's empty log, with the same positions, times and digests."""
    settings = read_settings()
    migrate_project(settings)
    with project_engine(settings, is_owner=True) as engine:
        blobs = blobs_of(settings, engine) if settings.blobs else None
        with bar("importing", events_in(file)) as advance:
            count = import_log(engine, file, advance, blobs=blobs)
    found = {"events": count, "file": file}
    emit_json(found) if as_json else say(f"{count} events imported; `flywheel log verify` checks them")


@app.command()
def inspect(
    after: Annotated[int, typer.Option(min=0, help="Only events after this position.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Number of events.")] = 100,
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List forged events: those that their actor may not have written, and that were not disowned.

    The holder of a token writes as api:NAME, and may write only what the REST API takes from outside.
    """
    with open_source(server, as_of) as source:
        found, following = source.pages(
            ForgedPage,
            "events",
            "/v1/log/forged",
            lambda _house, views: list_forged(views, after=after, limit=limit),
            after,
            limit,
        )
    rows = [{**msgspec.structs.asdict(event), "at": event.at.isoformat()} for event in found]
    if as_json:
        emit_json({"events": rows, "next": following})
        return
    print_rows(rows, ("position", "at", "type", "stream", "actor"), as_json=False, empty="no forged events")
    say_more(following)
    if found:
        say("To leave them out of every projection: flywheel log disown --all --reason WHY (or POSITION... for some)")


@app.command("disown")
def disown_command(
    reason: Annotated[str, typer.Option(help="Why.")],
    positions: Annotated[list[int] | None, typer.Argument(min=1, help="Positions that `log inspect` lists.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that `log inspect` lists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Leave forged events out of every projection from now on, by an event of its own. Nothing is deleted.

    As of an earlier position, reads still show what they led to.
    """
    if every == bool(positions):
        raise typer.BadParameter("name the positions of forged events, or --all")
    with open_project() as house:
        views = house.views()
        chosen = [event.position for event in forged_events(views)] if every else positions or []
        since = disown(house.store, views, chosen, reason, "operator")
        house.views()
    found = sorted(set(chosen))
    if as_json:
        emit_json({"disowned": found, "since": since})
    else:
        say(f"Every projection leaves {len(found)} forged events out from position {since} on.")


@app.command()
def stats(server: Server = None, as_json: AsJson = False) -> None:
    """Count events by type."""
    if server is None:
        with open_project() as house:
            found = count_events(house.store)
    else:
        with open_server(server) as source:
            found = source.read(CountAnswer, "/v1/log/counts")
    rows = [{"type": kind, "events": events} for kind, events in found.events.items()]
    print_rows(rows, ("type", "events"), as_json=as_json, empty="no events")


app.command("archive")(archive_command)
