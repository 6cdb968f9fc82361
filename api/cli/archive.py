"""`flywheel log archive`: move old events into Parquet segments."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer
from sqlalchemy import Engine

from eventlog.archive.drop import drop, droppable
from eventlog.archive.segments import archived_upto, check_owner, live_from
from eventlog.archive.write import MOST, SIZE, Archived, archive
from eventlog.postgres import PostgresStore
from eventlog.store import Position

from ..errors import BadPosition
from ..house import check_schema, project_engine
from ..settings import Settings, read_settings
from .output import AsJson, bar, confirm, emit_json, say


def archive_command(
    before: Annotated[
        str | None,
        typer.Option(metavar="POSITION|TIME", help="Archive events before this position or ISO 8601 time."),
    ] = None,
    keep: Annotated[int | None, typer.Option(min=1, help="Archive all but the newest N events.")] = None,
    segment_size: Annotated[int, typer.Option(min=1, max=MOST, help="Events per segment.")] = SIZE,
    whole: Annotated[
        bool, typer.Option("--whole", help="Archive only full segments; leave the rest for later.")
    ] = False,
    drop_: Annotated[
        bool, typer.Option("--drop", help="Then verify the segment files and delete their events from the table.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before deleting.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write old events to Parquet segments under FLYWHEEL_ARCHIVE; reads work as before. Needs the owner's URL.

    It may be interrupted: the next call continues after the last complete segment. docs/archive.md: the format.
    """
    if before is None and keep is None:
        raise typer.BadParameter("expected --before POSITION|TIME, or --keep N to archive all but the newest N events")
    settings = read_settings()
    with project_engine(settings, is_owner=True) as owner:
        check_schema(owner)
        check_owner(owner)
        upto = _mark(owner, settings, before, keep)
        if whole:
            upto = _round_down(owner, upto, segment_size)
        made = _archive(owner, settings, upto, segment_size)
        dropped = _drop(owner, settings, upto, yes=yes) if drop_ else None
        found = _summary(owner, settings, upto, made, dropped)
    emit_json(found) if as_json else _show(found)


def _mark(owner: Engine, settings: Settings, before: str | None, keep: int | None) -> Position:
    """The last position to archive. The newest event is never archived. Raises BadPosition."""
    store = PostgresStore(owner, archive=settings.archive_folder)
    head = store.head()
    marks = [head - (1 if keep is None else keep)]
    if before is not None:
        marks.append(_before(store, before))
    return Position(max(0, min(marks)))


def _before(store: PostgresStore, given: str) -> int:
    if given.isascii() and given.isdigit():
        return int(given) - 1
    try:
        return store.position_at(datetime.fromisoformat(given) - timedelta(microseconds=1))
    except (ValueError, OverflowError) as error:
        raise BadPosition(actual=given) from error


def _round_down(owner: Engine, upto: Position, size: int) -> Position:
    with owner.connect() as connection:
        done, _ = archived_upto(connection)
    return Position(max(done, upto - (upto - done) % size))


def _archive(owner: Engine, settings: Settings, upto: Position, size: int) -> Archived:
    with owner.connect() as connection:
        done, _ = archived_upto(connection)
    if done >= upto:
        return Archived(0, 0, 0, 0)
    with bar("archiving", upto - done) as advance:
        return archive(owner, settings.archive_folder, upto, size=size, progress=advance)


def _drop(owner: Engine, settings: Settings, upto: Position, *, yes: bool) -> int:
    """Delete archived events from the table. Returns their number."""
    before = live_from(owner)
    found = droppable(owner, upto)
    if not found:
        return 0
    amount, last = sum(manifest.events for manifest in found), found[-1].last
    place = settings.archive_folder / settings.project
    confirm(f"Delete events {before} to {last} from the table? They remain only in {place}.", yes=yes)
    with bar("verifying the segments", amount) as advance:
        drop(owner, settings.archive_folder, upto, progress=advance)
    return live_from(owner) - before


def _summary(owner: Engine, settings: Settings, upto: int, made: Archived, dropped: int | None) -> dict[str, Any]:
    with owner.connect() as connection:
        done, _ = archived_upto(connection)
    return {
        "written": asdict(made),
        "upto": upto,
        "archived_upto": done,
        "dropped": dropped,
        "live_from": live_from(owner),
        "folder": str(settings.archive_folder / settings.project),
    }


def _show(found: dict[str, Any]) -> None:
    made = found["written"]
    if made["events"]:
        what = "segment" if made["segments"] == 1 else "segments"
        say(f"archived {made['events']} events, {made['first']} to {made['last']}, in {made['segments']} {what}")
    elif found["upto"]:
        say(f"nothing new to archive: the events up to {found['archived_upto']} are archived")
    else:
        say("nothing to archive: there is no event before that position")
    if found["dropped"] is not None:
        say(f"deleted {found['dropped']} events from the table; it now begins at {found['live_from']}")
    elif found["archived_upto"] >= found["live_from"]:
        say(f"the table still holds archived events from {found['live_from']} on; --drop deletes them")
    if found["archived_upto"]:
        say(f"the archive is in {found['folder']}")
