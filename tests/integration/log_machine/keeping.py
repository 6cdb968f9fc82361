"""Keeping: positions archived and dropped, subjects erased, the whole log moved to another database."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from eventlog.archive.drop import drop
from eventlog.archive.errors import ArchiveMissing, DropRefused
from eventlog.archive.write import Archived, archive
from eventlog.blobs import Blob, BlobStore, PostgresBlobs
from eventlog.errors import BlobErased, BytesRemain, SubjectGone
from eventlog.store import Append, Position
from eventlog.transfer import export_log, import_log
from projections import ALL
from projections.engine.projection import digest_changes
from projections.engine.views import catch_up_views
from tests.golden.test_golden_samples import sample

from .history import GROUPS, NAMES, SUBJECTS, started
from .stores import Stores

PAGES = [Blob("text/html", b"<p>page 1</p>"), Blob("text/html", b"<p>page 2</p>" * 200), Blob("text/plain", b"")]


class Keeping(Stores):
    """Rules that change where things are kept, and never what the log says."""

    @precondition(lambda self: self.list.head() > 0)
    @rule(data=st.data(), pieces=st.integers(1, 4))
    def positions_are_archived(self, data: st.DataObject, pieces: int) -> None:
        self.archive(data.draw(st.integers(1, self.list.head())), pieces)

    @precondition(lambda self: self.list.head() > 1)
    @rule(data=st.data(), pieces=st.integers(1, 4))
    def what_is_archived_is_dropped(self, data: st.DataObject, pieces: int) -> None:
        """Up to anywhere, mostly inside a segment, which then stays whole."""
        if not self.ends or self.ends[-1] == self.dropped:
            self.archive(self.list.head() - 1, pieces)
        self.drop(data.draw(st.integers(0, self.list.head())))

    def archive(self, upto: int, pieces: int) -> None:
        """Archive what is not archived yet in so many segments, or a few less."""
        before = self.ends[-1] if self.ends else 0
        size = max(1, -(-(upto - before) // pieces))
        ends = [min(end, upto) for end in range(before + size, upto + size, size)]
        expected = Archived(before + 1, upto, upto - before, len(ends)) if ends else Archived(0, 0, 0, 0)
        assert archive(self.project.owner, self.project.archive, Position(upto), size=size) == expected
        self.ends += ends

    def drop(self, upto: int) -> None:
        """Drop whole segments; the newest event stays, whatever is asked for."""
        last = max([self.dropped, *(end for end in self.ends if end <= upto)])
        if last == self.list.head():
            with pytest.raises(DropRefused):
                drop(self.project.owner, self.project.archive, Position(upto))
            return
        assert drop(self.project.owner, self.project.archive, Position(upto)) == last
        self.dropped = last

    @precondition(lambda self: bool(self.ends))
    @rule()
    def the_archive_is_away_for_a_while(self) -> None:
        """Nothing is dropped, what was dropped is missed, the rest answers, and appending goes on."""
        away = self.project.folder / "away"
        self.project.archive.rename(away)
        if self.ends[-1] > self.dropped:
            with pytest.raises(ArchiveMissing):
                drop(self.project.owner, self.project.archive, Position(self.list.head()))
        if self.dropped:
            with pytest.raises(ArchiveMissing):
                list(self.table.read_stored())
        self.both([Append("champion", (sample("ChampionPointed"),), "machine")])
        live = [row.position for row in self.table.read_stored(after=Position(self.dropped))]
        away.rename(self.project.archive)
        assert live == [*range(self.dropped + 1, self.list.head() + 1)]

    @rule(
        run=NAMES,
        group=GROUPS,
        subject=st.none() | SUBJECTS,
        pages=st.lists(st.sampled_from(PAGES), min_size=1, max_size=2),
    )
    def a_run_reads_pages(self, run: str, group: str, subject: str | None, pages: list[Blob]) -> None:
        if subject in self.locked:
            for store in (self.blobs, self.shelf):
                with pytest.raises(SubjectGone):
                    store.put(pages, subject=subject)
            return
        addresses = self.put(pages, subject)
        version = self.version(f"run/{run}")
        first = [] if version else [started(run, group, subject)]
        self.owners.setdefault(run, subject)
        steps = [sample("StepTaken", run=run, index=n, observation=address) for n, address in enumerate(addresses)]
        self.both([Append(f"run/{run}", (*first, *steps), "machine", version)])

    def put(self, pages: list[Blob], subject: str | None) -> tuple[str, ...]:
        """Put pages into both stores: they get the same addresses, each of one subject and one content."""
        addresses = self.blobs.put(pages, subject=subject)
        assert addresses == self.shelf.put(pages, subject=subject)
        for page, address in zip(pages, addresses, strict=True):
            assert (address == page.digest) == (subject is None)
            assert self.bodies.setdefault(address, (subject, page)) == (subject, page)
        return addresses

    @rule(subject=SUBJECTS, is_whole=st.booleans())
    def a_subject_is_erased(self, subject: str, is_whole: bool) -> None:
        """Only the owner removes bytes; where it ends before that, the key is gone all the same and nothing is said."""
        if subject not in self.locked:
            self.put(PAGES[:2], subject)
        self.shelf.erase(subject)
        self.locked.add(subject)
        if is_whole:
            own = sum(whose == subject for whose, _ in self.bodies.values())
            assert PostgresBlobs(self.project.owner, self.keys).erase(subject) == own
            self.emptied.add(subject)
            self.said_erased.add(subject)
            self.both([Append("erasures", (sample("SubjectErased", subject=subject),), "machine", key=subject)])
        else:
            with contextlib.suppress(BytesRemain):  # there is none where one role is owner and application
                self.blobs.erase(subject)
                self.emptied.add(subject)
        self.blobs_answer_by_their_subjects()

    @precondition(lambda self: bool(self.bodies))
    @rule()
    def blobs_answer_by_their_subjects(self) -> None:
        assert self.blobs.digests() == self.shelf.digests() == self.bodies.keys()
        empty = {address for address, (whose, _) in self.bodies.items() if whose in self.emptied}
        assert {found.address for found in self.blobs.list_blobs() if found.is_erased} == empty
        for address, (whose, page) in self.bodies.items():
            expected = None if whose in self.locked else page
            assert (found(self.blobs, address), found(self.shelf, address)) == (expected, expected)

    @precondition(lambda self: not self.has_moved and bool(self.ends or self.bodies))
    @rule(suffix=st.sampled_from([".ndjson", ".ndjson.gz"]))
    def the_log_moves_to_another_database(self, suffix: str) -> None:
        """Segments and table become one table again, and everything goes on there, with the same digests."""
        file = self.project.folder / f"log{suffix}"
        head, before = self.list.head(), self.digests()
        assert export_log(self.engine, file, archive=self.project.archive, blobs=self.blobs) == head
        other = next(self.projects)
        assert import_log(other.owner, file) == head
        self.project.close()
        self.settle_in(other)
        self.has_moved = True
        assert self.digests() == before
        self.blobs_answer_by_their_subjects()

    def digests(self) -> dict[str, str]:
        """The digest of every fold's table at the head."""
        views = catch_up_views(self.projector, self.engine, self.table)
        return {fold.name: digest_changes(views.changes(fold)) for fold in ALL}


def found(blobs: BlobStore, address: str) -> Blob | None:
    """The blob of an address; None where it was erased."""
    try:
        return blobs.get(address)
    except BlobErased:
        return None
