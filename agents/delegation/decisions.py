"""A manager's five decisions: what a model is asked for, and how its answer is read. Pure.

An answer that is no decision raises NotADecision, whose text is the clarification that the manager gets once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from ..models.model import Schema
from .answers import micro_of, parse_object, recover_object
from .envelopes import Envelope, name_workers_once, read_envelope, safe_id
from .plan import Subtask, read_subtasks

DecisionKind = Literal["delegate", "complete", "plan", "diagnose", "fail"]
KINDS: Final[tuple[DecisionKind, ...]] = ("delegate", "complete", "plan", "diagnose", "fail")
MOST_ENVELOPES: Final = 64
LONGEST_TEXT: Final = 4_000

_WORDS: Final[Mapping[DecisionKind, frozenset[str]]] = {
    "delegate": frozenset({"delegate", "assign", "dispatch", "spawn"}),
    "complete": frozenset({"complete", "completed", "done", "finalize", "finish", "finished", "synthesize", "submit"}),
    "plan": frozenset({"plan", "decompose", "breakdown"}),
    "diagnose": frozenset({"diagnose", "diagnosis"}),
    "fail": frozenset({"fail", "failed", "abort", "impossible"}),
}
_NEGATIONS: Final = re.compile(r"\b(?:no|not|never|cannot|can't|cant|unable|without|\w+n't)\b[\s_-]*", re.IGNORECASE)


class NotADecision(Exception):
    """An answer is no decision; the text says what was wrong and what is expected."""


class _Decision(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    reasoning: str = ""


class DelegateDecision(_Decision):
    """Workers are to do these pieces of work. `confidence` is only recorded."""

    kind: Literal["delegate"] = "delegate"
    delegations: tuple[Envelope, ...]
    confidence: int | None = None


class CompleteDecision(_Decision):
    """The task is solved: the final result, and how sure the manager is, in millionths."""

    kind: Literal["complete"] = "complete"
    final_result: dict[str, JsonValue]
    confidence: int | None = None


class PlanDecision(_Decision):
    """The task falls into these subtasks."""

    kind: Literal["plan"] = "plan"
    subtasks: tuple[Subtask, ...]


class Hypothesis(BaseModel):
    """A cause that a diagnostic worker is to confirm or refute."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str
    cause: str
    test: str


class DiagnoseDecision(_Decision):
    """Why a worker failed is not known: these are the hypotheses."""

    kind: Literal["diagnose"] = "diagnose"
    failed_worker: str
    hypotheses: tuple[Hypothesis, ...]


class FailDecision(_Decision):
    """The task cannot be solved; what there is of a result."""

    kind: Literal["fail"] = "fail"
    partial_result: dict[str, JsonValue]


ManagerDecision = DelegateDecision | CompleteDecision | PlanDecision | DiagnoseDecision | FailDecision


def decision_schema(offered: tuple[DecisionKind, ...] = KINDS) -> Schema:
    """The JSON schema of a manager's answer, closed and without defaults, for structured output."""
    text: dict[str, JsonValue] = {"type": "string"}
    names: dict[str, JsonValue] = {"type": "array", "items": text}
    number_or_none: dict[str, JsonValue] = {"type": ["number", "null"]}
    envelope = _object_schema(
        {
            "worker_id": text,
            "instructions": text,
            "subtask_id": text,
            "skills": names,
            "tools_allowed": names,
            "output_contract": _object_schema({"required_fields": names}),
            "inherited_state_keys": names,
            "codemode": _object_schema({"tool_creation": {"type": "boolean"}}),
            "as_submanager": {"type": "boolean"},
            "tests_hypothesis": text,
            "required_tool_invocations": names,
            "temperature": number_or_none,
            "submanager_budget_fraction": number_or_none,
        }
    )
    subtask = _object_schema({"id": text, "description": text, "dependencies": names, "success_criteria": text})
    hypothesis = _object_schema({"id": text, "cause": text, "test": text})
    kinds: list[JsonValue] = list(offered)
    shape = _object_schema(
        {
            "decision": {"type": "string", "enum": kinds},
            "reasoning": text,
            "confidence": {"type": "number"},
            "delegations": {"type": "array", "items": envelope},
            "subtasks": {"type": "array", "items": subtask},
            "failed_worker": text,
            "hypotheses": {"type": "array", "items": hypothesis},
            "final_result": _object_schema({"summary": text, "answer": text}),
        }
    )
    return Schema("ManagerAnswer", shape)


