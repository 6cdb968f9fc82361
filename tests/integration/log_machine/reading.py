"""Reading: the log in part, folds and frames as of any position, rebuilt, compared, verified."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from eventlog.store import START, Position
from eventlog.verification import verify_log
from projections import ALL
from projections.engine.compare import compare
from projections.engine.projection import AnyFold, Change, digest_changes, newest_states
from projections.engine.projector import Projector
from projections.engine.rows import row_of
from projections.engine.views import ReplayedViews, catch_up_views
from projections.errors import NotThereYet
from projections.frames.frame import Frame, digest_part, events_of, part_of
from projections.frames.framing import compare_frames, make_parts
from projections.frames.outcomes import FRAMES
from projections.taint import TAINT, erasures, left_out, runs_of_subject, withdrawals

from .stores import Stores

FOLDS = st.sampled_from(ALL)
REACHED = st.sampled_from([TAINT, *(fold for fold in ALL if fold.rests_on is not None)])


class Reading(Stores):
    """Rules that fold and read; the model folds the list whenever it is asked."""

    def place(self, data: st.DataObject, least: int = 0) -> Position:
        """Any position of the log."""
        return Position(data.draw(st.integers(least, self.list.head())))

    @rule()
    def the_projector_catches_up(self) -> None:
        assert self.projector.catch_up() == self.list.head()

    @precondition(lambda self: self.list.head() > 1)
    @rule(data=st.data())
    def the_projector_goes_part_of_the_way(self, data: st.DataObject) -> None:
        self.projector.catch_up(self.place(data, 1))

    @rule()
    def another_projector_takes_over(self) -> None:
        self.projector = Projector(self.engine, store=self.table)

    @rule(folds=st.lists(FOLDS, min_size=1, max_size=4, unique_by=lambda fold: fold.name))
    def projections_are_rebuilt(self, folds: list[AnyFold]) -> None:
        found = self.projector.rebuild([fold.name for fold in folds])
        assert {mark.projection: mark.parked_at for mark in found} == {fold.name: None for fold in folds}

    @rule(data=st.data(), fold=FOLDS | REACHED)
    def a_projection_is_read_as_of_a_position(self, data: st.DataObject, fold: AnyFold) -> None:
        upto = self.place(data)
        with pytest.raises(NotThereYet):
            catch_up_views(self.projector, self.engine, self.table, as_of=Position(self.list.head() + 1))
        views = catch_up_views(self.projector, self.engine, self.table, as_of=upto)
        changes: tuple[Change[Any], ...] = ReplayedViews(self.list, upto).changes(fold)
        states = newest_states(changes)
        assert digest_changes(views.changes(fold)) == digest_changes(changes)
        assert views.find(fold) == states
        for key in {*[*states][:2], *[change.key for change in changes][-1:]}:
            assert views.get(fold, key) == states.get(key)
            assert views.history(fold, key) == tuple(change for change in changes if change.key == key)

    @rule(data=st.data())
    def what_nothing_is_learned_from_is_known(self, data: st.DataObject) -> None:
        views = catch_up_views(self.projector, self.engine, self.table)
        in_force = (runs for at, runs in self.withdrawn.items() if at not in self.disowned)
        assert withdrawals(views).keys() == set().union(*in_force)
        assert erasures(views).keys() == self.said_erased
        for subject in {*self.owners.values()} - {None}:
            own = sorted(run for run, whose in self.owners.items() if whose == subject)
            assert runs_of_subject(views, str(subject)) == tuple(own)
        upto = self.place(data)
        then = catch_up_views(self.projector, self.engine, self.table, as_of=upto)
        assert left_out(then) == left_out(ReplayedViews(self.list, upto))

    @rule()
    def projections_are_compared_with_the_log(self) -> None:
        views = catch_up_views(self.projector, self.engine, self.table)
        assert [one.projection for one in compare(views) if not one.is_identical] == []

    @rule(data=st.data(), frame=st.sampled_from(FRAMES))
    def a_frame_is_read_as_of_a_position(self, data: st.DataObject, frame: Frame) -> None:
        upto = self.place(data)
        events = self.list.read(upto=upto, types=tuple(frame.reads))
        rows = [row_of(event, tuple(frame.reads[event.event.type])) for event in events]
        expected = part_of(frame, events_of(frame.reads, rows))
        part = make_parts(self.engine, self.table, (frame,), START, upto).parts[0]
        assert digest_part(part) == digest_part(expected)
        assert self.frames.read(frame, upto).equals(frame.read(expected.lazy()).collect())
        found = compare_frames(self.engine, self.table, upto, [frame])
        assert [one.differs for one in found] == [None]

    @rule(data=st.data())
    def the_log_is_read_in_part(self, data: st.DataObject) -> None:
        after = self.place(data)
        stream = data.draw(st.none() | st.sampled_from(["run/a", "rewrite/b", "champion", "none"]))
        types = data.draw(st.none() | st.just(["RewriteWon", "RunFinished"]))
        ours, theirs = (list(store.read(after=after, stream=stream, types=types)) for store in (self.table, self.list))
        assert ours == theirs
        batches = self.table.subscribe(after=after, until=lambda _: True)
        assert [event for batch in batches for event in batch] == list(self.list.read(after=after))

    @rule(data=st.data())
    def events_are_counted_and_found_by_time(self, data: st.DataObject) -> None:
        rows = list(self.list.read_stored())
        assert self.table.counts() == Counter(row.type for row in rows)
        if rows:
            moment = data.draw(st.sampled_from(rows)).at
            assert self.table.position_at(moment) == max(row.position for row in rows if row.at <= moment)

    @rule(data=st.data())
    def the_log_is_verified_from_a_position(self, data: st.DataObject) -> None:
        self.verify(self.place(data))

    def verify(self, after: Position) -> None:
        """Chain, order, versions, keys and guards agree behind a position, and end where the list does."""
        head = self.list.head()
        if head > after:
            found = verify_log(lambda: nullcontext(self.table), after=after, upto=head)
            assert found == next(self.list.read_stored(after=Position(head - 1))).chain
