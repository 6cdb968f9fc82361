"""The two stores side by side, and what is known of them without asking either."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant
from sqlalchemy import Engine

from eventlog.archive.segments import live_from
from eventlog.blobs import Blob, PostgresBlobs
from eventlog.blobs.memory import MemoryBlobs
from eventlog.keys import FolderKeys
from eventlog.memory import MemoryStore
from eventlog.postgres import PostgresStore
from eventlog.store import Append, Position
from projections.engine.projector import Projector
from projections.frames.framing import FrameViews


@dataclass(frozen=True, slots=True)
class Project:
    """An empty log, its owner, and a folder for its segments, its subjects' keys and its exports."""

    engine: Engine
    owner: Engine
    folder: Path

    @property
    def archive(self) -> Path:
        """Where its segments are."""
        return self.folder / "archive"

    def close(self) -> None:
        """Let its connections go."""
        self.engine.dispose()
        self.owner.dispose()


class Stores(RuleBasedStateMachine):
    """A log in a table and the same log in a list. `projects` gives empty ones, as many as are asked for."""

    projects: Iterator[Project]
    appended = Bundle("appended")

    @initialize()
    def begin(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)
        self.list = MemoryStore(lambda: self.at)
        self.owners: dict[str, str | None] = {}
        self.withdrawn: set[str] = set()
        self.said_erased: set[str] = set()
        self.bodies: dict[str, tuple[str | None, Blob]] = {}
        self.locked: set[str] = set()
        self.emptied: set[str] = set()
        self.has_moved = False
        project = next(self.projects)
        self.keys = FolderKeys(project.folder / "keys")
        self.shelf = MemoryBlobs(self.keys)
        self.settle_in(project)

    def settle_in(self, project: Project) -> None:
        """Go on with the table of this project, of which nothing is archived yet."""
        self.project, self.engine = project, project.engine
        self.table = PostgresStore(project.engine, archive=project.archive)
        self.blobs = PostgresBlobs(project.engine, self.keys)
        self.projector = Projector(project.engine, store=self.table)
        self.frames = FrameViews(project.engine, self.table)
        self.ends: list[int] = []
        self.dropped = 0

    def both(self, requests: Sequence[Append]) -> None:
        """Append to the table, then to the list with the table's clock: outcomes and events are the same."""
        before = self.table.head()
        outcomes = list(self.table.append(requests))
        self.at = next((row.at for row in self.table.read_stored(after=before, upto=Position(before + 1))), self.at)
        assert list(self.list.append(requests)) == outcomes

    def both_together(self, requests: Sequence[Append]) -> None:
        """As `both`, for a group."""
        before = self.table.head()
        result = self.table.append_together(requests)
        self.at = next((row.at for row in self.table.read_stored(after=before, upto=Position(before + 1))), self.at)
        assert self.list.append_together(requests) == result

    def version(self, stream: str) -> int:
        """The version that a stream is at."""
        return sum(row.stream == stream for row in self.list.read_stored())

    @invariant()
    def the_stores_hold_the_same(self) -> None:
        assert self.table.head() == self.list.head()
        assert live_from(self.engine) == self.dropped + 1
