"""Spans in the JSON form of OTLP, for tests that send traces."""

from __future__ import annotations

from typing import Any

TRACE = "5b8efff798038103d269b633813fc60c"
Json = dict[str, Any]


def value(plain: Any) -> Json:
    """A value of an attribute."""
    match plain:
        case bool():
            return {"boolValue": plain}
        case int():
            return {"intValue": str(plain)}
        case float():
            return {"doubleValue": plain}
        case list():
            return {"arrayValue": {"values": [value(each) for each in plain]}}
        case dict():
            return {"kvlistValue": {"values": attributes(plain)}}
        case _:
            return {"stringValue": plain}


def attributes(plain: Json) -> list[Json]:
    """Attributes as a list of pairs."""
    return [{"key": name, "value": value(each)} for name, each in plain.items()]


def span(number: int, own: Json | None = None, **more: Any) -> Json:
    """A span of TRACE that begins at second `number` and takes one; its parent is span 1, which has none."""
    events = [{"name": name, "attributes": attributes(each)} for name, each in more.pop("events", ())]
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "parentSpanId": "" if number == 1 else f"{1:016x}",
        "name": f"span {number}",
        "kind": 3,
        "startTimeUnixNano": str(number * 10**9),
        "endTimeUnixNano": str((number + 1) * 10**9),
        "attributes": attributes(own or {}),
        "events": events,
    } | more


def request(*spans: Json, service: str = "shop-agent") -> Json:
    """An export request with these spans."""
    resource = {"attributes": attributes({"service.name": service})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "t"}, "spans": list(spans)}]}]}


def chat(number: int, said: str = "Hello", **more: Any) -> Json:
    """A span of a model call with content, as the conventions name it today."""
    told = [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]
    answered = [{"role": "assistant", "parts": [{"type": "text", "content": said}], "finish_reason": "stop"}]
    own = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.input.messages": told,
        "gen_ai.output.messages": answered,
    }
    return span(number, own | more.pop("own", {}), **more)


def tool(number: int, name: str = "search", **more: Any) -> Json:
    """A span of a tool."""
    own = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.arguments": '{"q": "boats"}',
        "gen_ai.tool.call.result": "3 boats",
    }
    return span(number, own, **more)


def score(name: str, given: float | None = None, label: str | None = None) -> tuple[str, Json]:
    """An event with an evaluation result."""
    own: Json = {"gen_ai.evaluation.name": name}
    if given is not None:
        own["gen_ai.evaluation.score.value"] = given
    if label is not None:
        own["gen_ai.evaluation.score.label"] = label
    return "gen_ai.evaluation.result", own
