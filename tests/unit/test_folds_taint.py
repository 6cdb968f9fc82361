"""Taint: which facts are kept under which key, and what was learned from a run at first order."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import AnyEvent, Artifact, Memory
from eventlog.memory import MemoryStore
from eventlog.store import Append
from projections.engine.projection import Change, apply, digest_changes, replay, row_of, state_json
from projections.engine.views import ReplayedViews
from projections.taint import (
    TAINT,
    TaintState,
    erased_runs,
    erasure,
    erasures,
    left_out,
    runs_of_artifact,
    runs_of_subject,
    trace_taint,
    withdrawals,
)
from tests.golden.test_golden_samples import sample

from .test_folds_samples import changed, started, states, stream_of, told

NAMES = st.sampled_from(["a", "b", "a/b", "a__b", "ä"])


def withdrawn(*runs: str, reason: str = "bad grader") -> Any:
    return sample("RunsWithdrawn", runs=list(runs), reason=reason)


def erased(subject: str, reason: str = "asked for it") -> Any:
    return sample("SubjectErased", subject=subject, reason=reason)


def views(*events: AnyEvent) -> ReplayedViews:
    """A log of these events, each in the stream it belongs to, at positions 1, 2, 3 ..."""
    store = MemoryStore(lambda: datetime(2026, 1, 1, tzinfo=UTC))
    for event in events:
        stream = "champion" if event.type == "ChampionPointed" else stream_of(event)
        store.append([Append(stream, (event,), "test")])
    return ReplayedViews(store, store.head())


def pointed(evaluation: str | None) -> Any:
    return sample("ChampionPointed", evaluation=evaluation)


def test_one_fact_is_one_key_whatever_it_is_about() -> None:
    found = states(
        TAINT,
        started("r1", subject="ann"),
        started("r2"),
        sample("RewriteProposed", rewrite="rw", run="r1"),
        sample("RewriteWon", rewrite="rw", run="r2", control_runs=["r3", "r4"]),
        withdrawn("r1", "r2"),
        erased("ann"),
    )
    assert sorted(key.partition("/")[0] for key in found) == [
        "erased",
        "learned",
        "learned",
        "played",
        "subject",
        "withdrawn",
    ]
    assert max(len(state.runs) for state in found.values()) == 3
    assert sorted(state.since for state in found.values()) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("kind", ["skill", "instruction"])
def test_a_piece_whose_event_names_its_kind_is_learned_from_its_run(kind: str) -> None:
    proposed = sample("PieceProposed", piece="p-1", kind=kind, run="r1")
    (fact,) = states(TAINT, proposed, sample("PieceProposed", piece="p-2", kind=kind, run=None)).values()
    assert (fact.piece, fact.kind, fact.runs) == ("p-1", kind, ("r1",))
    found = trace_taint(views(started("r1"), proposed), ["r1"], lambda *_: False)
    assert (found.pieces, found.rewrites) == (("p-1",), ())


def test_a_state_never_grows_with_the_number_of_events() -> None:
    story = [event for n in range(50) for event in (started(f"r{n}", subject="ann"), withdrawn(f"r{n}"))]
    assert max(len(state.runs) for state in states(TAINT, *story).values()) == 1


def test_a_run_belongs_to_the_subject_it_was_started_with_and_to_no_other_of_a_similar_name() -> None:
    found = views(started("b/c", subject="a"), started("c", subject="a/b"), started("x"), started("y", subject="a"))
    assert runs_of_subject(found, "a") == ("b/c", "y")
    assert runs_of_subject(found, "a/b") == ("c",)
    assert runs_of_subject(found, "") == ()
    assert runs_of_subject(found, "c") == ()


def test_the_first_withdrawal_and_the_first_erasure_stand() -> None:
    found = views(withdrawn("r1", reason="one"), withdrawn("r1", "r2", reason="two"), erased("ann"), erased("ann", "x"))
    assert {run: (fact.since, fact.reason) for run, fact in withdrawals(found).items()} == {
        "r1": (1, "one"),
        "r2": (2, "two"),
    }
    assert [(fact.subject, fact.since, fact.reason) for fact in erasures(found).values()] == [
        ("ann", 3, "asked for it")
    ]
    fact = erasure(found, "ann")
    assert fact is not None
    assert fact.since == 3
    assert erasure(found, "bob") is None


def test_runs_are_left_out_from_the_position_on_that_says_so_and_not_before() -> None:
    events = (started("r1", subject="ann"), started("r2"), started("r3"), withdrawn("r2"), erased("ann"))
    reasons = [left_out(views(*events[:count])) for count in range(len(events) + 1)]
    assert reasons == [{}, {}, {}, {}, {"r2": "withdrawn"}, {"r1": "erased", "r2": "withdrawn"}]
    assert set(erased_runs(views(*events))) == {"r1"}


def test_the_runs_of_an_artifact_are_those_with_its_weights_and_its_content_since_a_position() -> None:
    first = started("r1", artifact__memory__digest="a" * 64, artifact__memory__upto=5)
    other_name = started("r2", artifact__memory__digest="a" * 64, artifact__memory__upto=9)
    somebodys = started("r3", artifact__memory__digest="a" * 64, subject="ann")
    other_weights = started("r4", artifact__memory__digest="a" * 64, artifact__weights="b" * 64)
    other_memory = started("r5", artifact__memory__digest="c" * 64)
    found = views(first, other_name, somebodys, other_weights, other_memory)
    artifact = Artifact(weights="base", memory=Memory(upto=5, folds={}, without=(), digest="a" * 64))
    assert runs_of_artifact(found, artifact, after=0) == ("r1", "r2", "r3")
    assert runs_of_artifact(found, artifact, after=1) == ("r2", "r3")
    assert runs_of_artifact(found, artifact, after=3) == ()


def test_what_was_learned_from_runs_is_listed_at_first_order_and_what_came_after_beside_it() -> None:
    arm = {"evaluation": "e1", "benchmark": "b", "arm": "champion", "repeat": 0, "is_sealed": True}
    frozen = sample("DatasetFrozen", dataset="d" * 64)
    saved = [
        sample("CheckpointSaved", checkpoint="1" * 64, training="t1", dataset="d" * 64, base="0" * 64, parent=None),
        sample("CheckpointSaved", checkpoint="2" * 64, training="t2", dataset="e" * 64, parent="1" * 64),
        sample("CheckpointSaved", checkpoint="3" * 64, training="t3", dataset="e" * 64, base="2" * 64, parent=None),
        sample("CheckpointSaved", checkpoint="4" * 64, training="t4", dataset="e" * 64, base="0" * 64, parent=None),
    ]
    found = views(
        started("r1", arm=arm),
        started("r2"),
        started("under", applied=[{"piece": "proposed", "kind": "rewrite", "step": 0}]),
        started("clean", applied=[{"piece": "other", "kind": "rewrite", "step": 0}]),
        sample("RewriteProposed", rewrite="proposed", run="r1"),
        sample("RewriteLost", rewrite="credited", run="r2", control_runs=[]),
        sample("RewriteWon", rewrite="controlled", run="clean", control_runs=["r1"]),
        sample("RewriteProposed", rewrite="second", run="under"),
        sample("RewriteProposed", rewrite="other", run="clean"),
        sample("EvaluationOpened", evaluation="e1"),
        sample("VerdictReached", evaluation="e1"),
        pointed("e1"),
        pointed("e2"),
        frozen,
        *saved,
    )
    known = trace_taint(
        found, ["r1", "nobody", "r1"], lambda dataset, runs: dataset.dataset == "d" * 64 and runs == {"r1"}
    )
    assert known.runs == ("r1",)
    assert known.rewrites == ("controlled", "proposed")
    assert known.datasets == ("d" * 64,)
    assert known.checkpoints == ("1" * 64,)
    assert known.checkpoints_under == ("2" * 64, "3" * 64)
    assert (known.evaluations, known.champions) == (("e1",), (12,))
    assert (known.runs_under, known.rewrites_under) == (("under",), ("second",))
    assert trace_taint(found, ["r2"], lambda _dataset, _runs: False).rewrites == ("credited",)


def test_a_trial_of_a_withheld_rewrite_teaches_from_its_run_and_its_controls() -> None:
    trial = sample("PieceTried", piece="withheld", kind="rewrite", run="r1", control_runs=["r2"])
    hint = sample("PieceTried", piece="hint", kind="hint", run="r1", control_runs=["r2"])
    found = views(started("r1"), started("r2"), trial, hint)
    for run in ("r1", "r2"):
        assert trace_taint(found, [run], lambda _dataset, _runs: False).rewrites == ("withheld",)


def test_an_evaluation_without_a_verdict_taints_no_champion() -> None:
    arm = {"evaluation": "e1", "benchmark": "b", "arm": "champion", "repeat": 0, "is_sealed": True}
    found = views(started("r1", arm=arm), sample("EvaluationOpened", evaluation="e1"), pointed("e1"))
    known = trace_taint(found, ["r1"], lambda _dataset, _runs: True)
    assert (known.evaluations, known.champions) == (("e1",), ())


@pytest.mark.parametrize("runs", [[], ["nobody"]])
def test_no_run_taints_nothing_and_no_dataset_is_looked_at(runs: list[str]) -> None:
    found = views(started("r1"), sample("DatasetFrozen"), sample("RewriteProposed", run="nobody"))

    def refused(*_: object) -> bool:
        raise AssertionError("a dataset was looked at")

    known = trace_taint(found, runs, refused)
    assert not any([known.runs, known.rewrites, known.datasets, known.evaluations, known.runs_under])


EVENTS = st.one_of(
    st.builds(lambda run, subject: started(run, subject=subject), NAMES, NAMES | st.none()),
    st.builds(lambda run, rewrite: sample("RewriteProposed", run=run, rewrite=rewrite), NAMES, NAMES),
    st.builds(
        lambda kind, run, controls: sample(kind, run=run, control_runs=controls),
        st.sampled_from(["RewriteWon", "RewriteLost"]),
        NAMES,
        st.lists(NAMES, max_size=2),
    ),
    st.builds(lambda runs: withdrawn(*runs), st.lists(NAMES, min_size=1, max_size=3)),
    st.builds(erased, NAMES),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, max_size=12), st.data())
def test_any_split_into_batches_gives_the_same_and_states_survive_json(
    events: list[AnyEvent], data: st.DataObject
) -> None:
    log = told(*events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=3)))
    known: dict[str, TaintState] = {}
    changes: list[Change[Any]] = []
    for start, end in pairwise([0, *cuts, len(log)]):
        rows = [row_of(event, TAINT.reads[event.event.type]) for event in log[start:end]]
        changes += apply(TAINT, known, rows)
        known = {key: TAINT.decode(state_json(state)) for key, state in known.items()}
    assert digest_changes(changes) == digest_changes(replay(TAINT, log))


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, max_size=12))
def test_the_reads_are_what_the_events_say(events: list[AnyEvent]) -> None:
    found = views(*events)
    facts = [event.model_dump(mode="json") for event in events]
    out = {run for fact in facts if fact["type"] == "RunsWithdrawn" for run in fact["runs"]}
    gone = {fact["subject"] for fact in facts if fact["type"] == "SubjectErased"}
    subjects = [(fact.get("subject"), fact["run"]) for fact in facts if fact["type"] == "RunStarted"]
    assert set(withdrawals(found)) == out
    assert set(erasures(found)) == gone
    for subject in ("a", "b", "a/b", "a__b", "ä"):
        assert set(runs_of_subject(found, subject)) == {run for whose, run in subjects if whose == subject}
    assert set(left_out(found)) == out | {run for whose, run in subjects if whose in gone}


def test_a_run_may_name_no_subject_by_saying_so_or_by_saying_nothing() -> None:
    silent = started("r1")
    assert "subject" not in silent.model_dump(mode="json")
    assert changed(silent, "subject", None) == silent
    assert changed(silent, "subject", "ann").model_dump(mode="json")["subject"] == "ann"
