"""Close an outside run with the reward that its owner reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from eventlog.chain import EXACT
from eventlog.events import (
    AnyEvent,
    ModelCalled,
    RewardGraded,
    RewardTerms,
    RunFinished,
    RunMissing,
    RunStarted,
    RunStatus,
    StepTaken,
    Usage,
)
from eventlog.store import START, Append, Committed, Position

from ..errors import Unknown
from ..house import House
from ..run_owners import actors_of, api_actor, refuse_others
from .errors import RewardReported, RunClosed
from .outside_facts import NOTHING

VERSION: Final = "reported"
_NO_STATE: Final = "0" * 64


@dataclass
class _Ended:
    """State of a run in the log when its reward is reported."""

    version: int = 0
    actor: str = ""
    group: str = ""
    calls: list[ModelCalled] = field(default_factory=list)
    steps: int = 0
    is_finished: bool = False
    is_missing: bool = False
    reward: RewardGraded | None = None
    position: Position = START


def report_reward(
    house: House, token: str, run: str, score_micro: int, *, passed: bool, is_others: bool = False
) -> Position:
    """Append the end of a run, unless it ended before, and its reward. Returns the position of the reward.

    With `is_others` the run may be one that another token opened. The same reward again changes nothing. Raises
    Unknown, OthersRun, RunClosed, RewardReported, LogUnavailable.
    """
    while True:
        found = _read(house, run)
        _check(found, token, run, is_others=is_others)
        if found.reward is not None:
            if (found.reward.score, found.reward.passed) != (score_micro, passed):
                raise RewardReported(run=run, actual=found.reward.score)
            return found.position
        events = (*_end(house, run, found), reported_reward(run, found.group, score_micro, passed=passed))
        actor = found.actor if found.actor in actors_of(token) else api_actor(token)
        append = Append(stream=f"run/{run}", events=events, actor=actor, expect=found.version)
        (outcome,) = house.store.append([append])
        if isinstance(outcome, Committed):
            return outcome.last


def _read(house: House, run: str) -> _Ended:
    found = _Ended()
    for recorded in house.store.read(stream=f"run/{run}"):
        found.version = recorded.version
        match recorded.event:
            case RunStarted() as started:
                found.actor, found.group = recorded.actor, started.spec.group_id
            case ModelCalled() as called:
                found.calls.append(called)
            case StepTaken():
                found.steps += 1
            case RunFinished():
                found.is_finished = True
            case RunMissing():
                found.is_missing = True
            case RewardGraded() as graded:
                found.reward, found.position = graded, recorded.position
            case _:
                pass
    return found


def _check(found: _Ended, token: str, run: str, *, is_others: bool) -> None:
    if not found.actor:
        raise Unknown(what="run", actual=run, way_out="Begin it with a call through the proxy or with POST /v1/events.")
    if not is_others:
        refuse_others(run, found.actor, token)
    if found.is_missing:
        raise RunClosed(run=run, actual="RunMissing")


def _end(house: House, run: str, found: _Ended) -> tuple[AnyEvent, ...]:
    if found.is_finished:
        return ()
    house.blobs.put([NOTHING])
    tokens = (
        known_total(call.input_tokens for call in found.calls),
        known_total(call.output_tokens for call in found.calls),
    )
    actions = found.steps or None  # without steps nobody knows: an agent may act and not tell
    return (outside_end(run, "completed", tokens, actions),)


def outside_end(
    run: str,
    status: RunStatus,
    tokens: tuple[int | None, int | None],
    actions: int | None = None,
    wall_microseconds: int | None = None,
) -> RunFinished:
    """The end of a run from outside, whose end state nobody knows. It names NOTHING. `tokens` are read and written.

    A number that the log cannot hold is unknown: it came from outside.
    """
    wall, read, written = (None if count is None or count > EXACT else count for count in (wall_microseconds, *tokens))
    usage = Usage(actions=actions, wall_microseconds=wall, input_tokens=read, output_tokens=written)
    return RunFinished(
        run=run, status=status, fingerprint=_NO_STATE, end_state=NOTHING.digest, mutations=0, usage=usage
    )


def known_total(counts: Iterable[int | None]) -> int | None:
    """Sum of token counts; None if one is unknown."""
    found = list(counts)
    known = [count for count in found if count is not None]
    return sum(known) if len(known) == len(found) else None


def reported_reward(run: str, group: str, score: int, *, passed: bool) -> RewardGraded:
    """The reward that was reported. What the run cost is not known, so its value is not either."""
    return RewardGraded(
        run=run,
        group=group,
        channel="oracle",
        version=VERSION,
        score=score,
        passed=passed,
        reasons=(),
        terms=RewardTerms(score=score, lambda_per_dollar=0, penalty=None),
        prices=0,
        cost=None,
        value=None,
    )
