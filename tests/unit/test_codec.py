from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.chain import EXACT
from eventlog.codec import content_digest, decode, decode_event, encode_events
from eventlog.errors import CorruptRow, NewerSchemaVersion, UnknownEventType, UnstorableNumber, UnstorableText
from eventlog.events import EVENT_TYPES, AnyEvent, MemoryQuarantined, RewardGraded, RewardTerms, RunMissing, Usage
from eventlog.store import Append, Position
from tests.golden.test_golden_samples import golden_rows, sample

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=200)
COUNTS = st.integers(0, EXACT)
SCORES = st.integers(0, 1_000_000)
EVENTS: st.SearchStrategy[AnyEvent] = st.one_of(
    st.sampled_from(sorted(EVENT_TYPES)).map(sample),
    st.builds(MemoryQuarantined, piece=NAMES, kind=st.just("rewrite"), restored=COUNTS, reason=TEXT),
    st.builds(RunMissing, run=NAMES, group=NAMES, reason=st.just("contract_broken"), detail=TEXT),
    st.builds(
        RewardGraded,
        run=NAMES,
        group=NAMES,
        channel=st.just("oracle"),
        version=NAMES,
        score=SCORES,
        passed=st.booleans(),
        reasons=st.lists(TEXT, max_size=3).map(tuple),
        terms=st.builds(
            RewardTerms,
            score=SCORES,
            lambda_per_dollar=st.integers(-EXACT, EXACT),
            penalty=st.none() | st.integers(-EXACT, EXACT),
        ),
        prices=COUNTS,
        cost=st.none() | COUNTS,
        value=st.none() | st.integers(-EXACT, EXACT),
    ),
)


def request(*events: AnyEvent, **changes: Any) -> Append:
    return replace(Append("s", events, "actor", key="k"), **changes)


@given(EVENTS)
def test_every_event_comes_back_as_it_was(event: AnyEvent) -> None:
    (row,) = encode_events(request(event))
    assert (row.type, row.schema_version) == (type(event).__name__, type(event).schema_version)
    assert "type" not in json.loads(row.payload)
    assert decode_event(row.type, row.schema_version, row.payload.decode()) == event


@given(EVENTS)
def test_what_comes_back_is_written_again_as_the_same_bytes(event: AnyEvent) -> None:
    (first,) = encode_events(request(event))
    (second,) = encode_events(request(decode_event(first.type, first.schema_version, first.payload.decode())))
    assert first == second


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_each_type_decodes_from_a_payload_whose_keys_stand_in_another_order(kind: str) -> None:
    (row,) = encode_events(request(sample(kind)))
    shuffled = json.dumps(dict(reversed(json.loads(row.payload).items())))
    assert decode_event(kind, row.schema_version, shuffled) == sample(kind)


def test_a_key_stands_for_stream_types_versions_and_payloads_and_for_nothing_else() -> None:
    won, lost = sample("RewriteWon"), sample("RewriteLost")
    digest = content_digest("s", encode_events(request(won, lost)))
    assert digest == content_digest(
        "s", encode_events(request(won, lost, actor="another", cause=Position(7), key="other"))
    )
    others = [
        content_digest("t", encode_events(request(won, lost))),
        content_digest("s", encode_events(request(lost, won))),
        content_digest("s", encode_events(request(won))),
        content_digest("s", encode_events(request(won, sample("RewriteLost", run="another")))),
        content_digest("s", tuple(replace(row, schema_version=2) for row in encode_events(request(won, lost)))),
    ]
    assert len({digest, *others}) == 6


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
@pytest.mark.parametrize("field", ["stream", "actor", "key"])
def test_an_envelope_that_no_database_keeps_is_refused(field: str, text: str) -> None:
    changed = request(sample("RewriteWon"), **{field: text})
    with pytest.raises(UnstorableText):
        content_digest(changed.stream, encode_events(changed))


def test_a_payload_that_no_database_keeps_is_refused_and_the_field_is_named() -> None:
    event = MemoryQuarantined(piece="p", kind="rewrite", restored=0, reason="a\0b")
    with pytest.raises(UnstorableText, match=r"payload\.reason"):
        encode_events(request(event))


def test_numbers_beyond_the_exact_range_are_refused_by_the_model_and_by_the_codec() -> None:
    with pytest.raises(ValueError, match="less than or equal"):
        Usage(actions=EXACT + 1, wall_microseconds=None, input_tokens=None, output_tokens=None)
    with pytest.raises(UnstorableNumber, match=r"\$\.cause"):
        encode_events(request(sample("RewriteWon"), cause=Position(EXACT + 1)))


def test_an_unknown_type_is_named_with_what_is_known() -> None:
    with pytest.raises(UnknownEventType) as caught:
        decode_event("RunTeleported", 3, "{}")
    assert (caught.value.facts["actual"], caught.value.facts["schema_version"]) == ("RunTeleported", 3)
    assert "RunFinished" in str(caught.value)


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_a_newer_schema_version_is_refused_even_where_its_payload_would_fit(kind: str) -> None:
    (row,) = encode_events(request(sample(kind)))
    with pytest.raises(NewerSchemaVersion) as caught:
        decode_event(kind, row.schema_version + 1, row.payload.decode())
    assert caught.value.facts == {"type": kind, "actual": row.schema_version + 1, "expected": row.schema_version}


@pytest.mark.parametrize(
    "payload",
    [
        "{}",
        "[]",
        "null",
        "not json",
        '{"piece": "p", "kind": "rewrite", "restored": "1", "reason": ""}',
        '{"piece": "p", "kind": "rewrite", "restored": 1.0, "reason": ""}',
        '{"piece": "p", "kind": "rewrite", "restored": -1, "reason": ""}',
        '{"piece": "p", "kind": "another", "restored": 1, "reason": ""}',
        '{"piece": "", "kind": "rewrite", "restored": 1, "reason": ""}',
        '{"piece": "p", "kind": "rewrite", "restored": 1, "reason": "", "more": 1}',
    ],
)
def test_a_payload_that_is_not_its_types_is_named_by_position(payload: str) -> None:
    row = next(row for row in golden_rows() if row.type == "MemoryQuarantined")
    with pytest.raises(CorruptRow) as caught:
        decode(replace(row, payload=payload))
    assert (caught.value.facts["position"], caught.value.facts["type"]) == (row.position, "MemoryQuarantined")


@pytest.mark.parametrize("changes", [{"stream": ""}, {"actor": ""}, {"key": ""}, {"events": ()}])
def test_an_append_without_its_parts_is_refused_when_it_is_made(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="append"):
        request(sample("RewriteWon"), **changes)


def test_a_caller_without_a_key_gets_one_of_its_own() -> None:
    event = sample("RewriteWon")
    assert Append("s", (event,), "a").key != Append("s", (event,), "a").key
