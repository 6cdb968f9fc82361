"""Predictions: have one run played by the workers of a site, read how it stands, call it off, and have it go on."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Annotated, Any, Final

from anyio import current_time, sleep, to_thread
from fastapi import APIRouter, Depends, Header, Request, Response
from msgspec.structs import replace

from agents.envs.contract import TaskText
from agents.models.servers.plan import Challenger, challenger_from_suite
from agents.rollouts.dispatching.lent_instances import LentInstance
from agents.suites.in_log import suite_for
from agents.suites.suite_file import suite_from
from agents.suites.tasks import refuse_planless, templates_of
from eventlog.events import Artifact, Suite, Template
from projections.environments import ENVIRONMENTS
from projections.runs import PLANLESS

from ..errors import NotPredicted
from ..evaluations.artifacts import champion_with_weights
from ..house import House
from ..queries import events as event_queries
from ..queries import predictions as queries
from ..queries.champion import present_champion
from ..queries.sealed import hide_results
from ..serving.challengers import find_challenger
from ..sweeps.plan import first_facts
from ..sweeps.predictions import (
    Prediction,
    cancel_prediction,
    parked_error,
    recorded_model_name,
    request_prediction,
    resume_prediction,
)
from .access import Caller
from .as_of import LIMIT, AfterPosition, HouseOf, Id, Limit, reply
from .bodies import hold_body
from .errors import AppendTooLarge
from .predict_body import PredictBody, body_schema, read_body
from .problems import CUT, SLOW, problem_of
from .roles import RUNS_OF_OTHERS, has_role
from .schemas import answer_of

router = APIRouter(prefix="/predict", tags=["predict"])

WAIT_S: Final = 600
"""The longest wait of a request that is not detached; after it the run goes on."""
_PAUSE_S: Final = 0.25

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
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": body_schema()}}}},
    responses={
        200: answer_of(queries.PredictionStatus, "`detached` is false, and the run is over."),
        202: answer_of(queries.PredictionStatus, "The run waits for a worker: its name, and where to look."),
        400: CUT,
        403: problem_of("The token's role may not have runs played."),
        404: problem_of("There is no such task."),
        408: SLOW,
        409: problem_of("The key or the group was used for another request, or the state key is in use."),
        413: problem_of("The body is larger than FLYWHEEL_APPEND_BYTES."),
        429: problem_of("Too many bodies are being received; try again."),
    },
)
async def predict(house: HouseOf, token: Caller, raw: RawBody, key: Key = None) -> Response:
    """Plan a run and put it in the queue of its site, whose workers play it (`flywheel worker --site NAME`)."""
    body = read_body(raw)
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
def prediction_logs(
    house: HouseOf, token: Caller, run_id: Id, after: AfterPosition = 0, limit: Limit = LIMIT
) -> Response:
    """`{"events": [...], "next": position}` in order: pass `next` as `after` for the following page.

    Those of a run that was asked for as sealed tell what it did to the role `operate` alone, which may ask for runs.
    """
    queries.planned_prediction(house.store, run_id)
    head = house.store.head()
    page = event_queries.list_events(house.store, head, after=after, limit=limit, stream=f"run/{run_id}")
    if not has_role(token, RUNS_OF_OTHERS):
        page = replace(page, events=hide_results(house.views(), page.events))
    return reply(page)


@router.post(
    "/{run_id}/cancel",
    summary="Call off a run",
    responses={200: _ANSWER, 403: problem_of("The token's role may not call off runs."), 404: _UNKNOWN},
)
def cancel(house: HouseOf, token: Caller, run_id: Id) -> Response:
    """A waiting run is not begun; one under way ends without a result. One that is over stays as it is."""
    cancel_prediction(house, run_id, token.token)
    return reply(_status(house, run_id))


@router.post(
    "/{run_id}/resume",
    status_code=202,
    summary="Have a run that workers gave up go on",
    responses={
        202: _ANSWER,
        403: problem_of("The token's role may not have runs go on."),
        404: _UNKNOWN,
        409: problem_of("The run waits, is under way, or has ended."),
    },
)
def resume(house: HouseOf, run_id: Id) -> Response:
    """A parked run waits for a worker again. Answers that its model gave before are not asked for again."""
    resume_prediction(house, run_id)
    return reply(_status(house, run_id), status=202)


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
            max_micro_dollars=_micro(body.max_cost, house.settings.predict_dollars),
            max_seconds=_seconds(body.max_time_minutes, house.settings.predict_minutes),
            page_headers=tuple(sorted(body.page_headers.items())),
            lent=None
            if body.instance is None
            else LentInstance(instance=body.instance.id, repeat=body.instance.repeat),
            is_sealed=body.instance is not None and body.instance.sealed,
        ),
    )


def _micro(dollars: float | None, most: float) -> int | None:
    """A cost cap in micro-dollars. Raises NotPredicted beyond the setting."""
    if dollars is not None and dollars > most:
        raise NotPredicted(where="max_cost", actual=f"{dollars:g}", expected=f"at most {most:g} dollars")
    return None if dollars is None else round(dollars * 1_000_000)


def _seconds(minutes: float | None, most: float) -> int | None:
    """A time cap in seconds. Raises NotPredicted beyond the setting."""
    if minutes is not None and minutes > most:
        raise NotPredicted(where="max_time_minutes", actual=f"{minutes:g}", expected=f"at most {most:g} minutes")
    return None if minutes is None else round(minutes * 60)


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
    """The artifact that plays, and its model's name in the log. Raises what find_challenger does, NotPredicted.

    A policy that names no weights has those of FLYWHEEL_LORA_ADAPTER, if it is set, else the champion's.
    """
    is_policy = body.executor == "policy"
    chosen = {"_lora_adapter": body.lora_adapter, "_challenger_model": body.challenger_model}
    served = {"_lora_name": body.lora_name, "_lora_scale": body.lora_scale, "_lora_max_rank": body.lora_max_rank}
    suite = chosen | {name: value for name, value in served.items() if value is not None}
    wanted = challenger_from_suite(suite, house.settings.lora_adapter if is_policy else None)
    if wanted.scale != 1:
        expected = "1, because a run names its weights by their digest, which holds no scale"
        raise NotPredicted(where="_lora_scale", actual=str(wanted.scale), expected=expected)
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
