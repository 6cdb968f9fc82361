"""Runs: how each ended and what it earned."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from projections.contamination import contaminated_runs, is_contaminated
from projections.engine.projection import state_json as plain_state
from projections.rewards import REWARDS, RewardState
from projections.runs import RUNS, RunState
from projections.taint import TaintState, erased_runs, withdrawals

from ..errors import Unknown
from .events import event_body
from .problems import Problem
from .reading import LIMIT, HouseOf, Id, Limit, Reading, Wanted, reply

router = APIRouter(prefix="/runs", tags=["runs"])

Status = Literal["started", "completed", "halted", "out_of_budget", "missing"]
After = Annotated[
    str | None, Query(max_length=200, pattern=r"^[^\x00]*$", description="runs whose id sorts after this")
]


@router.get("", summary="List runs with their rewards")
def list_runs(
    views: Reading,
    sweep: Wanted = None,
    evaluation: Wanted = None,
    template: Wanted = None,
    status: Status | None = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> Response:
    """`{"runs": [...], "next": run}` in order of id bytes: pass `next` as `after` for the following page.

    Scores, values and costs are in micro-units; null is unknown or not graded, never zero. `withdrawn` and `erased` are
    the positions since which nothing is learned from the run, or the bytes of its subject are gone. `contaminated` says
    that it began from another state than the runs it is compared with, and counts for nothing either.
    """
    wanted = {"sweep": sweep, "evaluation": evaluation, "template": template, "status": status}
    start = None if after is None else after.encode()
    found = [
        state
        for key, state in views.find(RUNS).items()
        if (start is None or key.encode() > start) and _matches(state, wanted)
    ]
    rewards = views.find(REWARDS) if found else {}
    marks, contaminated = _marks(views), contaminated_runs(views) if found else frozenset()
    page = [
        {
            **_plain(state),
            **_marks_of(state.run, marks),
            "contaminated": state.run in contaminated,
            "reward": _reward_of(rewards.get(state.run)),
        }
        for state in found[:limit]
    ]
    return reply({"runs": page, "next": found[limit - 1].run if len(found) > limit else None})


@router.get(
    "/{run_id:path}",
    summary="One run with its reward and events",
    responses={404: {"model": Problem, "description": "There is no such run."}},
)
def one_run(house: HouseOf, views: Reading, run_id: Id) -> Response:
    """`{"run": ..., "reward": ... or null, "events": [...]}`."""
    state = views.get(RUNS, run_id)
    if state is None:
        raise Unknown(what="run", actual=run_id, way_out="List them with GET /v1/runs.")
    events = house.store.read(stream=f"run/{run_id}", upto=views.upto)
    run = {**_plain(state), **_marks_of(run_id, _marks(views)), "contaminated": is_contaminated(views, state)}
    return reply({"run": run, "reward": views.get(REWARDS, run_id), "events": [event_body(item) for item in events]})


def _matches(state: RunState, wanted: dict[str, str | None]) -> bool:
    return all(value is None or getattr(state, name) == value for name, value in wanted.items())


def _plain(state: RunState) -> dict[str, object]:
    found = plain_state(state)
    return found if isinstance(found, dict) else {}


def _marks(views: Reading) -> dict[str, dict[str, TaintState]]:
    return {"withdrawn": withdrawals(views), "erased": erased_runs(views)}


def _marks_of(run: str, marks: dict[str, dict[str, TaintState]]) -> dict[str, int | None]:
    return {name: facts[run].since if run in facts else None for name, facts in marks.items()}


def _reward_of(reward: RewardState | None) -> dict[str, object] | None:
    if reward is None:
        return None
    return {"score": reward.score, "passed": reward.passed, "value": reward.value, "cost": reward.cost}
