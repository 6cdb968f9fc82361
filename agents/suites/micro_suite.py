"""Conversion of plans to micro-suites, the request format of other runners of micro-plans, and back. Pure.

Field names are those of the wire (`_micro_plan`, `_plan_signature`); a Step's address, label and value are the
`params` of its intent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from eventlog.chain import canonical
from eventlog.errors import first_fault
from eventlog.events import Spec, Step, StepType

from .errors import MicroSuiteRefused

MAX_COST: Final = 10
MAX_TIME_MINUTES: Final = 180
TYPES: Final[tuple[StepType, ...]] = ("navigate", "click", "fill_field", "select_option", "submit")
"""Step types that a suite can contain."""

MICRO: Final = 1_000_000
_NO_LOOP: Final = -1


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, populate_by_name=True)


class MicroIntent(_Wire):
    """One intent of a micro-plan on the wire, with every field and its default."""

    intent: str
    type: str
    verify: str = ""
    budget: int = 5
    reverse: str = ""
    grounding: bool = False
    claude_only: bool = False
    loop_target: int = _NO_LOOP
    loop_count: int = 0
    section: str = ""
    required: bool = False
    gate: bool = False
    params: Mapping[str, JsonValue] = Field(default_factory=dict)
    hints: Mapping[str, JsonValue] = Field(default_factory=dict)
    guard: str = ""
    out_var: str = ""
    stop_var: str = ""
    extract: Mapping[str, JsonValue] = Field(default_factory=dict)


class MicroSuite(_Wire):
    """A runnable suite on the wire. Costs are dollars."""

    session_name: str
    base_url: str = ""
    max_cost: Annotated[int | float, Field(alias="_max_cost")] = MAX_COST
    max_time_minutes: Annotated[int | float, Field(alias="_max_time_minutes")] = MAX_TIME_MINUTES
    resume_state: Annotated[bool, Field(alias="_resume_state")] = False
    profile_id: Annotated[str, Field(alias="_profile_id")] = ""
    workflow_id: Annotated[str, Field(alias="_workflow_id")] = ""
    state_key: Annotated[str, Field(alias="_state_key")] = ""
    plan_signature: Annotated[str, Field(alias="_plan_signature")]
    micro_plan: Annotated[tuple[MicroIntent, ...], Field(alias="_micro_plan")]
    tasks: tuple[JsonValue, ...] = ()
    group_id: Annotated[str | None, Field(alias="_fanout_group_id", exclude_if=lambda group: group is None)] = None
    sampling_temperature: Annotated[
        float | None, Field(alias="_sampling_temperature", exclude_if=lambda micro: micro is None)
    ] = None


def build_micro_suite(
    steps: Sequence[Step],
    domain: str,
    *,
    max_cost: int = MAX_COST,
    max_time_minutes: int = MAX_TIME_MINUTES,
    resume_state: bool = False,
    profile_id: str = "",
    workflow_id: str = "",
    state_key: str = "",
    group_id: str | None = None,
    temperature_micro: int | None = None,
) -> dict[str, Any]:
    """A plan as a runnable suite, plain JSON. Raises MicroSuiteRefused if a suite cannot represent the plan."""
    intents = tuple(_intent(index, step) for index, step in enumerate(steps))
    suite = MicroSuite(
        session_name=f"micro_{domain}",
        max_cost=max_cost,
        max_time_minutes=max_time_minutes,
        resume_state=resume_state,
        profile_id=profile_id,
        workflow_id=workflow_id,
        state_key=state_key,
        plan_signature=signature([intent.model_dump(mode="json") for intent in intents]),
        micro_plan=intents,
        group_id=group_id,
        sampling_temperature=None if temperature_micro is None else temperature_micro / MICRO,
    )
    return suite.model_dump(mode="json", by_alias=True)


def suite_of(spec: Spec, steps: Sequence[Step], domain: str) -> dict[str, Any]:
    """The suite of one rollout, with its own workflow and its group's id. Specs of a session share a profile."""
    workflow = f"sweep-{spec.spec_id}"
    return build_micro_suite(
        steps,
        domain,
        profile_id=workflow if spec.state_key is None else spec.state_key,
        workflow_id=workflow,
        state_key=spec.state_key or "",
        group_id=spec.group_id,
        temperature_micro=spec.temperature_micro,
    )


def plan_of(suite: Mapping[str, Any]) -> tuple[Step, ...]:
    """Parse the plan of a suite. Unknown fields are ignored. Raises MicroSuiteRefused."""
    try:
        found = MicroSuite.model_validate_json(json.dumps(suite))
    except ValidationError as error:
        raise MicroSuiteRefused(actual=first_fault(error), expected="the fields of a suite") from error
    signed = signature(suite["_micro_plan"])
    if found.plan_signature != signed:
        raise MicroSuiteRefused(actual=f"its signature is {found.plan_signature}", expected=signed)
    return tuple(_step(index, intent) for index, intent in enumerate(found.micro_plan))


def signature(intents: Sequence[Mapping[str, Any]]) -> str:
    """The SHA-256 of the steps in canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical(list(intents))).hexdigest()


def _intent(index: int, step: Step) -> MicroIntent:
    if step.type not in TYPES:
        raise MicroSuiteRefused(actual=f"step {index} is {step.type!r}", expected=f"one of {', '.join(TYPES)}")
    given: dict[str, JsonValue] = {"url": step.url, "label": step.label, "value": step.value}
    given |= {"optional": True} if step.optional else {}
    return MicroIntent(
        intent=step.intent,
        type=step.type,
        loop_target=_NO_LOOP if step.loop_to is None else step.loop_to,
        loop_count=step.loop_count or 0,
        params={name: said for name, said in given.items() if said is not None},
    )


def _step(index: int, intent: MicroIntent) -> Step:
    if intent.type not in TYPES:
        raise MicroSuiteRefused(actual=f"step {index} is {intent.type!r}", expected=f"one of {', '.join(TYPES)}")
    try:
        return Step.model_validate({"type": intent.type, "intent": intent.intent, **_loop(intent), **intent.params})
    except ValidationError as error:
        raise MicroSuiteRefused(
            actual=f"step {index}: {first_fault(error)}", expected="url, label and value as text"
        ) from error


def _loop(intent: MicroIntent) -> Mapping[str, int]:
    return {} if intent.loop_target < 0 else {"loop_to": intent.loop_target, "loop_count": intent.loop_count}
