"""The short way from stored text to canonical bytes gives what the long way gives."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.chain import EXACT, canonical, canonical_text, event_digest, stored_digest
from eventlog.errors import UnstorableNumber, UnstorableText
from eventlog.store import Position
from tests.golden.test_golden_samples import golden_rows

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-EXACT, EXACT) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_text_is_brought_to_the_bytes_of_its_value(value: object, is_ascii: bool) -> None:
    assert canonical_text(json.dumps(value, ensure_ascii=is_ascii, indent=1)) == canonical(value)


@pytest.mark.parametrize("text", ["1.0", '{"a": [1e3]}', "9007199254740993", "[-9007199254740993]", "NaN", "-Infinity"])
def test_a_number_that_no_event_may_hold_is_refused(text: str) -> None:
    with pytest.raises(UnstorableNumber):
        canonical_text(text)


@pytest.mark.parametrize("text", ['"\\u0000"', '{"a\\u0000": 1}', '["\\ud800"]'])
def test_text_that_no_event_may_hold_is_refused(text: str) -> None:
    with pytest.raises(UnstorableText):
        canonical_text(text)


@given(VALUES, TEXT, TEXT, st.none() | st.integers(1, EXACT), st.integers(1, 99))
def test_the_digest_of_a_row_is_that_of_its_event(
    payload: object, kind: str, actor: str, cause: int | None, version: int
) -> None:
    by = None if cause is None else Position(cause)
    row = replace(
        golden_rows()[0], type=kind, actor=actor, cause=by, schema_version=version, payload=json.dumps(payload)
    )
    assert stored_digest(row) == event_digest(kind, version, payload, actor, by)
