"""Outcomes: how the runs of each sweep went, counted."""

from __future__ import annotations

import base64
from functools import partial

import msgspec
from msgspec.structs import replace

from projections.engine.decoders import decoder_of
from projections.engine.views import Views
from projections.frames.framing import FrameViews
from projections.frames.outcomes import OUTCOMES, Cell, select_outcomes

from .untold import find_untold

_UNTOLD = dict.fromkeys(("runs", "graded", "passed", "steps", "score", "valued", "value", "priced", "cost"))


class OutcomeRow(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one sweep and template, with a candidate (`is_treated`) or without; null is not known of them.

    Of `runs`, so many are `missing`, so many `graded`, and of these so many `passed`. `steps`, `score`, `value` and
    `cost` are sums: `value` over the `valued` runs, `cost` over the `priced` ones; in micro-units. Of an evaluation
    whose sealed results may not be told yet only `missing` is told: how many runs of a template there were tells what
    was played again because it looked worse.
    """

    sweep: str | None
    template: str | None
    is_treated: bool | None
    runs: int | None
    graded: int | None
    passed: int | None
    missing: int
    steps: int | None
    score: int | None
    valued: int | None
    value: int | None
    priced: int | None
    cost: int | None


class OutcomePage(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes by sweep, template and treatment; `next` is the place to continue after, null where no more follow."""

    outcomes: tuple[OutcomeRow, ...]
    next: str | None


def list_outcomes(
    frames: FrameViews,
    views: Views,
    *,
    sweep: str | None = None,
    template: str | None = None,
    after: Cell | None = None,
    limit: int | None = None,
) -> OutcomePage:
    """A page of outcomes, of one sweep or template where it is given."""
    select = partial(select_outcomes, sweep=sweep, template=template, after=after)
    found = frames.read(OUTCOMES, views.upto, select=select, limit=None if limit is None else limit + 1)
    page = tuple(OutcomeRow(**row) for row in found.head(len(found) if limit is None else limit).iter_rows(named=True))
    untold = find_untold(views, frozenset(row.sweep for row in page if row.sweep is not None))
    told = tuple(replace(row, **_UNTOLD) if row.sweep in untold else row for row in page)
    return OutcomePage(outcomes=told, next=write_place(page[-1]) if len(page) < len(found) else None)


def write_place(row: OutcomeRow) -> str:
    """The place of a row, in letters that need no quoting in an address."""
    place = [row.sweep, row.template, row.is_treated]
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def read_place(text: str) -> Cell:
    """The place that a text names. Raises ValueError."""
    place: Cell = decoder_of(Cell).decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return place
