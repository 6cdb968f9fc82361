"""After runs are withdrawn, what was learned reads as if they had never been played."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eventlog.events import AnyEvent, SftQuery
from eventlog.store import Recorded
from projections import ALL
from projections.datasets.plan_rows import judge_sft
from projections.engine.projection import AnyFold, newest_states, replay
from projections.failures import FAILURES
from projections.groups import GROUPS, assemble_groups
from projections.memories import FOLDS
from projections.rewards import REWARDS
from projections.rewrites import REWRITES
from projections.runs import RUNS
from projections.substrates import SUBSTRATES
from tests.golden.test_golden_samples import sample

from .test_folds_samples import graded, started, told

LEARNING = (*FOLDS.values(), GROUPS, FAILURES, SUBSTRATES)
NAMES = ("a", "b", "c", "d")
RUNS_OF = st.sampled_from(NAMES)
PIECES = st.sampled_from(["rw-1", "rw-2"])
KINDS = st.sampled_from([*FOLDS])
SUBSTRATE = st.sampled_from(["hints", "rewrites"])
STARTS = st.sampled_from(["0" * 64, "1" * 64])
GROUP_OF = {"a": "g1", "b": "g1", "c": "g1", "d": "g2"}


def credited(kind: str, rewrite: str, run: str, controls: list[str]) -> Any:
    return sample(kind, rewrite=rewrite, run=run, control_runs=controls)


def about(run: str, start: str, *, passed: bool) -> st.SearchStrategy[AnyEvent]:
    """What may happen in a run, in any order and more than once."""
    group = GROUP_OF[run]
    return st.sampled_from(
        [
            sample("InstanceReset", run=run, group=group, fingerprint=start),
            sample("StepTaken", run=run, outcome="not_found"),
            sample("RunFinished", run=run),
            sample("RunMissing", run=run, group=group),
            graded(run, group, passed=passed),
        ]
    )


LEARNED = st.one_of(
    st.builds(about, RUNS_OF, STARTS, passed=st.booleans()).flatmap(lambda events: events),
    st.builds(lambda rewrite, run: sample("RewriteProposed", rewrite=rewrite, run=run), PIECES, RUNS_OF),
    st.builds(credited, st.just("RewriteWon"), PIECES, RUNS_OF, st.lists(RUNS_OF, max_size=2)),
    st.builds(credited, st.just("RewriteLost"), PIECES, RUNS_OF, st.lists(RUNS_OF, max_size=2)),
    st.builds(lambda piece, kind: sample("MemoryQuarantined", piece=piece, kind=kind), PIECES, KINDS),
    st.builds(lambda piece, run: sample("HintRecorded", hint=piece, run=run), PIECES, st.none() | RUNS_OF),
    st.builds(lambda piece, run: sample("ExemplarCaptured", exemplar=piece, run=run), PIECES, st.none() | RUNS_OF),
    st.builds(lambda piece, run: sample("SnippetLearned", snippet=piece, run=run), PIECES, st.none() | RUNS_OF),
    st.builds(lambda piece, run: sample("RecipeImported", recipe=piece, run=run), PIECES, st.none() | RUNS_OF),
    st.builds(
        lambda piece, kind, run: sample("PieceProposed", piece=piece, kind=kind, run=run),
        PIECES,
        st.sampled_from(["skill", "instruction"]),
        st.none() | RUNS_OF,
    ),
    st.builds(
        lambda piece, kind, run, withheld: sample("PieceTried", piece=piece, kind=kind, run=run, withheld=withheld),
        PIECES,
        KINDS,
        RUNS_OF,
        st.booleans(),
    ),
    st.builds(lambda name: sample("SubstrateChosen", substrate=name), SUBSTRATE),
    st.builds(
        lambda name, run, controls: sample("SubstrateCredited", substrate=name, run=run, control_runs=controls),
        SUBSTRATE,
        RUNS_OF,
        st.lists(RUNS_OF, max_size=2),
    ),
    st.builds(lambda runs: sample("RunsWithdrawn", runs=runs), st.lists(RUNS_OF, min_size=1, max_size=2)),
)
STORIES = st.lists(LEARNED, min_size=4, max_size=24)


def log_of(story: list[AnyEvent]) -> tuple[Recorded, ...]:
    begun = [started(run, GROUP_OF[run], index) for index, run in enumerate(NAMES)]
    return told(*begun, *story)


def withdrawn_in(log: tuple[Recorded, ...]) -> set[str]:
    events = (item.event for item in log)
    return {run for event in events if event.type == "RunsWithdrawn" for run in event.runs}


def never_played(log: tuple[Recorded, ...]) -> tuple[Recorded, ...]:
    """The log without the withdrawals and without every event that names a withdrawn run, at the same positions."""
    withdrawn = withdrawn_in(log)
    return tuple(
        item
        for item in log
        if item.event.type != "RunsWithdrawn"
        and withdrawn.isdisjoint({getattr(item.event, "run", None), *getattr(item.event, "control_runs", ())})
    )


DISOWNINGS = st.builds(
    lambda positions: sample("EventsDisowned", positions=sorted(positions)),
    st.sets(st.integers(len(NAMES) + 1, 30), min_size=1, max_size=3),
)


def honest(log: tuple[Recorded, ...]) -> tuple[Recorded, ...]:
    """The log without its disownings and without the events that they name, at the same positions."""
    events = (item.event for item in log)
    disowned = {at for event in events if event.type == "EventsDisowned" for at in event.positions}
    return tuple(item for item in log if item.event.type != "EventsDisowned" and item.position not in disowned)


@pytest.mark.parametrize("fold", LEARNING, ids=lambda fold: fold.name)
@settings(max_examples=60, deadline=None)
@given(story=st.lists(LEARNED | DISOWNINGS, min_size=6, max_size=26), upto=st.integers(6, 30))
@example(
    story=[
        sample("RewriteProposed", rewrite="rw-1", run="a"),
        sample("RunsWithdrawn", runs=["a"]),
        credited("RewriteWon", "rw-1", "b", ["a"]),
        sample("EventsDisowned", positions=[6]),
    ],
    upto=8,
)
def test_a_withdrawal_that_was_disowned_withdraws_nothing(fold: AnyFold, story: list[AnyEvent], upto: int) -> None:
    """At every position: only what was withdrawn and disowned up to there counts."""
    log = log_of(story)[:upto]
    assert newest_states(replay(fold, log)) == newest_states(replay(fold, never_played(honest(log))))


def test_these_are_the_folds_that_learn() -> None:
    assert {fold.name for fold in ALL if fold.rests_on is not None} == {fold.name for fold in LEARNING}


@pytest.mark.parametrize("fold", LEARNING, ids=lambda fold: fold.name)
@settings(max_examples=150, deadline=None)
@given(story=STORIES)
def test_what_was_learned_is_as_if_withdrawn_runs_had_never_been_played(fold: AnyFold, story: list[AnyEvent]) -> None:
    log = log_of(story)
    assert newest_states(replay(fold, log)) == newest_states(replay(fold, never_played(log)))


@settings(max_examples=100, deadline=None)
@given(story=STORIES, best=st.booleans(), least=st.sampled_from([0, 1_000_000]))
def test_a_dataset_selects_as_if_withdrawn_runs_had_never_been_played(
    story: list[AnyEvent], best: bool, least: int
) -> None:
    """The runs keep their facts, so that it is the selection that leaves them out."""
    log = log_of([*story, *(sample("RunFinished", run=run) for run in NAMES)])
    withdrawn = withdrawn_in(log)

    def selected(events: tuple[Recorded, ...], left_out: dict[str, str]) -> tuple[str, ...]:
        runs, rewards, groups = (newest_states(replay(fold, events)) for fold in (RUNS, REWARDS, GROUPS))
        groups = assemble_groups(groups.values())
        (template,) = {run.template for run in runs.values()} or {""}
        query = SftQuery(environment="marketplace", min_score=least, best_of_group=best)
        oracles = {template: frozenset({"an-oracle"})}
        reasons = judge_sft(query, runs, rewards, frozenset(), oracles, groups, left_out)
        return tuple(sorted(run for run, reason in reasons.items() if reason is None))

    left = selected(log, dict.fromkeys(withdrawn, "withdrawn"))
    assert left == selected(never_played(log), {})
    assert withdrawn.isdisjoint(left)


def test_credit_that_comes_after_its_run_was_withdrawn_counts_for_nothing() -> None:
    """Whoever gives credit need not know what was withdrawn meanwhile."""
    proposed = sample("RewriteProposed", rewrite="rw-1", run="a")
    taken_out = sample("RunsWithdrawn", runs=["b"])
    late = [credited("RewriteWon", "rw-1", "b", []), credited("RewriteWon", "rw-1", "c", ["b"])]
    found = newest_states(replay(REWRITES, told(proposed, taken_out, *late, credited("RewriteWon", "rw-1", "c", []))))
    assert found["rw-1"].wins == 1