def read_decision(text: str, offered: tuple[DecisionKind, ...] = KINDS) -> ManagerDecision:
    """The decision in a manager's answer. Raises NotADecision."""
    found = recover_object(text)
    if found is None:
        raise NotADecision("the answer holds no JSON object; expected one with the key `decision`")
    facts = _normal(found.value)
    kind = _kind_of(facts)
    if kind not in offered:
        raise NotADecision(f"the decision {kind} is not offered here; expected {', '.join(offered)}")
    if found.how == "truncated" and kind != "delegate":
        raise NotADecision("the answer was cut off; expected a shorter one, whole")
    reasoning = _text(facts.get("reasoning") or facts.get("reason"))
    match kind:
        case "delegate":
            return _delegate(facts, reasoning)
        case "complete":
            result = _record(facts.get("final_result"))
            stated = result.get("confidence", facts.get("confidence"))
            return CompleteDecision(reasoning=reasoning, final_result=result, confidence=micro_of(stated))
        case "plan":
            subtasks = read_subtasks(facts.get("subtasks"))
            if not subtasks:
                raise NotADecision("a plan without subtasks; expected `subtasks` with at least one description")
            return PlanDecision(reasoning=reasoning, subtasks=subtasks)
        case "diagnose":
            return _diagnose(facts, reasoning)
        case _:
            return FailDecision(reasoning=reasoning, partial_result=_record(facts.get("partial_result")))


def _normal(facts: dict[str, Any]) -> dict[str, Any]:
    """The answer under its usual names: `workers` or `tasks` are delegations, a text in `result` may be an object."""
    inner = facts.get("result")
    if "decision" not in facts and isinstance(inner, str) and (nested := parse_object(inner)) is not None:
        facts = nested
    for alias in ("workers", "tasks"):
        if "delegations" not in facts and isinstance(facts.get(alias), list):
            facts = {**facts, "delegations": facts[alias]}
    return facts


def _kind_of(facts: dict[str, Any]) -> DecisionKind:
    stated = facts.get("decision")
    if stated is None:
        return _infer_kind(facts)
    if not isinstance(stated, str):
        raise NotADecision("`decision` is no text; expected one of " + ", ".join(KINDS))
    words = re.findall(r"[a-z']+", stated[:200].lower())
    if stated.strip().lower() in KINDS:
        return stated.strip().lower()  # type: ignore[return-value]
    named = [kind for kind in KINDS if _WORDS[kind].intersection(words)]
    if len(named) != 1 or _NEGATIONS.search(stated):
        raise NotADecision(f"`decision` is {stated[:80]!r}; expected one of {', '.join(KINDS)}")
    return named[0]


def _infer_kind(facts: dict[str, Any]) -> DecisionKind:
    """The decision of an answer that names none, where only one thing can be meant."""
    keys: dict[str, DecisionKind] = {
        "delegations": "delegate",
        "subtasks": "plan",
        "hypotheses": "diagnose",
        "final_result": "complete",
    }
    meant = {kind for key, kind in keys.items() if facts.get(key)}
    if len(meant) != 1:
        raise NotADecision("the answer lacks `decision`; expected one of " + ", ".join(KINDS))
    return meant.pop()


def _delegate(facts: dict[str, Any], reasoning: str) -> DelegateDecision:
    given = facts.get("delegations")
    listed = given[:MOST_ENVELOPES] if isinstance(given, list) else []
    envelopes = tuple(each for each in map(read_envelope, listed) if each is not None)
    if not envelopes:
        raise NotADecision("no usable delegation; expected `delegations` with `worker_id` and `instructions` each")
    confidence = micro_of(facts.get("confidence"))
    return DelegateDecision(reasoning=reasoning, delegations=name_workers_once(envelopes), confidence=confidence)


def _diagnose(facts: dict[str, Any], reasoning: str) -> DiagnoseDecision:
    given = facts.get("hypotheses")
    found = []
    for number, each in enumerate(given[:MOST_ENVELOPES] if isinstance(given, list) else [], 1):
        if isinstance(each, Mapping) and _text(each.get("cause")):
            name = safe_id(each.get("id")) or f"h{number}"
            found.append(Hypothesis(id=name, cause=_text(each["cause"]), test=_text(each.get("test"))))
    if not found:
        raise NotADecision("a diagnosis without hypotheses; expected `hypotheses` with a `cause` each")
    worker = safe_id(facts.get("failed_worker"))
    return DiagnoseDecision(reasoning=reasoning, failed_worker=worker, hypotheses=tuple(found))


def _record(value: object) -> dict[str, JsonValue]:
    if isinstance(value, dict):
        return {str(key): each for key, each in value.items()}
    return {"answer": value} if isinstance(value, str) and value.strip() else {}


def _text(value: object) -> str:
    return value.strip()[:LONGEST_TEXT] if isinstance(value, str) else ""


def _object_schema(properties: dict[str, JsonValue]) -> dict[str, JsonValue]:
    required: list[JsonValue] = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
