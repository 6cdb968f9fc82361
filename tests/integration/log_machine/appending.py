"""Appending: small and large, again, misused, outdated, from two threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from time import sleep

from hypothesis import strategies as st
from hypothesis.stateful import rule
from sqlalchemy import text

from eventlog.postgres import PostgresStore
from eventlog.store import Append, Committed, Conflict, Outcome, Position, Repeated
from tests.golden.test_golden_samples import sample

from .history import GROUPS, NAMES, pointed, rewrite_event, run_events, started
from .stores import Stores

_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/append', 0))")


class Appending(Stores):
    """Rules that append."""

    @rule(target=Stores.appended, data=st.data(), run=NAMES, group=GROUPS, amount=st.integers(1, 4))
    def a_run_goes_on(self, data: st.DataObject, run: str, group: str, amount: int) -> Append:
        events = [data.draw(run_events(run, group)) for _ in range(amount)]
        version = self.version(f"run/{run}")
        first = [] if version else [started(run, group)]
        self.owners.setdefault(run, None)
        request = Append(f"run/{run}", (*first, *events), "machine", version)
        self.both([request])
        return request

    @rule(target=Stores.appended, data=st.data(), rewrite=NAMES, amount=st.integers(1, 6))
    def a_rewrite_is_tried(self, data: st.DataObject, rewrite: str, amount: int) -> Append:
        events = tuple(data.draw(rewrite_event(rewrite)) for _ in range(amount))
        request = Append(f"rewrite/{rewrite}", events, "machine")
        self.both([request])
        return request

    @rule(target=Stores.appended, data=st.data(), rewrite=NAMES, run=NAMES, amount=st.integers(21, 40))
    def much_is_appended_at_once(self, data: st.DataObject, rewrite: str, run: str, amount: int) -> Append:
        """Enough for COPY, over several streams, one of them at another version than is expected."""
        few = data.draw(st.lists(rewrite_event(rewrite), min_size=1, max_size=4))
        large = Append(f"rewrite/{rewrite}", tuple(islice(cycle(few), amount)), "machine", cause=Position(1))
        steps = tuple(data.draw(st.lists(run_events(run, "a-group"), min_size=1, max_size=3)))
        version = self.version(f"run/{run}")
        begun = () if version else (started(run, "a-group"),)
        self.owners.setdefault(run, None)
        requests = [
            large,
            Append(f"run/{run}", steps, "machine", expect=version + 1),
            Append(f"run/{run}", (*begun, *steps), "machine", expect=version),
            Append(large.stream, large.events[:1], "machine", key=large.key),
            large,
        ]
        self.both(requests)
        return large

    @rule(runs=st.lists(NAMES | st.just("never-played"), min_size=1, max_size=2))
    def runs_are_withdrawn(self, runs: list[str]) -> None:
        self.withdrawn.update(runs)
        self.both([Append("withdrawals", (sample("RunsWithdrawn", runs=runs),), "machine")])

    @rule(upto=st.integers(0, 9), by=st.sampled_from(["gate", "operator", "rollback"]), expect=st.none() | st.just(1))
    def the_champion_is_moved(self, upto: int, by: str, expect: int | None) -> None:
        self.both([Append("champion", (pointed(upto, by),), "machine", expect)])

    @rule(again=Stores.appended, other=NAMES)
    def an_append_is_tried_again_beside_one_that_misuses_its_key(self, again: Append, other: str) -> None:
        misused = Append(f"rewrite/{other}", (sample("RewriteWon", rewrite=other, run="misused"),), "m", key=again.key)
        outdated = Append(again.stream, again.events, "machine", expect=10_000)
        self.both([again, misused, outdated, again])

    @rule(
        data=st.data(),
        names=st.lists(NAMES, min_size=1, max_size=3),
        again=Stores.appended,
        amount=st.sampled_from([1, 60]),
        spoiled=st.sampled_from(["", "", "version", "key"]),
    )
    def a_group_is_appended(
        self, data: st.DataObject, names: list[str], again: Append, amount: int, spoiled: str
    ) -> None:
        """Over several streams, one of them perhaps twice, and beside what is there already."""
        group = [Append(f"rewrite/{name}", (data.draw(rewrite_event(name)),) * amount, "machine") for name in names]
        if spoiled == "version":
            group.append(Append("champion", (pointed(0, "gate"),), "machine", self.version("champion") + 1))
        if spoiled == "key":
            group.append(Append("champion", (pointed(0, "gate"),), "machine", key=again.key))
        self.both_together(data.draw(st.permutations([again, *group])))

    @rule(names=st.lists(NAMES, min_size=3, max_size=3), amount=st.sampled_from([1, 25]), is_one_store=st.booleans())
    def three_threads_append_at_once(self, names: list[str], amount: int, is_one_store: bool) -> None:
        """Each its own, all the same with one key, all where one version is expected: the list does it in order."""
        shared = Append("rewrite/c", (sample("RewriteWon", rewrite="c", run="b", control_runs=()),), "machine")
        version = self.version("champion")
        asked = [
            [
                Append(f"rewrite/{name}", (sample("MemoryQuarantined", piece=name),) * size, "machine"),
                shared,
                Append("champion", (pointed(size, "gate"),), "machine", version),
            ]
            for name, size in zip(names, (amount, 1, 2), strict=True)
        ]
        outcomes = self.waiting_together(asked, is_one_store=is_one_store)
        order = sorted(range(3), key=lambda place: first_position(outcomes[place][0]))
        for place in order:
            begins = Position(first_position(outcomes[place][0]) - 1)
            self.at = next(self.table.read_stored(after=begins)).at
            assert list(self.list.append(asked[place])) == outcomes[place]
        kinds = [[type(outcome) for outcome in outcomes[place]] for place in order]
        assert kinds == [[Committed] * 3, *[[Committed, Repeated, Conflict]] * 2]

    def waiting_together(self, asked: list[list[Append]], *, is_one_store: bool) -> list[list[Outcome]]:
        """The outcomes of threads that all wait before the first of them is let in, so that one store merges them."""
        tables = [self.table, self.table, self.table if is_one_store else PostgresStore(self.engine)]
        groups = {id(table.group): table.group for table in tables}.values()
        expected = sum(group.counts.received for group in groups) + sum(map(len, asked))
        with ThreadPoolExecutor(len(asked)) as pool:
            with self.engine.begin() as connection:
                connection.execute(_LOCK)
                waiting = [pool.submit(table.append, own) for table, own in zip(tables, asked, strict=True)]
                while sum(group.counts.received for group in groups) < expected:
                    sleep(0.001)
            return [list(future.result(30)) for future in waiting]


def first_position(outcome: Outcome) -> Position:
    """The first position that a committed request took."""
    assert isinstance(outcome, Committed)
    return outcome.first
