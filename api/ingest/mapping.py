"""What the events of a run are made of: the calls, steps and results that spans report. Pure and versioned.

Raw spans are kept, so a later version can read them again. A name table of our own is used, because the GenAI
conventions have moved names before.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import ValidationError

from agents.models.tool_results import action_name
from eventlog.events import Sampling

from ..serving.calls import UNBOUNDED, ModelAnswer, ModelCall
from .messages import answered_samples, plain_structure, told_messages
from .spans import ERROR, Span, attribute_text, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping

MAPPING: Final = "genai-1"
"""The version that is recorded with the spans. Another rule of what a span becomes is another version."""

SpanRole = Literal["call", "tool", "other"]
_MICRO: Final = 1_000_000
_NAME_MOST: Final = 180
_CALLS: Final = frozenset({"chat", "text_completion", "generate_content", "completion"})
_EVALUATION: Final = "gen_ai.evaluation.result"
_NO_JUDGE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_PASSED: Final = frozenset({"pass", "passed", "true", "yes", "correct", "good", "success"})
_FAILED: Final = frozenset({"fail", "failed", "false", "no", "incorrect", "bad", "failure"})
_OF_SAMPLING: Final = frozenset(
    {"temperature", "top_p", "max_tokens", "seed", "choice.count", "n", "stop_sequences", "stop"}
)
_UNTOLD: Final = Sampling(temperature_micro=_MICRO, max_tokens=UNBOUNDED)
REWARD: Final = "reward"
"""The name of an evaluation that is a run's reward. Every other one is an opinion."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool that was used: its name as an action, what it was given and what it gave, as JSON or text."""

    action: str
    intent: str
    argument: str | None
    result: str | None
    has_failed: bool


@dataclass(frozen=True, slots=True)
class SpanScore:
    """An evaluation result: a judge's name, whether it passed, and the score (None: only a label was given)."""

    judge: str
    passed: bool
    score: float | None
    reason: str


def span_role(span: Span) -> SpanRole:
    """What of a run a span is."""
    own = span.attributes
    kind = attribute_text(own, "openinference.span.kind").upper()
    operation = attribute_text(own, "gen_ai.operation.name", "llm.request.type")
    if operation == "execute_tool" or kind == "TOOL":
        return "tool"
    if operation in _CALLS or kind == "LLM":
        return "call"
    is_unnamed = not operation and not kind
    return "call" if is_unnamed and "gen_ai.request.model" in own and _is_of_provider(own) else "other"


def _is_of_provider(own: Mapping[str, Any]) -> bool:
    return "gen_ai.system" in own or "gen_ai.provider.name" in own


