"""Conversations: any list of messages comes back, and what lists share is kept once."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.blobs import Blob, MemoryBlobs
from eventlog.blobs.canonical_json import canonical_json
from eventlog.blobs.conversations import MESSAGE_TYPE, get_messages, link_messages, put_messages
from eventlog.errors import (
    BlobDamaged,
    BlobErased,
    BlobMissing,
    NoMessages,
    NotAConversation,
    UnstorableNumber,
    UnstorableText,
)

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
MESSAGE = st.dictionaries(TEXT, JSON, max_size=4)
MESSAGES = st.lists(MESSAGE, min_size=1, max_size=6)
SUBJECTS = st.sampled_from([None, "a"])
SYSTEM: dict[str, Any] = {"role": "system", "content": "You operate a web site."}
ASKED: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "Find a boat."}]}
SAID: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "arguments": '{"n": 1.0}'}]}


@given(MESSAGES, SUBJECTS)
def test_any_messages_come_back(messages: list[dict[str, Any]], subject: str | None) -> None:
    blobs = MemoryBlobs()
    address = put_messages(blobs, messages, subject=subject)
    assert get_messages(blobs, address) == messages
    assert put_messages(blobs, messages, subject=subject) == address


@given(st.dictionaries(TEXT, TEXT, max_size=4) | MESSAGE)
def test_a_message_is_kept_in_canonical_json(message: dict[str, Any]) -> None:
    (kept,) = link_messages([message], lambda blob: blob.digest)
    assert kept.body == canonical_json({"parent": None, "message": message})


KEYED: Any = st.dictionaries(st.integers() | st.none() | st.booleans(), TEXT, max_size=1)


@given(st.dictionaries(TEXT, JSON | st.tuples(TEXT) | KEYED, max_size=6) | KEYED)
def test_canonical_json_is_that_of_the_standard_library(value: dict[str, Any]) -> None:
    theirs = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    assert canonical_json(value) == theirs.encode()


@pytest.mark.parametrize("body", [{"a": ["\ud800"]}, {"\ud800": None}, {"n": math.nan}, {"n": [{"m": -math.inf}]}])
def test_what_utf_8_or_json_cannot_say_has_no_canonical_form(body: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"surrogates|Out of range"):
        canonical_json(body)


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["more"] = [endless]
    with pytest.raises(ValueError, match="Circular"):
        canonical_json(endless)


@given(MESSAGES, MESSAGES, MESSAGES, SUBJECTS)
def test_a_shared_beginning_is_kept_once(
    shared: list[dict[str, Any]], one: list[dict[str, Any]], two: list[dict[str, Any]], subject: str | None
) -> None:
    blobs = MemoryBlobs()
    lists = [shared, shared + one, shared + two]
    addresses = [put_messages(blobs, messages, subject=subject) for messages in lists]
    assert [get_messages(blobs, address) for address in addresses] == lists
    beginnings = {json.dumps(messages[:n], sort_keys=True) for messages in lists for n in range(1, len(messages) + 1)}
    assert len(blobs.digests()) == len(beginnings)


@given(MESSAGES, MESSAGES)
def test_other_messages_have_another_address(one: list[dict[str, Any]], two: list[dict[str, Any]]) -> None:
    blobs = MemoryBlobs()
    is_same = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    assert (put_messages(blobs, one) == put_messages(blobs, two)) is is_same


def test_a_growing_history_adds_one_blob_for_each_message() -> None:
    blobs = MemoryBlobs()
    history: list[dict[str, Any]] = [SYSTEM]
    for count in range(1, 30):
        put_messages(blobs, history)
        assert len(blobs.digests()) == count
        history = [*history, {"role": "user", "content": str(count)}]


def test_the_order_of_keys_says_nothing_and_the_stored_form_is_fixed() -> None:
    turned = dict(reversed(SYSTEM.items()))
    first, second = link_messages([SYSTEM, ASKED], lambda blob: blob.digest)
    assert next(iter(link_messages([turned], lambda blob: blob.digest))) == first
    assert first.body == (b'{"message":{"content":"You operate a web site.","role":"system"},"parent":null}')
    assert json.loads(second.body)["parent"] == first.digest
    assert {first.media_type, second.media_type} == {MESSAGE_TYPE}


def test_subjects_share_no_message() -> None:
    blobs = MemoryBlobs()
    addresses = {name: put_messages(blobs, [SYSTEM, ASKED], subject=name) for name in (None, "a", "b")}
    assert len(set(addresses.values())) == 3
    assert len(blobs.digests()) == 6
    blobs.erase("a")
    with pytest.raises(BlobErased):
        get_messages(blobs, addresses["a"])
    assert get_messages(blobs, addresses["b"]) == get_messages(blobs, addresses[None]) == [SYSTEM, ASKED]


def test_no_messages_have_no_address() -> None:
    with pytest.raises(NoMessages):
        put_messages(MemoryBlobs(), [])


@pytest.mark.parametrize(
    ("value", "error"),
    [(math.nan, UnstorableNumber), (math.inf, UnstorableNumber), ("\ud800", UnstorableText)],
    ids=["nan", "infinity", "surrogate"],
)
def test_what_json_or_unicode_cannot_say_is_refused_with_its_place(value: Any, error: type[Exception]) -> None:
    blobs = MemoryBlobs()
    with pytest.raises(error, match="message 1"):
        put_messages(blobs, [SYSTEM, {"content": value}])
    assert blobs.digests() == frozenset()


def test_what_is_no_message_is_named() -> None:
    blobs = MemoryBlobs()
    (page,) = blobs.put([Blob("text/html", b"{}")])
    with pytest.raises(NotAConversation, match="text/html"):
        get_messages(blobs, page)
    with pytest.raises(BlobMissing):
        get_messages(blobs, "0" * 64)


@pytest.mark.parametrize(
    "body", [b"[", b"[]", b"{}", b'{"message":1,"parent":null}', b'{"message":{},"parent":"x"}', b"\xff", b"null"]
)
def test_a_message_of_another_shape_is_damaged(body: bytes) -> None:
    blobs = MemoryBlobs()
    (address,) = blobs.put([Blob(MESSAGE_TYPE, body)])
    with pytest.raises(BlobDamaged):
        get_messages(blobs, address)


def test_a_list_whose_beginning_is_missing_says_which_blob() -> None:
    blobs, other = MemoryBlobs(), MemoryBlobs()
    first, second = link_messages([SYSTEM, SAID], lambda blob: blob.digest)
    other.put([first, second])
    blobs.put([second])
    with pytest.raises(BlobMissing, match=first.digest):
        get_messages(blobs, second.digest)
