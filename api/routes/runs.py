"""Runs: how each ended and what it earned."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field

from eventlog.chain import EXACT
from eventlog.events import FrozenModel
from projections.runs import OUTSIDE

from ..queries import runs as queries
from ..queries.run_starts import list_runs_by_start
from ..serving.reported_opinions import report_opinion
from ..serving.reported_rewards import report_reward
from .access import Caller
from .as_of import LIMIT, AfterPosition, HouseOf, Id, Limit, Reading, Wanted, position_of, reply, sorted_after
from .errors import ForeignRunName, Unprocessable
from .problems import NO_TEXT, SLOW, problem_of
from .roles import ALL_RESULTS, RUNS_OF_OTHERS, has_role
from .schemas import answer_of
from .small_bodies import TOO_LARGE

router = APIRouter(prefix="/runs", tags=["runs"])

Status = Literal["started", "completed", "halted", "out_of_budget", "missing", "ended"]
After = Annotated[str | None, sorted_after(200, "runs whose name sorts after this, or the `next` of a page before")]
Passed = Annotated[bool | None, Query(description="graded runs that passed, or that failed")]
Text = Annotated[
    str | None,
    Query(min_length=1, max_length=200, description="in the name, the template or the instruction, in whatever case"),
]
Prefix = Annotated[
    str | None,
    Query(min_length=1, max_length=200, description="runs whose names begin with this sweep or evaluation"),
]
Since = Annotated[str | None, Query(max_length=40, description="runs that began after this position or time")]
Until = Annotated[str | None, Query(max_length=40, description="runs that began up to this position or time")]


@router.get("", summary="List runs with their rewards", responses={200: answer_of(queries.RunPage)})
def list_runs(
    house: HouseOf,
    views: Reading,
    *,
    prefix: Prefix = None,
    sweep: Wanted = None,
    evaluation: Wanted = None,
    template: Wanted = None,
    status: Status | None = None,
    environment: Wanted = None,
    passed: Passed = None,
    text: Text = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> Response:
    """`{"runs": [...], "next": run}` in order of name bytes: pass `next` as `after` for the following page.

    With `since` or `until` they come in order of their beginning, and `next` is a position.

    Scores, values and costs are in micro-units; null is unknown or not graded, never zero. While their benchmark can
    judge, sealed runs have no `reward`, the status started, ended or missing, and null for what they did; repeats that
    confirm what looked worse are left out. `withdrawn` and `erased` are the positions since which the run is withdrawn
    or its subject erased. A `contaminated` run began from another state than the runs that it is compared with.
    Nothing is learned from any of these.
    """
    wanted = queries.RunFilter(
        prefix=prefix,
        sweep=sweep,
        evaluation=evaluation,
        template=template,
        status=status,
        environment=environment,
        text=text,
        is_passed=passed is True,
        is_failed=passed is False,
    )
    if since is None and until is None:
        return reply(queries.list_runs(views, wanted, after=after, limit=limit))
    start, end = position_of(house.store, since) or 0, position_of(house.store, until)
    if after is not None and not (after.isdecimal() and after.isascii() and int(after) <= EXACT):
        raise Unprocessable(where="after", actual=repr(after), expected="the `next` of a page before, a position")
    start, last = max(start, int(after or 0)), views.upto if end is None else end
    return reply(list_runs_by_start(house.store, views, wanted, start, last, limit=limit))


class RewardBody(FrozenModel):
    """How a run went, as its owner says: a score from 0 to 1, and whether it counts as passed."""

    score: Annotated[float, Field(ge=0, le=1)]
    passed: bool


@router.post(
    "/{run_id}/reward",
    summary="Close a run of your own agent with its reward",
    responses={
        200: answer_of(queries.RewardAnswer, "The reward is in the log; the same reward again changes nothing."),
        400: NO_TEXT,
        408: SLOW,
        413: TOO_LARGE,
        403: problem_of("Another token opened this run, or the role may not."),
        404: problem_of("There is no such run."),
        409: problem_of("The run has another reward, or is missing."),
    },
)
def reward_run(house: HouseOf, token: Caller, run_id: Id, body: RewardBody) -> Response:
    """Append the end of the run and its reward: what calls through the capture proxy were worth."""
    if not run_id.startswith(OUTSIDE):
        raise ForeignRunName(what="run", actual=run_id, expected=OUTSIDE)
    score, is_others = round(body.score * 1_000_000), has_role(token, RUNS_OF_OTHERS)
    position = report_reward(house, token.token, run_id, score, passed=body.passed, is_others=is_others)
    return reply(queries.RewardAnswer(run_id, position))


class OpinionBody(FrozenModel):
    """A judge's opinion of a run: whether it passed, how sure the judge is from 0 to 1, and why."""

    judge: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._-]+$")]
    passed: bool
    confidence: Annotated[float, Field(ge=0, le=1)] = 1.0
    reason: Annotated[str, Field(max_length=4_000)] = ""


@router.post(
    "/{run_id}/opinion",
    summary="Say what a judge of your own thinks of a run",
    responses={
        200: answer_of(queries.OpinionAnswer, "The opinion is in the log; the same opinion again changes nothing."),
        400: NO_TEXT,
        408: SLOW,
        413: TOO_LARGE,
        403: problem_of("The token's role may not give opinions."),
        404: problem_of("There is no such run."),
        409: problem_of("The run has not ended or is sealed, or this judge said something else before."),
    },
)
def judge_run(house: HouseOf, token: Caller, run_id: Id, body: OpinionBody) -> Response:
    """Append a judge's opinion on a run. It is no reward: no reward, trial or verdict reads it.

    The judge's name begins with the token's. Its agreement with the oracle is measured on the graded runs that it
    judges; from then on `flywheel dataset build --judged-by NAME` may select runs without an oracle by it.
    """
    name, position = report_opinion(
        house,
        token.token,
        run_id,
        body.judge,
        passed=body.passed,
        confidence=round(body.confidence * 1_000_000),
        reason=body.reason,
    )
    return reply(queries.OpinionAnswer(run_id, name, position))


@router.get(
    "/{run_id:path}",
    summary="One run with its reward and events",
    responses={200: answer_of(queries.RunAnswer), 404: problem_of("There is no such run.")},
)
def one_run(
    house: HouseOf,
    views: Reading,
    token: Caller,
    run_id: Id,
    limit: Limit = LIMIT,
    after: AfterPosition = 0,
    raw: Annotated[bool, Query(description="Whether an admin's token reads the results of a sealed run.")] = True,  # noqa: FBT002 FastAPI makes a parameter of it
) -> Response:
    """`{"run": ..., "reward": ... or null, "events": [...], "next": position}`: pass `next` as `after` for more events.

    Results of a sealed run are left out while its benchmark can judge; an admin's token reads them in its events.
    """
    is_raw = raw and token.role == ALL_RESULTS
    return reply(queries.show_run(house.store, views, run_id, after=after, limit=limit, is_raw=is_raw))
