"""Delegation envelopes: one piece of work for one worker. Pure.

What a manager may not decide (the model of a worker, its sandbox, its budget) is no field of an envelope.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

LONGEST_INSTRUCTIONS: Final = 20_000
LONGEST_ID: Final = 60
MOST_NAMES: Final = 20
HOTTEST: Final = 2
_SUFFIX: Final = re.compile(r"_(?:repair|retry\d*|v\d+|strict|final|run\d+|subtask_\d+)$")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_SPACE: Final = re.compile(r"\s+")


class Envelope(BaseModel):
    """Work for a worker. `skills` are names from the catalogue or whole skills in Markdown.

    A result without a call of each of `required_tool_invocations` has a critical defect. `temperature` and
    `submanager_budget_fraction` are in millionths; None leaves them to the configuration.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    worker_id: str
    instructions: str
    subtask_id: str = ""
    skills: tuple[str, ...] = ()
    tools_allowed: tuple[str, ...] = ()
    required_fields: tuple[str, ...] = ()
    inherited_state_keys: tuple[str, ...] = ()
    as_submanager: bool = False
    may_create_tools: bool = True
    tests_hypothesis: str = ""
    required_tool_invocations: tuple[str, ...] = ()
    temperature: int | None = None
    submanager_budget_fraction: int | None = None


def read_envelope(value: object) -> Envelope | None:
    """An envelope from a manager's answer; None without a worker or without instructions. Never raises."""
    if not isinstance(value, Mapping):
        return None
    worker = safe_id(value.get("worker_id") or value.get("id"))
    told = value.get("instructions") or value.get("task")
    if not worker or not isinstance(told, str) or not told.strip():
        return None
    contract = value.get("output_contract")
    codemode = value.get("codemode")
    allowed, wanted = _texts(value.get("tools_allowed")), _texts(value.get("required_tool_invocations"))
    return Envelope(
        worker_id=worker,
        instructions=told.strip()[:LONGEST_INSTRUCTIONS],
        subtask_id=safe_id(value.get("subtask_id")),
        skills=_texts(value.get("skills")),
        tools_allowed=tuple(dict.fromkeys((*allowed, *wanted))) if allowed else (),
        required_fields=_texts(contract.get("required_fields")) if isinstance(contract, Mapping) else (),
        inherited_state_keys=_texts(value.get("inherited_state_keys")),
        as_submanager=value.get("as_submanager") is True,
        may_create_tools=not (isinstance(codemode, Mapping) and codemode.get("tool_creation") is False),
        tests_hypothesis=safe_id(value.get("tests_hypothesis") or value.get("test_worker")),
        required_tool_invocations=wanted,
        temperature=_micro(value.get("temperature"), HOTTEST),
        submanager_budget_fraction=_micro(value.get("submanager_budget_fraction"), 1),
    )


def safe_id(value: object) -> str:
    """A name that fits a stream, a key and a file: letters, digits, `_`, `-` and inner dots; empty if none is left."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return _UNSAFE.sub("_", str(value)[:500]).strip("._-")[:LONGEST_ID].rstrip("._-")


def name_workers_once(envelopes: Iterable[Envelope]) -> tuple[Envelope, ...]:
    """The envelopes with a name of its own for each worker: a second `a` becomes `a-2`."""
    seen: set[str] = set()
    named = []
    for envelope in envelopes:
        name, number = envelope.worker_id, 1
        while name in seen:
            number += 1
            name = f"{envelope.worker_id}-{number}"
        seen.add(name)
        named.append(envelope.model_copy(update={"worker_id": name}))
    return tuple(named)


@dataclass(frozen=True, slots=True)
class FanOut:
    """The envelopes that run in an iteration, and those that must wait for another decision."""

    runs: tuple[Envelope, ...]
    deferred: tuple[Envelope, ...]


def fan_out(envelopes: tuple[Envelope, ...], most: int) -> FanOut:
    """Split envelopes by the most workers of an iteration."""
    return FanOut(envelopes[:most], envelopes[most:])


def logical_worker(worker: str) -> str:
    """A worker's name without the suffixes that managers add when they delegate the same again; never empty."""
    name = worker
    while (shorter := _SUFFIX.sub("", name)) != name and shorter:
        name = shorter
    return name


def delegation_signature(envelopes: Iterable[Envelope], state: Mapping[str, object] | None = None) -> str:
    """Digest of what is delegated, whatever the order, the names and the spaces; for seeing a repetition."""
    return _sha("\n".join(sorted(_sha(_content(each, state or {})) for each in envelopes)))


def inherited_state(envelope: Envelope, state: Mapping[str, Any]) -> dict[str, Any]:
    """The results of other workers that a worker sees: those that its envelope names, and no others."""
    return {key: state[key] for key in sorted(set(envelope.inherited_state_keys)) if key in state}


def assign_subtasks(envelopes: Iterable[Envelope], subtasks: Iterable[str]) -> tuple[Envelope, ...]:
    """The envelopes, those without a subtask assigned to the one that their worker is named for, if there is one."""
    known = set(subtasks)
    return tuple(
        each.model_copy(update={"subtask_id": logical_worker(each.worker_id)})
        if each.subtask_id not in known and logical_worker(each.worker_id) in known
        else each
        for each in envelopes
    )


def _content(envelope: Envelope, state: Mapping[str, object]) -> str:
    plain = _SPACE.sub(" ", envelope.instructions[:500]).strip().lower()
    seen = inherited_state(envelope, state)
    return plain + (f"\x1f{json.dumps(seen, sort_keys=True, default=str)}" if seen else "")


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]


def _micro(value: object, most: int) -> int | None:
    """A number in millionths, between 0 and `most`; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 not a number
        return None
    return round(max(0.0, min(float(most), value)) * 1_000_000)


def _texts(value: object) -> tuple[str, ...]:
    found = value if isinstance(value, list | tuple) else [value]
    return tuple(each.strip() for each in found if isinstance(each, str) and each.strip())[:MOST_NAMES]
