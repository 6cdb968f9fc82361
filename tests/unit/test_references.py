"""Which blobs the log names, found by walking the models."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import EVENT_TYPES
from eventlog.references import NAMING, Mention, blob_addresses, count_references, mentions
from eventlog.store import Position, Recorded
from tests.golden.test_golden_samples import golden_log, sample

NAMES = st.sampled_from("abcdefgh")
EXPECTED: dict[str, tuple[str, ...]] = {
    "RunStarted": ("artifact.memory.digest", "plan"),
    "SweepPlanned": ("artifact.memory.digest",),
    "StepTaken": ("argument", "observation"),
    "ModelCalled": ("messages", "images.0", "completion"),
    "StepVerified": ("reason",),
    "SiteRecorded": ("record",),
    "RunFinished": ("end_state",),
    "ChampionPointed": ("artifact.memory.digest",),
    "ArtifactDeployed": ("artifact.memory.digest",),
    "DeploymentFailed": ("artifact.memory.digest",),
    "DatasetFrozen": (),  # only a query of demonstrations names any
    "SliceRegistered": (),
    "CheckpointSaved": ("manifest", *(f"files.{number}.blob" for number in range(5))),
    "SpansKept": ("raw",),
    "LoopOpened": ("task", "skills.0.content", "tools.0.content"),
    "IterationDecided": ("prompt", "answer"),
    "WorkerReturned": ("result",),
    "StallSignalled": ("output",),
    "ToolForged": ("content",),
    "SkillSaved": ("content",),
    "LoopClosed": ("result",),
    "HintRecorded": ("content",),
    "ExemplarCaptured": ("content",),
    "SnippetLearned": ("content",),
    "RecipeImported": ("content",),
    "PieceProposed": ("content",),
    "EvaluationOpened": ("champion.memory.digest", "challenger.memory.digest"),
    "VerdictReached": ("verdict.champion.artifact.memory.digest", "verdict.challenger.artifact.memory.digest"),
}


def at(payload: Any, path: str) -> str:
    for part in path.split("."):
        payload = payload[int(part)] if part.isdigit() else payload[part]
    return str(payload)


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_an_event_names_the_blobs_of_its_marked_fields_and_no_other_digest(kind: str) -> None:
    event = sample(kind)
    payload = event.model_dump(mode="json")
    expected = [at(payload, path) for path in EXPECTED.get(kind, ())]
    assert list(blob_addresses(event)) == list(dict.fromkeys(expected))
    assert (kind in NAMING) is (kind in EXPECTED)


def test_what_is_unknown_is_no_address() -> None:
    assert blob_addresses(sample("StepTaken", argument=None, observation=None)) == ()


def test_an_address_that_is_named_twice_by_an_event_counts_once() -> None:
    started = sample("RunStarted")
    digest = blob_addresses(started)[0]
    assert blob_addresses(sample("RunStarted", plan=digest)) == (digest,)


def test_mentions_count_events_and_keep_the_first() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    events = [
        Recorded(
            Position(n), "s", n, moment, "test", None, b"", sample("StepTaken", argument=None, observation=name * 64)
        )
        for n, name in enumerate("abacaa", start=1)
    ]
    assert mentions(events) == {
        "a" * 64: Mention(4, Position(1), "StepTaken"),
        "b" * 64: Mention(1, Position(2), "StepTaken"),
        "c" * 64: Mention(1, Position(4), "StepTaken"),
    }


def test_the_golden_log_names_what_its_digests_are() -> None:
    named = mentions(golden_log())
    assert len(named) == 123
    assert sum(mention.count for mention in named.values()) == sum(
        len(blob_addresses(recorded.event)) for recorded in golden_log()
    )


@given(st.dictionaries(NAMES, st.integers(1, 3)), st.dictionaries(NAMES, NAMES | st.none()))
def test_counts_are_what_the_plainest_count_gives(named: dict[str, int], links: dict[str, str | None]) -> None:
    parents = {child: parent for child, parent in links.items() if parent is None or parent > child}
    mentioned = {name: Mention(count, Position(1), "StepTaken") for name, count in named.items()}
    reached = set(named)
    while more := {parents[name] for name in reached if parents.get(name)} - reached:
        reached |= {name for name in more if name is not None}
    expected = {name: named.get(name, 0) + sum(parents.get(child) == name for child in reached) for name in reached}
    assert count_references(mentioned, parents) == expected
