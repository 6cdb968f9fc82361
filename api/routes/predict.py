"""Predictions: have one run played by the workers of a site, read how it stands, and call it off."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

from anyio import current_time, sleep, to_thread
from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import ConfigDict, Field, ValidationError

from agents.envs.contract import TaskText
from agents.models.servers.plan import Challenger, challenger_from_suite
from agents.suites.in_log import suite_for
from agents.suites.suite_file import suite_from
from agents.suites.tasks import refuse_planless, templates_of
from eventlog.events import Artifact, FrozenModel, Suite, Template
from projections.environments import ENVIRONMENTS
from projections.runs import PLANLESS

from ..errors import NotPredicted
from ..evaluations.artifacts import champion_with_weights
from ..house import House
from ..queries import events as event_queries
from ..queries import predictions as queries
from ..queries.champion import present_champion
from ..serving.challengers import find_challenger
from ..sweeps.plan import first_facts
from ..sweeps.predictions import (
    Prediction,
    cancel_prediction,
    parked_error,
    recorded_model_name,
    request_prediction,
)
from .access import Caller
from .bodies import hold_body
from .errors import AppendTooLarge, Unprocessable
from .problems import faults, problem_of
from .reading import LIMIT, HouseOf, Id, Limit, reply
from .schemas import answer_of

router = APIRouter(prefix="/predict", tags=["predict"])

WAIT_S: Final = 600
"""The longest wait of a request that is not detached; after it the run goes on."""
_PAUSE_S: Final = 0.25
MOST_STEPS: Final = 200

Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]


class PredictBody(FrozenModel):
    """A run that somebody asks for. Fields with an underscore choose how its model draws and which weights it has.

    `suite` names a suite of the log (default: that of the environment), `task_suite` holds one. `state_key`, or
    `profile_id` with `workflow_id`, makes the run part of a session. What is beyond a bound is refused, never reduced.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    environment: Text
    task: Text
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0
    suite: Text | None = None
    task_suite: dict[str, Any] | None = None
    instruction: Annotated[str, Field(min_length=1, max_length=100_000)] | None = None
    max_steps: Annotated[int, Field(ge=1, le=MOST_STEPS)] | None = None
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


After = Annotated[int, Query(ge=0, description="positions after this one")]
Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", min_length=1, max_length=200, description="the same key again gives the same run"),
]


async def _predict_body(request: Request, house: HouseOf, token: Caller) -> bytes:
    async with hold_body(request, house, token, house.settings.append_bytes, AppendTooLarge) as body:
        return body


RawBody = Annotated[bytes, Depends(_predict_body)]
_UNKNOWN = problem_of("No such run was asked for.")
_ANSWER = answer_of(queries.PredictionStatus)


@router.post(
    "",
    status_code=202,
    summary="Have a task played once",
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/json": {"schema": PredictBody.model_json_schema()}}}
    },
    responses={
        200: answer_of(queries.PredictionStatus, "`detached` is false, and the run is over."),
        202: answer_of(queries.PredictionStatus, "The run waits for a worker: its name, and where to look."),
        403: problem_of("The token's role may not have runs played."),
        404: problem_of("There is no such task."),
        409: problem_of("The key or the group was used for another request, or the state key is in use."),
    },
)
async def predict(house: HouseOf, token: Caller, raw: RawBody, key: Key = None) -> Response:
    """Plan a run and put it in the queue of its site, whose workers play it (`flywheel worker --site NAME`)."""
    body = _read(raw)
    run = await to_thread.run_sync(_request, house, token.token, body, key)
    if body.detached:
        return reply(await to_thread.run_sync(_status, house, run), status=202)
    until = current_time() + WAIT_S
    while not (found := await to_thread.run_sync(_status, house, run)).is_over and current_time() < until:
        await sleep(_PAUSE_S)
    return reply(found, status=200 if found.is_over else 202)


@router.get("/{run_id}", summary="How a run that was asked for stands", responses={200: _ANSWER, 404: _UNKNOWN})
def prediction(house: HouseOf, run_id: Id) -> Response:
    """Its status, and its score once it was graded; `GET /v1/runs/{run}` has the run itself."""
    return reply(_status(house, run_id))


@router.get(
    "/{run_id}/logs",
    summary="The events of a run that was asked for",
    responses={200: answer_of(event_queries.EventPage), 404: _UNKNOWN},
)
def prediction_logs(house: HouseOf, run_id: Id, after: After = 0, limit: Limit = LIMIT) -> Response:
    """`{"events": [...], "next": position}` in order: pass `next` as `after` for the following page."""
    queries.planned_prediction(house.store, run_id)
    head = house.store.head()
    return reply(event_queries.list_events(house.store, head, after=after, limit=limit, stream=f"run/{run_id}"))


@router.post("/{run_id}/cancel", summary="Call off a run", responses={200: _ANSWER, 404: _UNKNOWN})
def cancel(house: HouseOf, token: Caller, run_id: Id) -> Response:
    """A waiting run is not begun; one under way ends without a result. One that is over stays as it is."""
    cancel_prediction(house, run_id, token.token)
    return reply(_status(house, run_id))


