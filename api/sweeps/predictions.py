"""Predictions: plan one run that was asked for, put it in the queue of its site, and call it off."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from agents.models.llamacpp.network import PREFIX as LLAMACPP
from agents.models.local.host import base_model_name
from agents.models.local.network import PREFIX as TRANSFORMERS
from agents.rollouts.dispatching.lent_instances import LentInstance, keep_lent, return_lent
from agents.rollouts.dispatching.profiles import TableKeeper
from agents.rollouts.dispatching.queue import JobTicket, RolloutQueue
from agents.rollouts.record import abandon
from agents.rollouts.sweep import SeedSweep, plan_sweep, refuse_frozen, siblings_of
from eventlog.events import Artifact, RunCancelled, RunRequested, RunTermsSet, SweepPlanned, Template
from eventlog.store import Append, Rejected
from eventlog.weights_folder import read_base
from projections.engine.views import Views
from projections.runs import DEMONSTRATION, PLANLESS

from ..environments.suites import seeds_on
from ..errors import NoModel, NotPredicted, NotResumable, PredictionDiffers
from ..house import House
from ..queries.predictions import PREFIX, planned_prediction, prediction_status, prediction_stream, terms_of
from ..queries.untold import SEALED_ELSEWHERE
from .jobs import jobs_of
from .models import local_folder
from .plan import first_facts, kept_to_judge
from .terms import forget_run

ACTOR: Final = "predict"
"""The asker stands in the events: an actor `api:NAME` is a token's holder, who may not plan runs by himself."""

MOST_SIBLINGS: Final = 64
"""Runs of one fan-out group."""
_KEPT: Final = 16
_SESSIONLESS: Final = {*PLANLESS, DEMONSTRATION}


@dataclass(frozen=True, slots=True)
class Prediction:
    """One run that somebody asks for: what plays which task at which seed.

    `request` is the digest of what was asked, `key` the caller's idempotency key. Runs with one `group` are siblings.
    `model` is the model's name in the log. The run costs at most `max_micro_dollars` and takes at most `max_seconds`;
    its pages get the headers whose values are in the named variables of the worker. It plays on the instance that was
    `lent` for it, if any; an `is_sealed` one is graded by its asker alone.
    """

    environment: str
    template: Template
    seed: int
    artifact: Artifact
    request: str
    by: str
    executor: str | None = None
    model: str | None = None
    temperature_micro: int | None = None
    group: str | None = None
    state_key: str | None = None
    key: str | None = None
    suite: str | None = None
    max_micro_dollars: int | None = None
    max_seconds: int | None = None
    page_headers: tuple[tuple[str, str], ...] = ()
    lent: LentInstance | None = None
    is_sealed: bool = False


def recorded_model_name(house: House, model: str | None) -> str:
    """Name in the log of a policy's model, which workers compare. Raises NoModel, BaseMissing."""
    wanted = house.settings.model if model is None else model
    if wanted is None:
        raise NoModel(actual="FLYWHEEL_MODEL is not set", expected="`model`, the name of a model that acts as an agent")
    folder = local_folder(house.settings, wanted)
    if folder is None:
        return f"{house.settings.model_api}:{wanted}"
    prefix = LLAMACPP if wanted.startswith(LLAMACPP) else TRANSFORMERS
    return base_model_name(read_base(folder).digest, prefix)


def request_prediction(house: House, asked: Prediction) -> str:
    """Plan a run and queue it; returns its name. The same key and request again give the same run.

    Raises NotPredicted, PredictionDiffers, SessionBusy, BenchmarkInstance, BadSweep, LogUnavailable.
    """
    if asked.state_key is not None and asked.executor in _SESSIONLESS:
        actual, expected = f"a session of the executor {asked.executor}", "the executor plan or browser"
        raise NotPredicted(where="state_key", actual=actual, expected=expected)
    first_facts(house)
    stream = f"request/{_name_of(asked.by, asked.key)}"
    while True:
        known = _earlier_run(house, stream, asked)
        if known is not None:
            return known
        if (run := _plan(house, asked, stream)) is not None:
            return run


def _name_of(by: str, key: str | None) -> str:
    return secrets.token_hex(_KEPT) if key is None else sha256(f"{by}\n{key}".encode()).hexdigest()[: 2 * _KEPT]


def _earlier_run(house: House, stream: str, asked: Prediction) -> str | None:
    """The run of an earlier request with this key. Raises PredictionDiffers if that was another request."""
    for recorded in house.store.read(stream=stream):
        if isinstance(recorded.event, RunRequested):
            if recorded.event.request != asked.request:
                raise PredictionDiffers(what="the key", key=asked.key, actual=recorded.event.run)
            return recorded.event.run
    return None


def _plan(house: House, asked: Prediction, stream: str) -> str | None:
    """Append the plan and the request and queue the job, all or nothing; None if somebody else was faster."""
    own = stream.removeprefix("request/")
    named = own if asked.group is None else f"group-{_name_of(asked.by, asked.group)}"
    sweep = (SEALED_ELSEWHERE if asked.is_sealed else PREFIX) + named
    before = [each.event for each in house.store.read(stream=f"sweep/{sweep}") if isinstance(each.event, SweepPlanned)]
    views = house.views()
    event = _event(house, views, sweep, asked, before)
    (spec,) = event.specs
    queue = RolloutQueue(house.engine, asked.environment)
    ticket = JobTicket(sweep, spec.spec_id, spec.state_key)
    requested = RunRequested(
        run=spec.spec_id, sweep=sweep, environment=asked.environment, by=asked.by, request=asked.request
    )
    plan = Append(f"sweep/{sweep}", (event,), ACTOR, expect=_version(house, sweep))
    further = [Append(stream, (requested,), ACTOR, expect=0), *_terms(asked, spec.spec_id)]
    with _lend(house, spec.spec_id, asked.lent):  # before a worker can take the job
        result = queue.plan(plan, [ticket], further, alone=None if asked.state_key is None else ticket.state)
    return None if isinstance(result, Rejected) else spec.spec_id


