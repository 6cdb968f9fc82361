"""The dialect of OpenAI: chat completions and completions, whole and streamed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

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
from .errors import BadCall

if TYPE_CHECKING:
    from eventlog.blobs import Blob
    from eventlog.blobs.conversations import Json

DONE: Final = "[DONE]"
_COMPLETION_TOKENS: Final = 16
"""Tokens of a completion whose caller gives no bound, as in OpenAI's API."""

_FINISH: Final = {"stop": "stop", "tool_calls": "stop", "function_call": "stop", "length": "length"}
_CONSTRAINTS: Final = (
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "structured_outputs",
    "grammar",
    "json_schema",
    "regex",
    "ebnf",
)
_ADDED: Final = ("logprobs", "token_ids")


def read_chat(body: Mapping[str, Any]) -> ModelCall:
    """A request for a chat completion. Raises BadCall."""
    pictures: list[Blob] = []
    messages = tuple(_with_addresses(message, pictures) for message in message_list(body))
    most = body.get("max_completion_tokens", body.get("max_tokens"))
    return ModelCall(
        model=text_field(body, "model"),
        messages=messages,
        pictures=tuple({picture.digest: picture for picture in pictures}.values()),
        sampling=sampling_of(body, most, body.get("stop"), wants_logprobs=bool(body.get("logprobs"))),
        is_streamed=bool(body.get("stream")),
        is_constrained=_is_constrained(body),
        asked={key: value for key, value in body.items() if key != "messages"},
    )


def read_completion(body: Mapping[str, Any]) -> ModelCall:
    """A request for a completion of one prompt, a text or token ids. Raises BadCall."""
    if body.get("echo"):
        raise BadCall(where="echo", actual="true", expected="false: an echoed prompt is no sample")
    prompt = body.get("prompt")
    is_ids = isinstance(prompt, list) and bool(prompt) and all(isinstance(each, int) for each in prompt)
    if not isinstance(prompt, str) and not is_ids:
        raise BadCall(where="prompt", actual="neither a text nor token ids", expected="one prompt a request")
    wants_logprobs = asks_logprobs(body)
    return ModelCall(
        model=text_field(body, "model"),
        messages=({"role": "prompt", "content": prompt},),
        pictures=(),
        sampling=sampling_of(body, most_tokens_of_text(body), body.get("stop"), wants_logprobs=wants_logprobs),
        is_streamed=bool(body.get("stream")),
        is_constrained=_is_constrained(body),
        asked={key: value for key, value in body.items() if key != "prompt"},
    )


def most_tokens_of_text(body: Mapping[str, Any]) -> Any:
    """The bound of a completion's tokens, as the body gives it, unchecked."""
    given = body.get("max_tokens")
    return _COMPLETION_TOKENS if given is None else given


def advise_chat(body: Mapping[str, Any], paragraph: str) -> dict[str, Any]:
    """The body with a paragraph at the end of the system's first message, else before all messages. Raises BadCall."""
    first, *others = message_list(body)
    if first["role"] not in {"system", "developer"}:
        return {**body, "messages": [{"role": "system", "content": paragraph}, first, *others]}
    return {**body, "messages": [{**first, "content": with_paragraph(first.get("content"), paragraph)}, *others]}


def advise_completion(body: Mapping[str, Any], paragraph: str) -> dict[str, Any]:
    """The body with a paragraph before its prompt. Raises BadCall for a prompt that is no text."""
    if not isinstance(body.get("prompt"), str):
        raise BadCall(where="prompt", actual="no text", expected="a text, because advice is put before it")
    return {**body, "prompt": f"{paragraph}\n\n{body['prompt']}"}


def _is_constrained(body: Mapping[str, Any]) -> bool:
    form = body.get("response_format")
    bound = isinstance(form, dict) and form.get("type") not in (None, "text")
    forced = body.get("tool_choice") not in {None, "auto", "none"} if _is_plain(body.get("tool_choice")) else True
    return bound or forced or _has_strict_tool(body) or any(body.get(name) is not None for name in _CONSTRAINTS)


