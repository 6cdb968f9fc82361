from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.cli.diff import describe_difference
from eventlog.events import PriceBookSet, RewardGraded, RewriteLost, RewriteWon, TokenIssued, TokenRevoked
from eventlog.memory import MemoryStore
from eventlog.store import Position
from projections.difference import difference
from projections.errors import BackwardDifference
from projections.moves import ClusterMoved, Difference, StatusChange
from tests.unit.test_agent_samples import a_store, add, decide_rewrite, propose
from tests.unit.test_time_samples import GOLDEN_STORE, views_of

HEAD = 652


def between(start: int, end: int) -> Difference:
    at = views_of(GOLDEN_STORE)
    return difference(at(Position(start)), at(Position(end)))


def of(store: MemoryStore, start: int) -> Difference:
    at = views_of(store)
    return difference(at(Position(start)), at(None))


def test_the_whole_golden_log_says_what_it_came_to() -> None:
    found = between(0, HEAD)
    assert found.champion is not None
    assert (found.champion.before, found.champion.after) == (None, "base@0")
    assert [(move.since, move.champion, move.by) for move in found.champion.moves] == [
        (2, "base@0", "genesis"),
        (649, "base@395", "gate"),
        (651, "base@0", "rollback"),
    ]
    assert sum(row.started for row in found.runs) == sum(row.ended for row in found.runs) == 72
    assert {(row.template, row.is_evaluation): (row.passed, row.failed) for row in found.runs} == {
        ("marketplace.lead_filtered_search", False): (8, 16),
        ("marketplace.lead_filtered_search", True): (7, 5),
        ("marketplace.phone_reveal", False): (7, 17),
        ("marketplace.phone_reveal", True): (7, 5),
    }
    assert [(item.evaluation, item.decision, item.mean_delta) for item in found.verdicts] == [
        ("eval-1", "promote", 800_000)
    ]
    assert [(item.since, item.rows) for item in found.datasets] == [(650, 148)]
    assert found.benchmarks == ("marketplace-1",)
    assert found.costs is not None
    graded = [item.event for item in GOLDEN_STORE.read(types=["RewardGraded"])]
    costs = [event.cost or 0 for event in graded if isinstance(event, RewardGraded)]
    assert (found.costs.spent, found.costs.runs, found.costs.unknown) == (sum(costs), 72, 0)


def test_a_rewrite_shows_every_turn_that_it_took_in_between() -> None:
    moved = {item.rewrite: item for item in between(200, HEAD).rewrites}
    assert list(moved) == ["rw-80280fbd00d0"]
    found = moved["rw-80280fbd00d0"]
    assert (found.before, found.after, found.wins, found.losses) == ("candidate", "quarantined", 4, 0)
    assert found.turns == (StatusChange(386, "promoted", 3, 0), StatusChange(652, "quarantined", 4, 0))


def test_rates_are_of_what_was_graded_in_between_and_beside_them_of_what_was_before() -> None:
    row = next(
        row for row in between(200, HEAD).runs if row.template.endswith("phone_reveal") and not row.is_evaluation
    )
    assert (row.passed, row.failed, row.rate, row.rate_before) == (3, 9, 250_000, 333_333)


def test_equal_positions_and_events_without_meaning_change_nothing() -> None:
    assert between(300, 300).is_empty
    assert list(describe_difference(between(300, 300))) == ["Both are position 300: nothing changed."]
    assert between(3, 4).is_empty
    (line,) = describe_difference(between(3, 4))
    assert ("No state changed" in line, "from position 3 to 4" in line, "1 event" in line) == (True, True, True)


def test_the_later_position_first_is_refused_with_the_way_out() -> None:
    with pytest.raises(BackwardDifference, match=r"position 9 comes after the end position 5.*Swap them"):
        between(9, 5)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, HEAD), min_size=3, max_size=3).map(sorted))
def test_what_changed_in_two_stretches_is_what_changed_over_both(positions: list[int]) -> None:
    first, middle, last = positions
    parts, whole = (between(first, middle), between(middle, last)), between(first, last)
    assert sum(part.costs.spent or 0 for part in parts if part.costs) == (whole.costs.spent if whole.costs else 0)
    for figure in ("started", "ended", "passed", "failed", "missing"):
        total = sum(getattr(row, figure) for part in parts for row in part.runs)
        assert total == sum(getattr(row, figure) for row in whole.runs)
    moves = [move for part in parts if part.champion for move in part.champion.moves]
    assert moves == list(whole.champion.moves if whole.champion else ())
    turns = {(item.rewrite, turn) for part in parts for item in part.rewrites for turn in item.turns}
    assert turns == {(item.rewrite, turn) for item in whole.rewrites for turn in item.turns}


def test_a_cluster_appears_grows_and_nothing_is_said_of_one_that_stays() -> None:
    assert {(item.before, item.after) for item in between(0, 200).failures} == {(0, 8)}
    assert {(item.before, item.after) for item in between(200, HEAD).failures} == {(8, 21), (8, 22)}
    assert between(650, HEAD).failures == ()
    vanished = ClusterMoved("m", "t", "bad_url", "", 3, 0)
    lines = list(describe_difference(_with_failures(vanished)))
    assert "  vanished: bad_url of t, 3 runs before" in lines


def _with_failures(*moved: ClusterMoved) -> Difference:
    return Difference(1, 2, None, (), (), moved, (), (), (), None, None, ())


def test_demotion_prices_and_tokens() -> None:
    store = a_store()
    propose(store, "rw-a")
    decide_rewrite(store, "rw-a", True, True, True)
    start = store.head()
    lost = [RewriteLost(rewrite="rw-a", run=f"l{n}", control_runs=(), control_successes=0) for n in range(2)]
    add(store, "rewrite/rw-a", *lost, RewriteWon(rewrite="rw-a", run="w", control_runs=(), control_successes=0))
    book = PriceBookSet(
        version=2, per_action=5, per_second=0, per_thousand_input_tokens=0, per_thousand_output_tokens=0
    )
    add(store, "prices", book)
    add(store, "access", TokenIssued(token="ann", digest="0" * 64, role="admin"))
    add(store, "access", TokenIssued(token="bob", digest="1" * 64, role="admin"))
    add(store, "access", TokenRevoked(token="bob", reason="left"))
    found = of(store, int(start))
    assert [(item.before, item.after, item.turns) for item in found.rewrites] == [
        ("promoted", "demoted", (StatusChange(6, "demoted", 3, 2),))
    ]
    assert found.prices is not None
    assert found.prices.before is None
    assert found.prices.after is not None
    assert found.prices.after.per_action == 5
    assert [(item.token, item.became) for item in found.tokens] == [("ann", "issued"), ("bob", "revoked")]
    text = "\n".join(describe_difference(found))
    assert "promoted → demoted at 6; 1 win, 2 lost" in text
    assert "per_action: unset → 5" in text
