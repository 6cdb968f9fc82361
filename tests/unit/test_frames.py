"""Frames say what the folds and the events themselves say, and any split of the log merges to the same."""

from __future__ import annotations

from collections import Counter
from functools import partial, reduce
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import RewardGraded, RunMissing, RunStarted, StepTaken
from eventlog.store import Recorded
from projections.engine.rows import row_of
from projections.frames.frame import Frame, digest_part, events_of, extend_part, merge_parts, part_of
from projections.frames.outcomes import FRAMES, OUTCOMES, STEP_OUTCOMES, Cell, select_outcomes
from tests.golden.test_golden_samples import golden_log, sample

from .test_folds_samples import told

BOTH = pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: str(frame.name))


def part(frame: Frame, events: tuple[Recorded, ...]) -> pl.DataFrame:
    rows = [row_of(event, tuple(frame.reads[event.event.type])) for event in events if event.event.type in frame.reads]
    return part_of(frame, events_of(frame.reads, rows))


def read(frame: Frame, events: tuple[Recorded, ...]) -> list[dict[str, object]]:
    return frame.read(part(frame, events).lazy()).collect().to_dicts()


def test_outcomes_are_the_counts_and_sums_of_the_log() -> None:
    events = [item.event for item in golden_log()]
    rows = read(OUTCOMES, golden_log())
    grades = [event for event in events if isinstance(event, RewardGraded)]
    assert sum(row["runs"] for row in rows) == sum(isinstance(event, RunStarted) for event in events)  # type: ignore[misc]
    assert sum(row["graded"] for row in rows) == len(grades)  # type: ignore[misc]
    assert sum(row["score"] for row in rows) == sum(grade.score for grade in grades)  # type: ignore[misc]
    assert sum(row["cost"] for row in rows) == sum(grade.cost or 0 for grade in grades)  # type: ignore[misc]
    assert sum(row["steps"] for row in rows) == sum(isinstance(event, StepTaken) for event in events)  # type: ignore[misc]
    assert sum(row["missing"] for row in rows) == sum(isinstance(event, RunMissing) for event in events)  # type: ignore[misc]
    treated = {event.spec.sweep for event in events if isinstance(event, RunStarted) and event.spec.candidate}
    assert {row["sweep"] for row in rows if row["is_treated"]} == treated


def test_step_outcomes_are_the_counts_of_the_log() -> None:
    templates = {e.event.run: e.event.spec.template for e in golden_log() if isinstance(e.event, RunStarted)}
    steps = [item.event for item in golden_log() if isinstance(item.event, StepTaken)]
    expected = Counter((templates[step.run], step.index, step.outcome) for step in steps)
    found = {(row["template"], row["index"], row["outcome"]): row["steps"] for row in read(STEP_OUTCOMES, golden_log())}
    assert found == expected


def test_the_newest_grade_counts_and_an_unknown_cost_is_no_cost_of_zero() -> None:
    started = sample("RunStarted", run="a")
    first = sample("RewardGraded", run="a", score=5, cost=7, value=9)
    second = sample("RewardGraded", run="a", score=3, cost=None, value=None)
    events = tuple(own(item) for item in told(started, first, second))
    (row,) = read(OUTCOMES, events)
    assert (row["graded"], row["score"], row["priced"], row["cost"], row["valued"]) == (1, 3, 0, 0, 0)
    (row,) = read(OUTCOMES, events[:2])
    assert (row["graded"], row["score"], row["priced"], row["cost"], row["valued"]) == (1, 5, 1, 7, 1)


def own(item: Recorded) -> Recorded:
    """The same event in the stream of the run `a`."""
    return Recorded(item.position, "run/a", item.position, item.at, item.actor, item.cause, item.digest, item.event)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, len(golden_log())), max_size=6).map(sorted), st.randoms(use_true_random=False))
def test_parts_of_any_split_merge_in_any_order_to_the_same(cuts: list[int], shuffle: object) -> None:
    log = golden_log()
    for frame in FRAMES:
        parts = [part(frame, log[start:end]) for start, end in pairwise([0, *cuts, len(log)])]
        shuffle.shuffle(parts)  # type: ignore[attr-defined]
        whole = digest_part(part(frame, log))
        assert digest_part(merge_parts(frame, parts)) == whole
        nested = merge_parts(frame, [merge_parts(frame, parts[:2]), merge_parts(frame, parts[2:])])
        assert digest_part(nested) == whole
        assert digest_part(reduce(partial(extend_part, frame), parts)) == whole


@BOTH
def test_a_digest_covers_every_row(frame: Frame) -> None:
    found = part(frame, golden_log())
    assert digest_part(found) == digest_part(found.reverse())
    assert digest_part(found) != digest_part(found.head(found.height - 1))


@BOTH
def test_no_part_holds_a_float_and_nothing_makes_an_empty_part(frame: Frame) -> None:
    assert not any(kind.is_float() for kind in frame.part.values())
    assert merge_parts(frame, ()).height == 0
    assert dict(merge_parts(frame, ()).schema) == dict(frame.part)


def _sort_key(cell: Cell) -> tuple[tuple[bool, str | bool], ...]:
    return tuple((value is not None, "" if value is None else value) for value in cell)


CELLS: list[Cell] = [
    (sweep, template, is_treated)
    for sweep in (None, "", "a", "ü")
    for template in (None, "a", "b")
    for is_treated in (None, False, True)
]


@pytest.mark.parametrize("after", CELLS)
def test_a_page_begins_after_any_cell(after: Cell) -> None:
    rows = pl.LazyFrame(
        CELLS, schema={"sweep": pl.String, "template": pl.String, "is_treated": pl.Boolean}, orient="row"
    )
    expected = [cell for cell in CELLS if _sort_key(cell) > _sort_key(after)]
    assert select_outcomes(rows, after=after).collect().rows() == expected
