"""`flywheel replay`: fold the log again, compare, rebuild."""

from __future__ import annotations

from typing import Annotated

import typer

from projections import ALL
from projections.errors import UnknownProjection
from projections.projection import AnyFold
from projections.views import Compared, PostgresViews, compare

from ..reading import read_position
from .output import AsJson, bar, emit_json, opened, say, table


def replay(
    verify: Annotated[bool, typer.Option("--verify", help="Fail unless every projection is identical.")] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Throw the tables away and fold them again.")] = False,
    to: Annotated[str | None, typer.Option(metavar="POSITION|TIME", help="Up to here. Default: the head.")] = None,
    projection: Annotated[list[str] | None, typer.Option(help="Only this one; may be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fold every projection from the log beside the live one and compare their digests.

    With --to, a projection keyed by run keeps no earlier state: there both sides are folded from the log.
    """
    folds = chosen(projection or [])
    with opened() as house:
        if rebuild:
            with bar("rebuilding", len(folds)) as advance:
                for fold in folds:
                    house.projector.rebuild([fold.name])
                    advance()
        views = house.views(read_position(house.store, to))
        found = _compared(views, folds)
    if as_json:
        emit_json([_plain(row) for row in found])
    else:
        _show(found, views)
    if verify and not all(row.is_identical for row in found):
        raise typer.Exit(1)


def chosen(names: list[str]) -> tuple[AnyFold, ...]:
    """The folds of these names, all where none is named. Raises UnknownProjection."""
    known = {fold.name: fold for fold in ALL}
    for name in names:
        if name not in known:
            raise UnknownProjection(actual=name, expected=", ".join(known))
    return tuple(known[name] for name in names) if names else ALL


def _compared(views: PostgresViews, folds: tuple[AnyFold, ...]) -> list[Compared]:
    found = []
    with bar("replaying", len(folds)) as advance:
        for row in compare(views, folds):
            found.append(row)
            advance()
    return found


def _show(found: list[Compared], views: PostgresViews) -> None:
    rows = [(row.projection, row.version, row.rows, row.rebuilt[:16], row.live[:16], _said(row)) for row in found]
    table(("projection", "version", "rows", "rebuilt", "live", ""), rows)
    different = [row.projection for row in found if not row.is_identical]
    if different:
        names = " ".join(f"--projection {name}" for name in different)
        say(f"Different at position {views.upto}: {', '.join(different)}.")
        say("Look first whether the log itself is sound: flywheel log verify")
        say(f"If it is, the tables are wrong, and are made again by: flywheel replay --rebuild {names}")
    else:
        say(f"Every projection is identical at position {views.upto}.")


def _said(row: Compared) -> str:
    return "identical" if row.is_identical else f"DIFFERENT, first at {row.differs}"


def _plain(row: Compared) -> dict[str, object]:
    return {
        "projection": row.projection,
        "version": row.version,
        "rows": row.rows,
        "rebuilt": row.rebuilt,
        "live": row.live,
        "identical": row.is_identical,
        "differs": row.differs,
    }