def _has_strict_tool(body: Mapping[str, Any]) -> bool:
    """True if the arguments of a tool are bound to its schema."""
    tools = body.get("tools")
    functions = [tool.get("function") for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return any(isinstance(function, dict) and function.get("strict") is True for function in functions)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str)


def _with_addresses(message: dict[str, Any], pictures: list[Blob]) -> Mapping[str, Json]:
    """The message with pictures in it replaced by their addresses; the pictures are added to the list."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": [_part(part, pictures) for part in content]}


def _part(part: Any, pictures: list[Blob]) -> Json:
    url = part.get("image_url", {}).get("url", "") if _has_picture(part) else ""
    head, comma, data = url.partition(",") if isinstance(url, str) else ("", "", "")
    if not (head.startswith("data:") and head.endswith(";base64") and comma):
        return part  # type: ignore[no-any-return]  # any JSON that came in
    picture = picture_of(head.removeprefix("data:").removesuffix(";base64"), data, "image_url")
    pictures.append(picture)
    return {"type": "image_url", "image": picture.digest, "media_type": picture.media_type}


def _has_picture(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("image_url"), dict)


def asks_logprobs(body: Mapping[str, Any]) -> bool:
    """True if a caller asks for logprobs; 0 asks for those of the drawn tokens."""
    given = body.get("logprobs")
    return given is not None and given is not False


def with_additions(
    body: Mapping[str, Any], *, logprobs: bool, token_ids: bool, is_chat: bool, usage: bool = True
) -> dict[str, Any]:
    """The body with what recording needs and the caller did not ask for: logprobs, token ids, usage of a stream."""
    further: dict[str, Any] = {}
    if logprobs and not asks_logprobs(body):
        further["logprobs"] = True if is_chat else 1
    if token_ids:
        further["return_token_ids"] = True
    if usage and body.get("stream"):
        options = body.get("stream_options")
        further["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
    return {**body, **further}


def without_additions(answer: dict[str, Any], asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """An answer, or a part of a stream, as the caller asked for it; None for a part that only recording asked for."""
    options = asked.get("stream_options")
    wants_usage = isinstance(options, dict) and bool(options.get("include_usage"))
    if asked.get("stream") and not wants_usage:
        if not answer.get("choices") and answer.get("usage") is not None:
            return None
        answer = {key: value for key, value in answer.items() if key != "usage"}
    if not asked.get("return_token_ids"):
        answer = {key: value for key, value in answer.items() if key != "prompt_token_ids"}
    dropped = {"token_ids"} if not asked.get("return_token_ids") else set[str]()
    dropped |= set[str]() if asks_logprobs(asked) else {"logprobs"}
    choices = [{key: value for key, value in choice.items() if key not in dropped} for choice in answer["choices"]]
    return {**answer, "choices": choices}


def read_chat_answer(answer: Mapping[str, Any]) -> ModelAnswer:
    """A chat completion. Raises BadCall's kin by shape: KeyError, TypeError, ValueError."""
    return _answer(answer, _chat_sample)


def read_completion_answer(answer: Mapping[str, Any]) -> ModelAnswer:
    """A completion. Raises KeyError, TypeError, ValueError if it has another shape."""
    return _answer(answer, _text_sample)


def _answer(answer: Mapping[str, Any], sample: Any) -> ModelAnswer:
    usage = answer.get("usage") or {}
    choices = sorted(answer["choices"], key=lambda choice: choice.get("index", 0))
    first = choices[0] if choices else {}
    return ModelAnswer(
        model=str(answer.get("model") or ""),
        samples=tuple(sample(choice).plain() for choice in choices),
        input_tokens=token_count(usage.get("prompt_tokens")),
        output_tokens=token_count(usage.get("completion_tokens")),
        prompt_token_ids=answer.get("prompt_token_ids") or first.get("prompt_token_ids"),
    )


