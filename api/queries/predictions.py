"""Predictions: how a run that was asked for over REST stands, from its plan, its queue and its run."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from eventlog.events import RunCancelled, RunMissing, RunTermsSet, Spec, SweepPlanned
from eventlog.store import EventStore
from projections.engine.views import Views
from projections.rewards import REWARDS
from projections.runs import RUNS

from .runs import unknown_run
from .untold import is_sealed_elsewhere

PREFIX: Final = "predict-"
"""How the sweeps of predictions begin."""

PredictionState = Literal["queued", "running", "parked", "cancelled", "passed", "failed", "ungraded", "missing"]


class PredictionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a prediction stands. `failed` was graded as not passed; `missing` was never graded.

    `reason` says why a run is missing, parked, ungraded, or was ended before its agent said that it was done. `cost` is
    in micro-dollars.
    """

    run: str
    status: PredictionState
    is_over: bool
    score: int | None = None
    cost: int | None = None
    reason: str | None = None
    run_path: str
    status_path: str


def planned_prediction(store: EventStore, run: str) -> tuple[SweepPlanned, Spec]:
    """The plan of a run that was asked for. Raises Unknown."""
    sweep = run.partition("__")[0]
    if not sweep.startswith(PREFIX):
        raise unknown_run(run)
    for recorded in store.read(stream=f"sweep/{sweep}"):
        event = recorded.event
        found = [spec for spec in event.specs if spec.spec_id == run] if isinstance(event, SweepPlanned) else []
        if isinstance(event, SweepPlanned) and found:
            return event, found[0]
    raise unknown_run(run)


def prediction_stream(run: str) -> str:
    """The stream with the terms of a run that was asked for; it also says that the run was called off."""
    return f"predict/{run}"


def terms_of(store: EventStore, run: str) -> RunTermsSet | None:
    """The terms that a run was asked for with; None without any."""
    found = (each.event for each in store.read(stream=prediction_stream(run), types=["RunTermsSet"]))
    return next((event for event in found if isinstance(event, RunTermsSet)), None)


def is_cancelled(store: EventStore, run: str) -> bool:
    """True if a run was called off."""
    return any(isinstance(each.event, RunCancelled) for each in store.read(stream=prediction_stream(run)))


def prediction_status(store: EventStore, views: Views, run: str, parked: str | None = None) -> PredictionStatus:
    """How a run that was asked for stands; `parked` is the error of its job, if workers gave it up. Raises Unknown."""
    planned_prediction(store, run)
    state, reward = views.get(RUNS, run), views.get(REWARDS, run)
    status: PredictionState
    reason: str | None = None
    if is_cancelled(store, run):
        status = "cancelled"
    elif reward is not None:
        status = "passed" if reward.passed else "failed"
        reason = None if state is None or state.status == "completed" else state.status
    elif state is not None and state.status == "missing":
        status, reason = "missing", _why_missing(store, run)
    elif state is not None and state.is_ended:
        status, reason = "ungraded", None if is_sealed_elsewhere(run) else state.status
    elif parked is not None:
        status, reason = "parked", parked
    else:
        status = "queued" if state is None else "running"
    return PredictionStatus(
        run=run,
        status=status,
        is_over=status not in {"queued", "running", "parked"},
        score=None if reward is None or status == "cancelled" else reward.score,
        cost=None if reward is None else reward.cost,
        reason=reason,
        run_path=f"/v1/runs/{run}",
        status_path=f"/v1/predict/{run}",
    )


def _why_missing(store: EventStore, run: str) -> str | None:
    ends = (each.event for each in store.read(stream=f"run/{run}", types=["RunMissing"]))
    return next((f"{end.reason}: {end.detail}" for end in ends if isinstance(end, RunMissing)), None)