def call_of(span: Span) -> tuple[ModelCall, ModelAnswer]:
    """The call of a model that a span reports. Content that was not captured leaves one empty message, no sample."""
    own = span.attributes
    asked = plain_structure(own.get("llm.invocation_parameters"))
    parameters = {**(asked if isinstance(asked, dict) else {}), **_request_parameters(own)}
    model = attribute_text(own, "gen_ai.request.model", "gen_ai.response.model", "llm.model_name") or "unknown"
    call = ModelCall(
        model=model,
        messages=told_messages(span) or ({"role": "user", "content": ""},),
        pictures=(),
        sampling=_sampling_of(parameters),
        is_streamed=False,
        is_constrained=False,
        asked={**parameters, **_more_of_call(span)},
    )
    answer = ModelAnswer(
        model=attribute_text(own, "gen_ai.response.model", "llm.model_name") or model,
        samples=answered_samples(span),
        input_tokens=_count(own, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
        output_tokens=_count(
            own, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"
        ),
    )
    return call, answer


def _request_parameters(own: Mapping[str, Any]) -> dict[str, Any]:
    start = "gen_ai.request."
    return {name.removeprefix(start): value for name, value in own.items() if name.startswith(start)}


def _more_of_call(span: Span) -> dict[str, Any]:
    """What is told of the call beside its parameters: its span, its provider and the tools that were offered."""
    own = span.attributes
    tools = plain_structure(own.get("gen_ai.tool.definitions"))
    provider = attribute_text(own, "gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system")
    told = {
        "provider": provider or None,
        "tools": tools,
        "error": span.status_message if span.status == ERROR else None,
    }
    return {"span": span.span, **{name: value for name, value in told.items() if value is not None}}


def _sampling_of(given: Mapping[str, Any]) -> Sampling:
    """The sampling parameters; what is not given, or out of range, is recorded as the default."""
    if given.keys().isdisjoint(_OF_SAMPLING):
        return _UNTOLD
    stop = given.get("stop_sequences", given.get("stop"))
    stops = [stop] if isinstance(stop, str) else stop if isinstance(stop, list) else []
    wanted: dict[str, Any] = {
        "temperature_micro": _micro(given.get("temperature")),
        "top_p_micro": _micro(given.get("top_p")),
        "max_tokens": whole_number(given.get("max_tokens")),
        "seed": whole_number(given.get("seed")),
        "samples": whole_number(given.get("choice.count", given.get("n"))),
        "stop": tuple(each for each in stops if isinstance(each, str) and each and "\0" not in each),
    }
    told = tuple((name, value) for name, value in wanted.items() if value is not None)
    found = _valid_sampling(told) or _valid_sampling(tuple(each for each in told if _valid_sampling((each,))))
    return found or _UNTOLD


@lru_cache(maxsize=1024)
def _valid_sampling(given: tuple[tuple[str, Any], ...]) -> Sampling | None:
    try:
        return Sampling(**{"temperature_micro": _MICRO, "max_tokens": UNBOUNDED, **dict(given)})
    except ValidationError:
        return None


def _micro(value: Any) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return round(value * _MICRO) if is_number and abs(value) <= _MICRO else None


def _count(own: Mapping[str, Any], *names: str) -> int | None:
    return next((found for name in names if (found := whole_number(own.get(name))) is not None), None)


def tool_use(span: Span) -> ToolUse:
    """The tool that a span says was used."""
    own = span.attributes
    name = attribute_text(own, "gen_ai.tool.name", "tool.name") or attribute_text({"name": span.name}, "name") or "tool"
    return ToolUse(
        action=action_name(name),
        intent=(attribute_text(own, "gen_ai.tool.description", "tool.description") or name)[:_NAME_MOST],
        argument=_content(own, "gen_ai.tool.call.arguments", "tool.parameters", "input.value"),
        result=_content(own, "gen_ai.tool.call.result", "output.value"),
        has_failed=span.status == ERROR,
    )


def _content(own: Mapping[str, Any], *names: str) -> str | None:
    for name in names:
        value = own.get(name)
        if value is not None:
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return None


def span_scores(span: Span) -> tuple[SpanScore, ...]:
    """The evaluation results on a span: its events of that name, or its own attributes."""
    carried = [event.attributes for event in span.events if event.name == _EVALUATION]
    if "gen_ai.evaluation.name" in span.attributes:
        carried.append(span.attributes)
    return tuple(score for each in carried if (score := _score(each)) is not None)


def _score(own: Mapping[str, Any]) -> SpanScore | None:
    judge = _NO_JUDGE.sub("-", attribute_text(own, "gen_ai.evaluation.name"))[:100].strip("-")
    given = own.get("gen_ai.evaluation.score.value")
    is_number = isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given <= 1
    label = attribute_text(own, "gen_ai.evaluation.score.label").strip().lower()
    is_known = label in _PASSED | _FAILED
    if not judge or not (is_number or (is_known and given is None)):
        return None
    passed = label in _PASSED if is_known else given >= 0.5  # type: ignore[operator]  # noqa: PLR2004
    reason = attribute_text(own, "gen_ai.evaluation.explanation")[:4_000]
    return SpanScore(judge, passed, float(given) if is_number else None, reason)  # type: ignore[arg-type]


def conversation_of(span: Span) -> str:
    """The conversation that a span belongs to, or an empty text."""
    return attribute_text(span.attributes, "gen_ai.conversation.id", "session.id")[:_NAME_MOST]


def traced_task(span: Span) -> str:
    """What a span's run is called a run of: its workflow, its agent, or the service that sent it."""
    own = attribute_text(span.attributes, "gen_ai.workflow.name", "gen_ai.agent.name", "agent.name")
    return (own or attribute_text(span.resource, "service.name") or "trace")[:_NAME_MOST]
