from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.chain import microseconds
from projections import ALL
from projections.costs import COSTS
from projections.engine.projection import (
    AnyFold,
    Change,
    Fold,
    FoldState,
    LeftOut,
    apply,
    at_path,
    digest_changes,
    digest_of,
    latest,
    replay,
    row_of,
    state_json,
)
from projections.engine.rows import EventRow, row_class
from tests.golden.test_golden_samples import golden_log

from .test_folds_samples import DAWN, graded, told

FOLDS = pytest.mark.parametrize("fold", ALL, ids=lambda fold: str(fold.name))


def row(**fields: Any) -> EventRow:
    envelope: tuple[Any, ...] = (5, 1, "s", microseconds(DAWN), "test")
    return row_class("RunFinished", tuple(fields))(*envelope, *fields.values())


@pytest.mark.parametrize(
    ("read", "value"),
    [("text", 1), ("text", None), ("number", "1"), ("number", True), ("flag", 1), ("record", []), ("records", {})],
)
def test_a_field_of_another_kind_is_named_with_its_position(read: str, value: object) -> None:
    with pytest.raises(TypeError, match=r"RunFinished\.a at 5"):
        getattr(row(a=value), read)("a")


def test_a_field_that_was_not_declared_cannot_be_read() -> None:
    with pytest.raises(KeyError):
        row(a=1).text("b")


def test_fields_that_may_be_unknown_are_read_as_none_and_zero_is_not_unknown() -> None:
    assert (row(a=None).maybe_text("a"), row(a=None).maybe_number("a")) == (None, None)
    assert (row(a="").maybe_text("a"), row(a=0).maybe_number("a")) == ("", 0)


@pytest.mark.parametrize(
    ("path", "value"), [("a.b", 1), ("a", {"b": 1}), ("a.c", None), ("a.b.c", None), ("x.y", None)]
)
def test_a_path_leads_to_a_value_or_to_none(path: str, value: object) -> None:
    assert at_path({"a": {"b": 1}}, path) == value


def test_a_row_holds_what_was_declared_and_no_more() -> None:
    (event,) = told(graded(cost=3))
    assert row_of(event, ("cost",)).fields == {"cost": 3}


def test_an_event_without_a_key_changes_nothing() -> None:
    fold = Fold("keyless", 1, {"RewardGraded": ("run",)}, FoldState(), lambda _row: None, lambda state, _row: state)
    assert replay(fold, told(graded())) == ()


@FOLDS
def test_a_digest_does_not_depend_on_the_order_in_which_rows_are_read(fold: AnyFold) -> None:
    changes = replay(fold, golden_log())
    assert digest_changes(changes) == digest_changes(reversed(changes))


def test_a_digest_covers_key_position_and_state() -> None:
    digests = {
        digest_of([]),
        digest_of([("a", 1, {"n": 1})]),
        digest_of([("b", 1, {"n": 1})]),
        digest_of([("a", 2, {"n": 1})]),
        digest_of([("a", 1, {"n": 2})]),
        digest_of([("a", 1, {"n": 1}), ("a", 2, {"n": 1})]),
    }
    assert len(digests) == 6


@FOLDS
def test_states_come_back_from_json_as_they_were(fold: AnyFold) -> None:
    for change in replay(fold, golden_log()):
        kept = msgspec.json.decode(msgspec.json.encode(state_json(change.state)))
        assert fold.decode(kept) == change.state


@FOLDS
def test_folding_changes_no_state_that_was_given_out(fold: AnyFold) -> None:
    changes = [(change, state_json(change.state)) for change in replay(fold, golden_log())]
    again: list[Change[Any]] = []
    states: dict[str, Any] = {}
    for event in golden_log():
        again += apply(fold, states, [row_of(event, fold.reads.get(event.event.type, ()))])
    assert all(state_json(change.state) == kept for change, kept in changes)
    assert digest_changes(latest(again).values()) == digest_changes(latest(c for c, _ in changes).values())


CUTS = st.lists(st.integers(0, len(golden_log())), max_size=5).map(sorted)


@settings(max_examples=15, deadline=None)
@given(CUTS)
def test_any_split_of_the_log_gives_the_same_digests(cuts: list[int]) -> None:
    ends = [0, *cuts, len(golden_log())]
    for fold in ALL:
        states: dict[str, Any] = {}
        changes: list[Change[Any]] = []
        for start, end in pairwise(ends):
            rows = [row_of(event, fold.reads.get(event.event.type, ())) for event in golden_log()[start:end]]
            changes += apply(fold, states, rows)
            states = {key: fold.decode(state_json(state)) for key, state in states.items()}
        kept = changes if fold.stream_of is None else latest(changes).values()
        assert digest_changes(kept) == digest_changes(replay(fold, golden_log()))


def test_a_projection_of_a_prefix_is_a_prefix_of_the_projection() -> None:
    whole = replay(COSTS, golden_log())
    for end in (0, 1, 100, 400):
        assert replay(COSTS, golden_log()[:end]) == tuple(change for change in whole if change.since <= end)


class Sealed:
    """Stands for runs that may be held, and not looked at."""

    def __iter__(self) -> Any:
        pytest.fail("all withdrawals were gone through again")


def marker(position: int, kind: str, **fields: Any) -> EventRow:
    envelope: tuple[Any, ...] = (position, 1, "s", microseconds(DAWN), "test")
    return row_class(kind, tuple(fields))(*envelope, *fields.values())


def test_a_marker_goes_through_earlier_withdrawals_only_if_it_disowns_one() -> None:
    sealed: Any = Sealed()
    before = LeftOut(frozenset("ab"), frozenset({7}), ((1, sealed), (2, sealed)))
    further = before.add(marker(3, "RunsWithdrawn", runs=["c"]), marker(4, "EventsDisowned", positions=[8]))
    assert (further.runs, further.positions) == (frozenset("abc"), frozenset({7, 8}))
    assert [position for position, _ in further.withdrawals] == [1, 2, 3]


def test_a_withdrawal_that_is_disowned_leaves_out_only_what_others_do() -> None:
    withdrawn = LeftOut().add(*(marker(at, "RunsWithdrawn", runs=runs) for at, runs in ((1, ["a", "b"]), (2, ["b"]))))
    back = withdrawn.add(marker(3, "EventsDisowned", positions=[1]))
    assert (back.runs, back.brought_back) == (frozenset("b"), frozenset("ab"))
    together = LeftOut().add(marker(1, "RunsWithdrawn", runs=["a"]), marker(3, "EventsDisowned", positions=[1]))
    assert (together.runs, together.positions) == (frozenset(), frozenset({1}))