@contextmanager
def _lend(house: House, run: str, lent: LentInstance | None) -> Iterator[None]:
    """Keep the instance of a run that is planned in the block; forget it if the log does not plan the run on it."""
    if lent is None:
        yield
        return
    keeper = TableKeeper(house.engine)
    keep_lent(keeper, run, lent)
    try:
        yield
    finally:
        planned = terms_of(house.store, run)
        if planned is None or planned.instance != lent.digest:
            return_lent(keeper, run, lent.digest)


def _terms(asked: Prediction, run: str) -> list[Append]:
    terms = RunTermsSet(
        run=run,
        max_micro_dollars=asked.max_micro_dollars,
        max_seconds=asked.max_seconds,
        page_headers=asked.page_headers,
        instance=None if asked.lent is None else asked.lent.digest,
        is_sealed=asked.is_sealed,
    )
    if terms == RunTermsSet(run=run, max_micro_dollars=None, max_seconds=None, page_headers=()):
        return []
    return [Append(prediction_stream(run), (terms,), ACTOR, expect=0)]


def _version(house: House, sweep: str) -> int:
    return sum(1 for _ in house.store.read(stream=f"sweep/{sweep}"))


def _event(house: House, views: Views, sweep: str, asked: Prediction, before: Sequence[SweepPlanned]) -> SweepPlanned:
    temperatures = () if asked.temperature_micro is None else (asked.temperature_micro,)
    seeds = seeds_on(house, asked.environment, asked.suite)
    frozen = kept_to_judge(views, asked.environment, (asked.template,), seeds)
    if not before:
        generator = SeedSweep(sweep, (asked.template,), (asked.seed,), 1, temperatures, asked.state_key)
        return plan_sweep(
            generator,
            asked.environment,
            asked.artifact,
            rng_seed=0,
            frozen=frozen,
            learns=False,
            executor=asked.executor,
            model=asked.model,
            suite=asked.suite,
        )
    first, number = before[0], sum(len(each.specs) for each in before)
    _refuse_other_group(first, asked, number)
    specs = siblings_of(sweep, asked.template, asked.seed, (number,), temperatures, asked.state_key)
    refuse_frozen(sweep, asked.environment, (asked.template,), specs, frozen)
    return first.model_copy(update={"specs": specs})


def _refuse_other_group(first: SweepPlanned, asked: Prediction, number: int) -> None:
    """Raise PredictionDiffers unless a request fits the group: siblings play one instance, by the same weights."""
    known = (first.environment, first.templates[0].template_id, first.specs[0].env_seed, first.executor, first.model)
    wanted = (asked.environment, asked.template.template_id, asked.seed, asked.executor, asked.model)
    if known != wanted or first.artifact.weights != asked.artifact.weights:
        told = f"{known[1]} at seed {known[2]} by {known[3] or 'plan'} with {first.artifact.weights}"
        raise PredictionDiffers(what="the fan-out group", key=asked.group, actual=told)
    if number >= MOST_SIBLINGS:
        actual, expected = f"a group of {number} runs", f"fewer than {MOST_SIBLINGS}"
        raise NotPredicted(where="_fanout_group_id", actual=actual, expected=expected)


def cancel_prediction(house: House, run: str, by: str) -> bool:
    """Call a run off: a waiting one is not begun, one under way ends without a result. False if it had ended before.

    Raises Unknown, LogUnavailable.
    """
    planned, spec = planned_prediction(house.store, run)
    RolloutQueue(house.engine, planned.environment).cancel(planned.sweep, run)
    (job,) = jobs_of(house, house.views(), planned, [spec])
    if planned.executor in PLANLESS:
        job = replace(job, pieces=(), candidate=None)
    if abandon(job, house.store, house.blobs, planned.executor or "plan", f"cancelled by {by}") is None:
        return False
    forget_run(house, JobTicket(planned.sweep, run, spec.state_key))
    cancelled = RunCancelled(run=run, by=by)
    house.store.append([Append(prediction_stream(run), (cancelled,), ACTOR, key=f"cancelled:{run}")])
    return True


def resume_prediction(house: House, run: str) -> None:
    """Put a run that workers gave up into the queue again; it goes on from its checkpoint.

    Raises Unknown, and NotResumable for a run that waits, is under way or has ended.
    """
    planned, _ = planned_prediction(house.store, run)
    if RolloutQueue(house.engine, planned.environment).resume(planned.sweep, run):
        return
    found = prediction_status(house.store, house.views(), run)
    if found.is_over:
        ended = f"it has ended: {found.status}{f', {found.reason}' if found.reason else ''}"
        raise NotResumable(run=run, actual=ended, way_out="Ask for a new run of the same task and seed")
    waits = "it waits for a worker" if found.status == "queued" else "a worker plays it"
    raise NotResumable(run=run, actual=waits, way_out="Wait for it; a worker that is lost gives it back by itself")


def parked_error(house: House, run: str) -> str | None:
    """The error of a run's job that workers gave up; None if they did not. Raises Unknown."""
    planned, _ = planned_prediction(house.store, run)
    found = RolloutQueue(house.engine, planned.environment).parked_jobs()
    return next((each.error for each in found if each.ticket.spec == run), None)
