"""`flywheel replay`: recompute projections from the log, compare and rebuild them."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from projections import ALL
from projections.engine.builds import Bookmark
from projections.engine.compare import Compared, compare
from projections.engine.projection import AnyFold
from projections.engine.rebuild import prune as pruned_builds
from projections.engine.views import PostgresViews
from projections.errors import UnknownProjection
from projections.frames.engines import MapOver, here, on_processes, on_ray
from projections.frames.frame import Frame
from projections.frames.framing import compare_frames
from projections.frames.outcomes import FRAMES

from ..house import House
from ..settings import keep_ray_quiet
from .output import ERR, AsJson, bar, emit_json, gauge, open_project, say, table

_MOST_PROCESSES = 256


def replay(
    verify: Annotated[bool, typer.Option("--verify", help="Fail unless every projection is identical.")] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Build new tables beside the live ones, then switch.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove tables of projection versions that this code no longer reads.")
    ] = False,
    to: Annotated[
        str | None, typer.Option(metavar="POSITION|TIME", help="Compare at this position or time. Default: the head.")
    ] = None,
    projection: Annotated[list[str] | None, typer.Option(help="Only this projection; may be repeated.")] = None,
    frames_on: Annotated[
        str,
        typer.Option(
            metavar="here|processes[:N]|ray[:HOST:PORT]", help="Where frames are built from archived segments."
        ),
    ] = "here",
    as_json: AsJson = False,
) -> None:
    """Recompute the projections from the log and compare them.

    Digests are compared with those of the live tables. A projection keyed by run keeps no earlier state, so its table
    is always compared at its own position, even with --to. A frame has no table: the one built from the archive's
    columns is compared with one built from rows.

    A rebuild reads the log once for all projections and then switches. Until then readers see the old tables.
    """
    if rebuild and to is not None:
        raise typer.BadParameter("--rebuild always builds up to the head; run --rebuild and --to separately")
    over = engine_of(frames_on)
    folds, frames = choose_projections(projection or [])
    with open_project() as house:
        parked = _rebuilt(house, folds) if rebuild and folds else []
        removed = pruned_builds(house.engine, ALL) if prune else ()
        views = house.views_at(to)
        found = _compare(house, views, folds, frames, over)
    if as_json:
        emit_json([_plain(row) for row in found])
    else:
        _show(found, removed)
    for bookmark in parked:
        ERR.print(
            f"{bookmark.projection} was not switched: at position {bookmark.position} it stopped on"
            f" {bookmark.parked_error}. The old table stays in use; fix the projection and rebuild again.",
            markup=False,
            soft_wrap=True,
        )
    if parked or (verify and not all(row.is_identical for row in found)):
        raise typer.Exit(1)


def choose_projections(names: list[str]) -> tuple[tuple[AnyFold, ...], tuple[Frame, ...]]:
    """Folds and frames with these names; all if none is named. Raises UnknownProjection."""
    known = [fold.name for fold in ALL] + [frame.name for frame in FRAMES]
    for name in names:
        if name not in known:
            raise UnknownProjection(actual=name, expected=", ".join(known))
    wanted = names or known
    return tuple(one for one in ALL if one.name in wanted), tuple(one for one in FRAMES if one.name in wanted)


def _rebuilt(house: House, folds: tuple[AnyFold, ...]) -> list[Bookmark]:
    """Rebuild these folds. Returns the bookmarks of those that stopped on an error."""
    with gauge("rebuilding", house.store.head()) as advance:
        found = house.projector.rebuild([fold.name for fold in folds], progress=advance)
    return [bookmark for bookmark in found if bookmark.parked_at is not None]


def engine_of(given: str) -> MapOver:
    """The engine that builds parts of frames. `processes` starts one per core, `ray` a temporary cluster.

    Raises BadParameter.
    """
    name, _, rest = given.partition(":")
    if name == "here" and not rest:
        return here
    if name == "processes" and (rest == "" or (rest.isascii() and rest.isdigit() and 0 < int(rest) <= _MOST_PROCESSES)):
        return on_processes(int(rest or os.cpu_count() or 1))
    if name == "ray":
        keep_ray_quiet()
        return on_ray(rest or None)
    expected = f"here, processes, processes:1 to processes:{_MOST_PROCESSES}, ray or ray:HOST:PORT"
    raise typer.BadParameter(f"--frames-on is {given!r}: expected {expected}")


def _compare(
    house: House, views: PostgresViews, folds: tuple[AnyFold, ...], frames: tuple[Frame, ...], over: MapOver
) -> list[Compared]:
    found = []
    if folds:
        with bar("replaying", len(folds)) as advance:
            for row in compare(views, folds):
                found.append(row)
                advance()
    if frames:
        with gauge("frames", views.upto) as advance_to:
            found += compare_frames(views.engine, house.store, views.upto, frames, over=over, progress=advance_to)
    return found


def _show(found: list[Compared], removed: tuple[Bookmark, ...]) -> None:
    for one in removed:
        say(f"Removed the table of {one.projection} version {one.version}, which this code no longer reads.")
    rows = []
    for row in found:
        outcome = "identical" if row.is_identical else f"DIFFERENT, first at {row.differs}"
        rows.append((row.projection, row.version, row.upto, row.rows, row.rebuilt[:16], row.live[:16], outcome))
    table(("projection", "version", "position", "rows", "rebuilt", "live", ""), rows)
    different = [row.projection for row in found if not row.is_identical]
    if different:
        names = " ".join(f"--projection {name}" for name in different)
        say(f"Different: {', '.join(different)}.")
        say("First check the log itself: flywheel log verify")
        say(f"If it is valid, the tables are wrong. Rebuild them: flywheel replay --rebuild {names}")
    else:
        positions = {row.upto for row in found}
        where = f"position {positions.pop()}" if len(positions) == 1 else "the positions shown"
        say(f"Every projection is identical at {where}.")


def _plain(row: Compared) -> dict[str, object]:
    return {
        "projection": row.projection,
        "version": row.version,
        "position": row.upto,
        "rows": row.rows,
        "rebuilt": row.rebuilt,
        "live": row.live,
        "identical": row.is_identical,
        "differs": row.differs,
    }
