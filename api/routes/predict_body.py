"""The body of a request for a prediction."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, ValidationError

from agents.envs.foreign.dialect import HeaderName
from eventlog.events import FrozenModel

from .errors import Unprocessable
from .problems import faults

MOST_STEPS: Final = 200

Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]
HeaderReference = Annotated[str, Field(pattern=r"^\$FLYWHEEL_PAGE_[A-Z0-9_]+$", max_length=200)]
"""The variable of the worker with a header's value, which is often a secret: the log is read by many."""


def _is_absent(value: object) -> bool:
    """True for a field that older requests do not have: their digests must stay."""
    return value is None or value is False


class CallerInstance(FrozenModel):
    """An instance that the caller opened at the site: its id, and the index that its noise was drawn for.

    A `sealed` run is not graded here, so that nobody reads its grade before its caller may tell it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: Text
    repeat: Annotated[int, Field(ge=0, le=2**31)] = 0
    sealed: Annotated[bool, Field(exclude_if=_is_absent)] = False


class PredictBody(FrozenModel):
    """A run that somebody asks for. Fields with an underscore choose how its model draws and which weights it has.

    `suite` names a suite of the log (default: that of the environment), `task_suite` holds one. `state_key`, or
    `profile_id` with `workflow_id`, makes the run part of a session. `max_cost` is in dollars. What is beyond a bound
    is refused, never reduced. `_lora_name`, `_lora_max_rank` and `_lora_scale` say how an adapter is served; the scale
    has to be 1. `_browser_extra_headers` go on every request for pages; each value names a variable of
    the worker. `_instance` is an instance that the caller opened and closes: the run restarts it and plays there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    environment: Text
    task: Text
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0
    suite: Text | None = None
    task_suite: dict[str, Any] | None = None
    instruction: Annotated[str, Field(min_length=1, max_length=100_000)] | None = None
    max_steps: Annotated[int, Field(ge=1, le=MOST_STEPS)] | None = None
    max_cost: Annotated[float, Field(ge=1e-6, le=1e6)] | None = None
    max_time_minutes: Annotated[float, Field(ge=1 / 60, le=1e6)] | None = None
    executor: Literal["plan", "browser", "policy"] = "plan"
    model: Text | None = None
    detached: bool = True
    state_key: Text | None = None
    profile_id: Text | None = None
    workflow_id: Text | None = None
    sampling_temperature: Annotated[float | None, Field(alias="_sampling_temperature", ge=0, le=2)] = None
    fanout_group_id: Annotated[Text | None, Field(alias="_fanout_group_id")] = None
    lora_adapter: Annotated[str | None, Field(alias="_lora_adapter")] = None
    challenger_model: Annotated[str | None, Field(alias="_challenger_model")] = None
    lora_name: Annotated[Text | None, Field(alias="_lora_name", exclude_if=_is_absent)] = None
    lora_scale: Annotated[float | None, Field(alias="_lora_scale", exclude_if=_is_absent)] = None
    lora_max_rank: Annotated[int | None, Field(alias="_lora_max_rank", exclude_if=_is_absent)] = None
    instance: Annotated[CallerInstance | None, Field(alias="_instance", exclude_if=_is_absent)] = None
    page_headers: Annotated[
        dict[HeaderName, HeaderReference], Field(alias="_browser_extra_headers", default_factory=dict, max_length=32)
    ]


def read_body(raw: bytes) -> PredictBody:
    """The body of a request. Raises Unprocessable."""
    try:
        return PredictBody.model_validate_json(raw)
    except ValidationError as error:
        found = faults(error.errors(include_url=False, include_input=False))
        where, message = found[0]["where"] or "the body", found[0]["message"]
        expected = "a `PredictBody`, as /openapi.json describes it"
        raise Unprocessable(where=where, actual=f"refused ({message})", expected=expected, errors=found) from error


def body_schema() -> dict[str, Any]:
    """JSON schema of the body, which refers to nothing outside itself."""
    schema = PredictBody.model_json_schema()
    parts: dict[str, Any] = schema.pop("$defs")
    schema["properties"]["_instance"]["anyOf"][0] = parts[CallerInstance.__name__]
    return schema
