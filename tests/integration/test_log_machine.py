"""Appending, erasing, archiving, moving, folding, reading as of any position, in any order: the table is the list."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from eventlog import appending, postgres, transfer, verification
from eventlog.archive import read, segments, write
from eventlog.chain import GENESIS, verify_chain
from eventlog.database import open_engine
from eventlog.store import START
from projections import ALL
from projections.engine import projector, reader, rebuild, withdrawal
from projections.engine.projection import digest_changes, replay
from projections.engine.views import PostgresViews
from tests.conftest import Database

from .log_machine.appending import Appending
from .log_machine.keeping import Keeping
from .log_machine.reading import Reading
from .log_machine.stores import Project


class LogMachine(Appending, Keeping, Reading):
    """Everything at once; at the end both hold the same, and every table is what folding it gives."""

    def teardown(self) -> None:
        if not hasattr(self, "project"):
            return
        try:
            self.everything_agrees()
        finally:
            self.project.close()

    def everything_agrees(self) -> None:
        """The log is whole, the same in both, and so is what is folded from it."""
        rows = list(verify_chain(self.table.read_stored(), after=START, previous=GENESIS))
        assert [(row.position, row.chain) for row in rows] == [
            (row.position, row.chain) for row in self.list.read_stored()
        ]
        self.verify(START)
        head = self.projector.catch_up()
        views, log = PostgresViews(self.engine, self.table, head), list(self.list.read())
        for fold in ALL:
            assert digest_changes(views.changes(fold)) == digest_changes(replay(fold, log))
        self.blobs_answer_by_their_subjects()


@pytest.fixture
def fresh(clone: Callable[[str], Database], tmp_path: Path) -> Iterator[Iterator[Project]]:
    """Projects with empty logs, as many as are asked for, each in a database of its own."""
    opened: list[Project] = []

    def make() -> Iterator[Project]:
        for number in itertools.count():
            folder = tmp_path / f"p{number}"
            folder.mkdir()
            database = clone("empty")
            opened.append(Project(open_engine(database.app_url), open_engine(database.owner_url), folder))
            yield opened[-1]

    yield make()
    for project in opened:
        project.close()


@pytest.mark.timeout(420)  # a failure is made small first, for up to 300 s
@pytest.mark.costly("two stores are compared after every step of every example")
@pytest.mark.parametrize(("positions", "keys"), [(20_000, 10_000), (3, 1)])
@pytest.mark.parametrize("examples", [5, pytest.param(50, marks=pytest.mark.endure)])
def test_both_stores_agree_whatever_is_done_in_whatever_order(
    fresh: Iterator[Project], monkeypatch: pytest.MonkeyPatch, positions: int, keys: int, examples: int
) -> None:
    """Also where a page holds three positions and the projector remembers next to nothing."""
    for module in (reader, rebuild, withdrawal):
        monkeypatch.setattr(module, "PAGE", positions)
    for module in (projector, postgres, transfer):
        monkeypatch.setattr(module, "_BATCH", positions)
    for module in (read, segments, verification):
        monkeypatch.setattr(module, "_PAGE", positions)
    monkeypatch.setattr(write, "ROW_GROUP", positions)
    monkeypatch.setattr(appending, "_ROWS_A_PART", positions)
    monkeypatch.setattr(verification, "_LARGEST", positions)
    monkeypatch.setattr(projector, "_MOST_KEYS", keys)

    class Machine(LogMachine):
        projects = fresh

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples, stateful_step_count=30, deadline=None, suppress_health_check=[*HealthCheck]
        ),
    )
