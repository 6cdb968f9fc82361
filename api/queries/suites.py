"""Suites: their versions in the log, and the bundled ones."""

from __future__ import annotations

from typing import Any

import msgspec

from agents.suites.bundled import bundled_suites
from agents.suites.errors import NoSuite
from agents.suites.in_log import find_suite
from agents.suites.suite_file import suite_digest
from eventlog.store import EventStore
from projections.engine.views import Views
from projections.suites import SUITES

from ..errors import Unknown
from .paging import page_after


class SuiteRow(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a suite; version 0 at position null is a bundled file that the log does not have."""

    suite: str
    version: int
    environment: str
    position: int | None
    digest: str


class SuiteList(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of suites by name, all of one suite on one page; `next` is the suite to continue after, or null."""

    suites: tuple[SuiteRow, ...]
    next: str | None


class SuiteAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a suite: its name, such as `shop@2`, and its content as in a suite file."""

    suite: str
    content: dict[str, Any]


def list_suites(views: Views, *, after: str | None = None, limit: int | None = None) -> SuiteList:
    """Every version of a page of `limit` suites (None: all), with the bundled ones that were never brought in."""
    page, following = page_after(views, SUITES, after, limit)
    rows = {
        name: tuple(
            SuiteRow(
                suite=name,
                version=each.version,
                environment=each.environment,
                position=each.position,
                digest=each.digest,
            )
            for each in state.versions
        )
        for name, state in page.items()
    }
    bundled = bundled_suites()
    known = views.pick(SUITES, bundled.keys())
    for name, suite in bundled.items():
        follows = (after is None or name > after) and (following is None or name <= following)
        if name not in known and follows:
            row = SuiteRow(
                suite=name, version=0, environment=suite.environment, position=None, digest=suite_digest(suite)
            )
            rows[name] = (row,)
    names = sorted(rows)[:limit]
    last = names[-1] if len(names) < len(rows) or following is not None else None
    return SuiteList(suites=tuple(row for name in names for row in rows[name]), next=last)


def show_suite(store: EventStore, views: Views, named: str) -> SuiteAnswer:
    """The suite of a name, such as `shop` (its newest version) or `shop@2`. Raises Unknown."""
    try:
        found = find_suite(store, views, named)
    except NoSuite as error:
        way_out = "`flywheel suite list` names the versions that were brought in."
        raise Unknown(what="suite", actual=named, way_out=way_out) from error
    return SuiteAnswer(suite=str(found), content=found.suite.model_dump(mode="json"))
