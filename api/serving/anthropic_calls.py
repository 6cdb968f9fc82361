"""The dialect of Anthropic: messages, whole and streamed. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from eventlog.blobs.canonical_json import canonical_json

from .calls import (
    ModelAnswer,
    ModelCall,
    Sampled,
    message_list,
    picture_of,
    sampling_of,
    text_field,
    token_count,
    with_paragraph,
)

if TYPE_CHECKING:
    from eventlog.blobs import Blob
    from eventlog.blobs.conversations import Json

LAST: Final = "message_stop"
RECORDED: Final = "recorded_by_flywheel"
"""Field of an answer of a model in this process: token ids and logprobs, which are recorded and no caller gets."""
_FINISH: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "max_tokens": "length",
    "refusal": "filtered",
}


def read_messages(body: Mapping[str, Any]) -> ModelCall:
    """A request for a message. The system prompt becomes the first message. Raises BadCall."""
    pictures: list[Blob] = []
    system = body.get("system")
    first: tuple[Mapping[str, Json], ...] = () if not system else ({"role": "system", "content": system},)
    messages = tuple(_with_addresses(message, pictures) for message in message_list(body))
    choice = body.get("tool_choice")
    return ModelCall(
        model=text_field(body, "model"),
        messages=(*first, *messages),
        pictures=tuple({picture.digest: picture for picture in pictures}.values()),
        sampling=sampling_of(body, body.get("max_tokens"), body.get("stop_sequences"), wants_logprobs=False),
        is_streamed=bool(body.get("stream")),
        is_constrained=isinstance(choice, dict) and choice.get("type") in {"any", "tool"},
        asked={key: value for key, value in body.items() if key not in {"messages", "system"}},
    )


def advise_messages(body: Mapping[str, Any], paragraph: str) -> dict[str, Any]:
    """The body with a paragraph at the end of its system prompt. Raises BadCall."""
    return {**body, "system": with_paragraph(body.get("system"), paragraph)}


def _with_addresses(message: dict[str, Any], pictures: list[Blob]) -> Mapping[str, Json]:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": [_part(part, pictures) for part in content]}


def _part(part: Any, pictures: list[Blob]) -> Json:
    if isinstance(part, dict) and isinstance(part.get("content"), list):
        return {**part, "content": [_part(each, pictures) for each in part["content"]]}
    source = part.get("source") if isinstance(part, dict) else None
    if not isinstance(source, dict) or source.get("type") != "base64":
        return part  # type: ignore[no-any-return]  # any JSON that came in
    picture = picture_of(source.get("media_type"), source.get("data"), "source")
    pictures.append(picture)
    return {"type": part.get("type"), "image": picture.digest, "media_type": picture.media_type}


def read_message_answer(answer: Mapping[str, Any]) -> ModelAnswer:
    """A message. Raises KeyError, TypeError if it has another shape."""
    blocks, usage = answer["content"], answer.get("usage") or {}
    read = [usage.get(name) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")]
    told = answer.get(RECORDED) or {}
    sample = Sampled(
        text="".join(block.get("text") or "" for block in blocks if block.get("type") == "text"),
        finish=_FINISH.get(answer.get("stop_reason") or "", "other"),
        tokens=told.get("tokens"),
        logprobs=told.get("logprobs"),
        token_ids=told.get("token_ids"),
        tool_calls=[block for block in blocks if block.get("type") not in {"text", None}],
    )
    return ModelAnswer(
        model=str(answer.get("model") or ""),
        samples=(sample.plain(),),
        input_tokens=None if token_count(read[0]) is None else sum(token_count(each) or 0 for each in read),
        output_tokens=token_count(usage.get("output_tokens")),
        prompt_token_ids=told.get("prompt_token_ids"),
    )


def without_recorded(answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer, or an event of a stream, as its caller gets it."""
    return {key: value for key, value in answer.items() if key != RECORDED}


def join_messages(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The events of a streamed message as the whole one."""
    whole: dict[str, Any] = {"usage": {}}
    blocks: dict[int, dict[str, Any]] = {}
    for part in parts:
        match part.get("type"):
            case "message_start":
                message = part["message"]
                whole |= {"model": message.get("model"), "usage": dict(message.get("usage") or {})}
            case "content_block_start":
                blocks[part["index"]] = dict(part["content_block"])
            case "content_block_delta":
                _add_delta(blocks[part["index"]], part["delta"])
            case "message_delta":
                whole["stop_reason"] = part["delta"].get("stop_reason")
                whole |= {RECORDED: part[RECORDED]} if RECORDED in part else {}
                whole["usage"] |= {key: value for key, value in (part.get("usage") or {}).items() if value is not None}
    return {**whole, "content": [_with_input(blocks[place]) for place in sorted(blocks)]}


def _add_delta(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a delta to its block; the parts of a tool's input are a text of JSON."""
    for source, field in (("text", "text"), ("thinking", "thinking"), ("signature", "signature")):
        if source in delta:
            block[field] = (block.get(field) or "") + delta[source]
    if "partial_json" in delta:
        before = block.get("input")
        block["input"] = (before if isinstance(before, str) else "") + delta["partial_json"]


def _with_input(block: dict[str, Any]) -> dict[str, Any]:
    """The block with its tool's input as it is in an answer that is not streamed.

    One that was cut off, or that no record can hold, stays a text.
    """
    if not isinstance(told := block.get("input"), str):
        return block
    try:
        whole = block | {"input": json.loads(told or "{}")}
        canonical_json(whole)
    except (ValueError, RecursionError):
        return block
    return whole
