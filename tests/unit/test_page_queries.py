"""What the pages read: timelines, groups, success over time, the state of the loop, curves, evaluations."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from api.errors import Unknown
from api.queries import groups
from api.queries.evaluations import list_benchmark_ledgers, list_evaluations, path_of_evidence
from api.queries.groups import list_groups, show_group
from api.queries.log_status import check_chain, newest_events
from api.queries.overview import show_overview
from api.queries.runs import RunFilter, count_ended_runs, ended_runs, find_runs
from api.queries.success import success_curves
from api.queries.timelines import align_turns, read_timeline, recent_runs
from api.queries.trainings import curves_of_stage
from eventlog.memory import MemoryStore
from eventlog.store import Append, Position
from projections.engine.views import ReplayedViews
from projections.verdicts import VerdictState
from tests.golden.test_golden_samples import golden_log, sample
from tests.unit.test_folds_samples import graded, started

FIRST, SECOND = (f"marketplace-1__marketplace.phone_reveal__seed0__s{index}" for index in (0, 1))


@cache
def golden() -> tuple[MemoryStore, ReplayedViews]:
    """The golden log in memory, and views at its head."""
    store = MemoryStore(lambda: datetime(2026, 11, 20, tzinfo=UTC))
    for row in golden_log():
        store.append([Append(row.stream, (row.event,), row.actor)])
    return store, ReplayedViews(store, store.head())


def test_the_timeline_of_a_run_holds_its_steps_its_end_and_its_grade() -> None:
    timeline = read_timeline(*golden(), FIRST)
    assert timeline.start is not None
    assert timeline.end is not None
    assert [turn.step.index for turn in timeline.turns] == list(range(len(timeline.turns)))
    assert (len(timeline.grades), timeline.is_cut) == (1, False)


def test_calls_and_checks_stand_beside_their_step() -> None:
    store = MemoryStore(lambda: datetime(2026, 11, 20, tzinfo=UTC))
    run = "ext-r"
    events = [
        sample("ModelCalled", run=run, step=None),
        sample("ModelCalled", run=run, step=1, index=1),
        sample("StepTaken", run=run, index=0),
        sample("StepTaken", run=run, index=1),
        sample("RecoveryDecided", run=run),
    ]
    store.append([Append(f"run/{run}", tuple(events), "test")])
    timeline = read_timeline(store, ReplayedViews(store, store.head()), run)
    assert len(timeline.first_calls) == 1
    assert [len(turn.calls) for turn in timeline.turns] == [0, 1]
    assert [each.type for each in timeline.others] == ["RecoveryDecided"]


def test_two_runs_are_paired_step_by_step() -> None:
    left = read_timeline(*golden(), FIRST)
    assert not any(pair.differs for pair in align_turns(left, left))
    shorter = align_turns(left, read_timeline(*golden(), "nobody"))
    assert all(pair.differs and pair.right is None for pair in shorter)
    assert len(shorter) == len(left.turns)


def test_the_newest_runs_come_first() -> None:
    store, views = golden()
    found = [each.run.run for each in recent_runs(store, views, 5)]
    names = [row.event.run for row in golden_log() if row.event.type == "RunStarted"]
    assert found == names[:-6:-1]


@pytest.mark.parametrize(("wanted", "passed"), [(RunFilter(is_passed=True), True), (RunFilter(is_failed=True), False)])
def test_runs_are_filtered_by_how_they_were_graded(wanted: RunFilter, passed: bool) -> None:
    found, _ = find_runs(golden()[1], wanted, after=None, limit=100)
    assert found
    assert {each.reward.passed for each in found if each.reward is not None} == {passed}
    assert find_runs(golden()[1], RunFilter(environment="elsewhere"), after=None, limit=5)[0] == ()


def test_success_leaves_out_runs_of_evaluations_and_counts_every_other_once() -> None:
    (curve,) = success_curves(*golden())
    assert (curve.environment, sum(point.graded for point in curve.points)) == ("marketplace", 48)
    assert all(point.low <= point.rate <= point.high for point in curve.points)
    assert success_curves(*golden(), window=1) == ()


def test_groups_come_in_pages_with_their_spread_and_advantages() -> None:
    views = golden()[1]
    whole = list_groups(views, limit=1000).groups
    first = list_groups(views, limit=5)
    assert first.next == first.groups[-1].group.group == whole[4].group.group
    assert list_groups(views, after=first.next, limit=5).groups == whole[5:10]
    assert list_groups(views, prefix="marketplace-2", limit=1).groups[0].group.sweep == "marketplace-2"
    with pytest.raises(Unknown):
        show_group(views, "nowhere")


def test_groups_of_evaluations_are_left_out_where_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    views = golden()[1]
    whole = list_groups(views, limit=1000).groups
    wanted = [row.group.group for row in whole if row.group.evaluation is None]
    assert whole[0].group.evaluation is not None
    assert 0 < len(wanted) < len(whole)
    monkeypatch.setattr(groups, "MOST_SIBLINGS", 7)
    found: list[str] = []
    after = None
    while True:
        page = list_groups(views, after=after, limit=3, has_evaluations=False)
        found += [row.group.group for row in page.groups]
        after = page.next
        if after is None:
            break
    assert found == wanted
    monkeypatch.setattr(groups, "MOST_READS", 1)
    first = list_groups(views, limit=3, has_evaluations=False)
    assert first.groups == ()
    assert first.next is not None


def test_siblings_have_advantages_over_those_that_played_the_artifact_as_it_is() -> None:
    store = MemoryStore(lambda: datetime(2026, 11, 20, tzinfo=UTC))
    for index, passed in enumerate((True, False, False, True)):
        candidate = {"spec__candidate": "rw-1"} if index == 3 else {}
        events = started(f"r{index}", "g", index, **candidate), graded(f"r{index}", "g", passed=passed)
        store.append([Append(f"run/r{index}", events, "test")])
    row = show_group(ReplayedViews(store, store.head()), "g")
    assert (row.graded, row.mean, row.spread) == (4, 500_000, 1_000_000)
    first, second, third, treated = [each.advantage for each in row.siblings]
    assert treated is None
    assert first is not None
    assert second == third
    assert first > 0 > (second or 0)


def test_the_state_of_the_loop_is_told_as_of_a_position() -> None:
    store, views = golden()
    now, start = show_overview(views), show_overview(ReplayedViews(store, Position(0)))
    assert (now.graded, now.sweeps, now.evaluations, now.datasets) == (72, 2, 1, 1)
    assert (now.decisions, now.is_empty, start.is_empty) == ({"promote": 1}, False, True)
    assert now.pieces_with("quarantined") == 1


def test_evaluations_come_newest_first_with_what_is_left_of_alpha() -> None:
    views = golden()[1]
    page = list_evaluations(views)
    assert [(row.evaluation, row.decision) for row in page.evaluations] == [("eval-1", "promote")]
    assert list_evaluations(views, before=page.evaluations[0].since).evaluations == ()
    (ledger,) = list_benchmark_ledgers(views)
    assert ledger.left == ledger.alpha - ledger.spent


def test_the_newest_events_come_first_and_their_chain_is_checked() -> None:
    store, _ = golden()
    page = newest_events(store, store.head(), 10)
    assert [each.position for each in page.events] == list(range(store.head(), store.head() - 10, -1))
    assert newest_events(store, Position(page.next or 0), 10).events[0].position == store.head() - 10
    assert newest_events(store, Position(3), 10).next is None
    status = check_chain(store, store.head())
    assert (status.checked, status.fault, len(status.chain)) == (50, None, 64)


def test_curves_keep_the_last_report_of_a_step_and_the_last_step() -> None:
    def reported(step: int, loss: str) -> Any:
        metrics = {"loss": loss, "kl": None, "clip_fraction": None, "ratio": None, "reward": None}
        return sample("TrainingProgressed", step=step, of=2_000, metrics=metrics)

    curves = curves_of_stage([reported(1, "2"), reported(2, "1"), reported(1, "3")])
    assert (curves.steps, curves.metrics) == ((1, 2), {"loss": (3.0, 1.0)})
    long = curves_of_stage([reported(step, "0.5") for step in range(1, 2_000)])
    assert (len(long.steps) <= 600, long.steps[-1]) == (True, 1_999)


def test_the_path_of_evidence_tells_tenths_and_figures_of_each_look() -> None:
    look = sample("EvaluationLooked").look.model_dump(mode="json")
    state = VerdictState(looks=({**look, "number": 1, "p_value": 10**8, "outcome": "continue"}, {**look, "number": 2}))
    told = path_of_evidence(state)
    assert [(each.number, each.p_value) for each in told] == [(1, 10**8), (2, look["p_value"])]
    assert ([each.tenths for each in told], told[0].says) == ([9, 10], "plays on")


def test_ended_runs_are_counted_among_so_many() -> None:
    _, views = golden()
    ended = len(ended_runs(views, "eval-1__"))
    assert count_ended_runs(views, "eval-1__", most=1_000) == ended > 2
    assert count_ended_runs(views, "eval-1__", most=2) == 2
