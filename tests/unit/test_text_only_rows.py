"""Answers of which only the text is known: good enough to imitate or to prefer, and never a row for a ratio."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from api.datasets import row_batches
from eventlog.blobs import Blob
from eventlog.blobs.conversations import put_messages
from eventlog.events import DpoQuery, GrpoQuery, SftQuery, Tokens, query_of
from projections.datasets.advantages import NANO, centred_rewards
from projections.datasets.conversations import read_message, texts_at
from projections.datasets.plan_rows import ConversationMessage
from projections.datasets.sampled import CallFact, SampledCall, read_demonstrated
from tests.unit.test_policy_samples import MICRO, TEMPLATE, TOKENIZER, PolicyCall, PolicyLog, siblings

TOKENS = Tokens(tokenizer=TOKENIZER, chat_template=TEMPLATE)
TEXT_ONLY = PolicyCall(prompt=None, ids=None, logprobs=None, tokenizer=None, template=None)
END = 2


@pytest.fixture(autouse=True)
def _tokenised_by_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    def tokenise(asked: Sequence[ConversationMessage], answer: str) -> tuple[list[int], list[int]]:
        return [ord(sign) for message in asked for sign in message.content], [*map(ord, answer), END]

    monkeypatch.setattr(row_batches, "tokenise_with", lambda _blobs, _tokens: tokenise)


def reasons(log: PolicyLog, query: Any) -> dict[str, int]:
    return {item.reason: item.runs for item in log.build(query).refused}


def test_without_a_tokenizer_they_are_refused_and_with_one_imitated() -> None:
    log = PolicyLog(*siblings(MICRO, MICRO, calls=(TEXT_ONLY,)))
    assert reasons(log, SftQuery(runs="policy")) == {"no_token_ids": 2}
    frame = log.build(SftQuery(runs="policy", tokens=TOKENS)).rows
    assert frame.height == 2
    assert frame["tokenizer"].unique().to_list() == [TOKENIZER]
    assert [ids[-1] for ids in frame["completion_ids"]] == [END, END]
    assert all(set(mask) == {1} for mask in frame["mask"])


def test_sampled_tokens_are_taken_as_they_are_beside_them() -> None:
    drawn = siblings(MICRO)[0]
    text = replace(siblings(MICRO, MICRO, calls=(TEXT_ONLY,))[1], calls=(TEXT_ONLY,))
    frame = PolicyLog(drawn, text).build(SftQuery(runs="policy", tokens=TOKENS)).rows
    assert [7, 8, 10] in frame["completion_ids"].to_list()
    assert frame.height == 2


def test_preferences_are_made_of_texts() -> None:
    better, worse = siblings(MICRO, 0, calls=(TEXT_ONLY,))
    log = PolicyLog(better, replace(worse, calls=(replace(TEXT_ONLY, text="no"),)))
    assert reasons(log, DpoQuery())["no_token_ids"] == 2
    (row,) = log.build(DpoQuery(tokens=TOKENS)).rows.to_dicts()
    assert row["rejected_ids"] == [ord("n"), ord("o"), END]
    assert row["chosen_ids"] != row["rejected_ids"]


TOOL = {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}


def answering(text: str, tool_calls: list[Any] | None) -> PolicyCall:
    """A call whose endpoint gave an answer without token ids, perhaps with calls of tools."""
    sample = {"text": text, "finish": "stop", "token_ids": None, "tool_calls": tool_calls}
    return PolicyCall(body=json.dumps({"model": "m", "samples": [sample]}).encode())


@pytest.mark.parametrize("query", [SftQuery(runs="policy", tokens=TOKENS), DpoQuery(tokens=TOKENS)])
def test_an_answer_that_calls_a_tool_is_refused_and_never_an_empty_one(query: Any) -> None:
    for text in ("", "I look it up."):
        runs = siblings(MICRO, 0, calls=(answering(text, [TOOL]),))
        assert reasons(PolicyLog(*runs), query)["tool_calls"] == 2 - isinstance(query, SftQuery)
    spoken = siblings(MICRO, 0, calls=(answering("yes", None),))
    assert "tool_calls" not in reasons(PolicyLog(*spoken), query)


BLOCKS: list[dict[str, Any]] = [{"type": "text", "text": "2 + 2"}, {"type": "text", "text": "= ?"}]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"role": "user", "content": BLOCKS}, None),
        ({"role": "system", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}, None),
        (
            {"role": "user", "content": [*BLOCKS, {"type": "image_url", "image": "a", "media_type": "image/png"}]},
            "not_text",
        ),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "rain"}]}, "not_text"),
        ({"role": "tool", "tool_call_id": "t1", "content": "rain"}, "not_text"),
        ({"role": "assistant", "content": None, "tool_calls": [TOOL]}, "not_text"),
        ({"role": "assistant", "content": "I look it up.", "tool_calls": [TOOL]}, "not_text"),
        ({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}, "not_text"),
        ({"role": "assistant", "content": [{"type": "tool_use", "input": {"x": 1.5}}]}, "not_text"),
        ({"role": "user", "content": {"x": 2**70}}, "not_text"),
    ],
)
def test_blocks_of_text_are_joined_and_what_is_more_than_text_is_refused(
    message: dict[str, Any], reason: str | None
) -> None:
    log = PolicyLog()
    address = put_messages(log.blobs, [message])
    turn = read_message(address, log.blobs.get(address))
    assert turn.is_text == (reason is None)
    if message["content"] == BLOCKS:
        assert turn.message.content == "2 + 2\n= ?"
    found = read_demonstrated(
        CallFact(0, "m", {}, address, ""),
        answering("four", None).body or b"",
        partial(texts_at, {address: turn}),
        lambda asked, answer: ([len(asked)], [*map(ord, answer), END]),
        TOKENS,
    )
    assert found == reason if reason else isinstance(found, SampledCall)


def test_a_message_that_is_no_unicode_text_is_told_apart_and_stops_no_dataset() -> None:
    body = b'{"message":{"role":"user","content":"2 + 2 \\ud800"},"parent":null}'
    turn = read_message("a", Blob("application/vnd.flywheel.message+json", body))
    assert (turn.message.content, turn.is_text) == ("2 + 2 ?", False)


def test_a_ratio_never_has_them() -> None:
    log = PolicyLog(*siblings(MICRO, 0, calls=(TEXT_ONLY,)))
    assert reasons(log, GrpoQuery(reward="score")) == {"no_token_ids": 2}
    with pytest.raises(ValidationError):
        query_of({"kind": "grpo", "tokens": TOKENS.model_dump()})
    with pytest.raises(ValidationError):
        SftQuery(runs="plan", tokens=TOKENS)
    with pytest.raises(ValidationError):
        SftQuery(runs="demonstration")


def test_undivided_advantages_are_differences_to_the_mean() -> None:
    assert centred_rewards((MICRO, 0, 0)) == (666_666_667, -333_333_333, -333_333_333)
    assert centred_rewards((MICRO, -MICRO)) == (NANO, -NANO)
    log = PolicyLog(*siblings(MICRO, 0, 0))
    frame = log.build(GrpoQuery(reward="score", scale="none")).rows
    assert frame["advantage"].to_list() == pytest.approx([2 / 3, -1 / 3, -1 / 3], abs=1e-9)
    assert GrpoQuery(scale="group").model_dump() == GrpoQuery().model_dump()
    assert "scale" not in GrpoQuery().model_dump()
