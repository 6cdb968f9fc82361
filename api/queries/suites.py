"""Suites: their versions in the log, and the bundled ones."""

from __future__ import annotations

import msgspec

from agents.suites.bundled import bundled_suites
from agents.suites.suite_file import suite_digest
from projections.engine.views import Views
from projections.suites import SUITES


class SuiteRow(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a suite; version 0 at position null is a bundled file that the log does not have."""

    suite: str
    version: int
    environment: str
    position: int | None
    digest: str


def list_suites(views: Views) -> tuple[SuiteRow, ...]:
    """Every version in the log, by name, and the bundled suites that were never brought in."""
    known = views.find(SUITES)
    rows = [
        SuiteRow(
            suite=name, version=each.version, environment=each.environment, position=each.position, digest=each.digest
        )
        for name, state in known.items()
        for each in state.versions
    ]
    rows += [
        SuiteRow(suite=name, version=0, environment=suite.environment, position=None, digest=suite_digest(suite))
        for name, suite in bundled_suites().items()
        if name not in known
    ]
    return tuple(sorted(rows, key=lambda row: (row.suite, row.version)))