def _read(raw: bytes) -> PredictBody:
    """The body of a request. Raises Unprocessable."""
    try:
        return PredictBody.model_validate_json(raw)
    except ValidationError as error:
        found = faults(error.errors(include_url=False, include_input=False))
        where, message = found[0]["where"] or "the body", found[0]["message"]
        expected = "a `PredictBody`, as /openapi.json describes it"
        raise Unprocessable(where=where, actual=f"refused ({message})", expected=expected, errors=found) from error


def _status(house: House, run: str) -> queries.PredictionStatus:
    return queries.prediction_status(house.store, house.views(), run, parked_error(house, run))


def _request(house: House, by: str, body: PredictBody, key: str | None) -> str:
    """Plan what a body asks for. Raises NotPredicted, Unknown, NoSuite, and what request_prediction raises."""
    first_facts(house)
    asked = json.dumps(body.model_dump(by_alias=True, exclude={"detached"}), sort_keys=True)
    temperature = body.sampling_temperature
    template, suite = _template(house, body)
    artifact, model = _weights(house, body)
    return request_prediction(
        house,
        Prediction(
            environment=body.environment,
            template=template,
            seed=body.seed,
            artifact=artifact,
            request=sha256(asked.encode()).hexdigest(),
            by=by,
            executor=None if body.executor == "plan" else body.executor,
            model=model,
            temperature_micro=None if temperature is None else round(temperature * 1_000_000),
            group=body.fanout_group_id,
            state_key=_session_of(body),
            key=key,
            suite=suite,
        ),
    )


def _session_of(body: PredictBody) -> str | None:
    """The state key of a body. Raises NotPredicted if it is given in two ways, or in half."""
    profile = (body.profile_id, body.workflow_id)
    if profile == (None, None):
        return body.state_key
    if None in profile or body.state_key is not None:
        actual, expected = "given in part, or twice", "state_key, or both of profile_id and workflow_id"
        raise NotPredicted(where="the session", actual=actual, expected=expected)
    return f"{body.profile_id}/{body.workflow_id}"


def _weights(house: House, body: PredictBody) -> tuple[Artifact, str | None]:
    """The artifact that plays, and its model's name in the log. Raises what find_challenger does, NotPredicted."""
    chosen = {"_lora_adapter": body.lora_adapter, "_challenger_model": body.challenger_model}
    wanted = challenger_from_suite(chosen)
    is_policy = body.executor == "policy"
    if not is_policy and (wanted != Challenger() or body.model or body.sampling_temperature is not None):
        expected = "the executor policy, which alone has weights, a model and a temperature"
        raise NotPredicted(where="executor", actual=body.executor, expected=expected)
    if wanted == Challenger():
        artifact = present_champion(house.views()).pointed_artifact()
        return artifact, recorded_model_name(house, body.model) if is_policy else None
    found = find_challenger(house, wanted, body.model)
    artifact, memory = champion_with_weights(house, found.weights)
    house.blobs.put([memory])
    return artifact, recorded_model_name(house, found.model)


def _template(house: House, body: PredictBody) -> tuple[Template, str | None]:
    """The task's template, and the version of its suite. Raises NotPredicted, NoSuite, OtherEnvironment, NoPlan."""
    views = house.views()
    state = views.get(ENVIRONMENTS, body.environment)
    if state is None or state.admitted_since is None:
        expected = "one that `flywheel env probe` admitted"
        raise NotPredicted(where="environment", actual=repr(body.environment), expected=expected)
    version: str | None = None
    if body.task_suite is None:
        found = suite_for(house.store, views, body.environment, body.suite)
        suite, version = found.suite, str(found) if found.version else None
    else:
        suite = _suite_in(body.task_suite)
    task = next((each for each in suite.tasks if each.id == body.task), None)
    if task is None or task.graded_as not in state.tasks:
        names = ", ".join(sorted(each.id for each in suite.tasks if each.graded_as in state.tasks)) or "none"
        raise NotPredicted(where="task", actual=repr(body.task), expected=f"one of {names}")
    instruction = body.instruction or task.instruction
    if instruction is None:
        expected = "`instruction`, which this suite leaves to the environment"
        raise NotPredicted(where="instruction", actual="missing", expected=expected)
    told = TaskText(task_id=task.graded_as, instruction=instruction)
    only = suite.model_copy(update={"tasks": (task.model_copy(update={"instruction": instruction}),)})
    (template,) = templates_of(only, body.environment, (told,))
    if body.executor not in PLANLESS:
        refuse_planless((template,))
    if body.max_steps is not None:
        template = template.model_copy(update={"max_steps": body.max_steps})
    return template, version


def _suite_in(facts: dict[str, Any]) -> Suite:
    found = suite_from(facts)
    if isinstance(found, Suite):
        return found
    first = found[0]
    raise NotPredicted(where="task_suite", actual=str(first), expected="a suite as in a suite file")