def _chat_sample(choice: Mapping[str, Any]) -> Sampled:
    message = choice["message"]
    found = (choice.get("logprobs") or {}).get("content")
    return Sampled(
        text=message.get("content") or message.get("refusal") or "",
        finish=_finish(choice),
        tokens=None if found is None else [each["token"] for each in found],
        logprobs=None if found is None else [min(0.0, float(each["logprob"])) for each in found],
        token_ids=choice.get("token_ids"),
        tool_calls=message.get("tool_calls") or _older_tool_calls(message),
    )


def _older_tool_calls(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The call of a function as the API wrote it before there were tools."""
    function = message.get("function_call")
    return [{"id": None, "type": "function", "function": function}] if function else ()


def _text_sample(choice: Mapping[str, Any]) -> Sampled:
    found = choice.get("logprobs") or {}
    logprobs = found.get("token_logprobs")
    return Sampled(
        text=choice.get("text") or "",
        finish=_finish(choice),
        tokens=found.get("tokens"),
        logprobs=None if logprobs is None else [min(0.0, float(each)) for each in logprobs],
        token_ids=choice.get("token_ids"),
    )


def _finish(choice: Mapping[str, Any]) -> str:
    return _FINISH.get(choice.get("finish_reason") or "", "other")


def join_chat(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The parts of a streamed chat completion as the whole one."""
    return _join(parts, _add_delta)


def join_completion(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The parts of a streamed completion as the whole one."""
    return _join(parts, _add_text)


def _join(parts: Sequence[Mapping[str, Any]], add: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    for part in parts:
        for name in ("model", "usage", "prompt_token_ids"):
            whole[name] = part.get(name) or whole.get(name)
        for choice in part.get("choices") or ():
            own = choices.setdefault(choice.get("index", 0), {"index": choice.get("index", 0)})
            add(own, choice)
            own["finish_reason"] = choice.get("finish_reason") or own.get("finish_reason")
            if choice.get("token_ids") is not None:
                own.setdefault("token_ids", []).extend(choice["token_ids"])
            if choice.get("prompt_token_ids"):
                whole["prompt_token_ids"] = choice["prompt_token_ids"]
    return {**whole, "choices": list(choices.values())}


def _add_delta(own: dict[str, Any], choice: Mapping[str, Any]) -> None:
    message = own.setdefault("message", {"content": "", "tool_calls": []})
    delta = choice.get("delta") or {}
    message["content"] += delta.get("content") or delta.get("refusal") or ""
    for part in delta.get("tool_calls") or ():
        _add_tool(message["tool_calls"], part)
    if delta.get("function_call"):
        _add_tool(message["tool_calls"], {"index": 0, "function": delta["function_call"]})
    content = (choice.get("logprobs") or {}).get("content")
    if content is not None:
        own.setdefault("logprobs", {"content": []})["content"].extend(content)


def _add_tool(calls: list[dict[str, Any]], part: Mapping[str, Any]) -> None:
    """Add a part of a tool call: the first names it, the following ones continue its arguments."""
    place = part.get("index", len(calls))
    while len(calls) <= place:
        calls.append({"id": None, "type": "function", "function": {"name": "", "arguments": ""}})
    call, function = calls[place], part.get("function") or {}
    call["id"] = part.get("id") or call["id"]
    call["function"]["name"] += function.get("name") or ""
    call["function"]["arguments"] += function.get("arguments") or ""


def _add_text(own: dict[str, Any], choice: Mapping[str, Any]) -> None:
    own["text"] = own.get("text", "") + (choice.get("text") or "")
    found = choice.get("logprobs")
    if found:
        kept = own.setdefault("logprobs", {"tokens": [], "token_logprobs": []})
        kept["tokens"] += found.get("tokens") or []
        kept["token_logprobs"] += found.get("token_logprobs") or []
