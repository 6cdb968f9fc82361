"""Model calls that the holder of a token appends to a run from outside: they are numbered on, and name what is stored.

A call may name text that no blob holds, or belong to a run that ended: datasets are built from calls, so either is
refused here, where whoever recorded it can still do something about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from eventlog.blobs.contract import BlobStore
from eventlog.blobs.conversations import node
from eventlog.chain import EXACT
from eventlog.errors import BlobDamaged, FlywheelError, NotAConversation
from eventlog.events import AnyEvent, ModelCalled, RewardGraded, RunFinished, RunMissing, RunStarted
from eventlog.store import Append, Conflict, Outcome
from projections.access import TokenState

from ..errors import Unknown
from ..house import House
from ..run_owners import refuse_others
from ..serving.errors import RunClosed
from .errors import Unprocessable
from .roles import RUNS_OF_OTHERS, has_role

_NEVER: Final = EXACT
"""A version that no stream has: an append that expects it is answered by its key alone."""


@dataclass(frozen=True, slots=True)
class _RunSoFar:
    """A run as its stream has it: its version, its calls, the conversations that they name, and what closed it."""

    version: int = 0
    is_begun: bool = False
    calls: int = 0
    conversations: frozenset[str] = frozenset()
    closed: str | None = None


def append_calls(house: House, token: TokenState, append: Append) -> Outcome:
    """Append events of a run from outside, model calls among them, if they go on from what the run's stream has.

    A retry with the key of an append that was committed is answered as that one, also after the run has ended. Raises
    OthersRun, Unknown, RunClosed, Unprocessable, BlobMissing, BlobErased.
    """
    run = append.stream.removeprefix("run/")
    while True:
        _refuse_others(house, token, run)
        found = _read(house, append.stream)
        problem = _fault(house.blobs, found, append.events)
        expect = found.version if append.expect is None else append.expect
        (outcome,) = house.store.append([replace(append, expect=_NEVER if problem else expect)])
        if not isinstance(outcome, Conflict):
            return outcome
        if problem is not None:
            raise problem
        if append.expect is not None:
            return outcome


def _refuse_others(house: House, token: TokenState, run: str) -> None:
    opener = house.run_openers.find(run)
    if opener is not None and not has_role(token, RUNS_OF_OTHERS):
        refuse_others(run, opener, token.token)


def _read(house: House, stream: str) -> _RunSoFar:
    found = _RunSoFar()
    for recorded in house.store.read(stream=stream):
        found = replace(_after(found, recorded.event), version=recorded.version)
    return found


def _after(found: _RunSoFar, event: AnyEvent) -> _RunSoFar:
    match event:
        case RunStarted():
            return replace(found, is_begun=True)
        case ModelCalled():
            return replace(found, calls=found.calls + 1, conversations=found.conversations | {event.messages})
        case RunFinished() | RunMissing() | RewardGraded():
            return replace(found, closed=event.type)
        case _:
            return found


def _fault(blobs: BlobStore, found: _RunSoFar, events: Sequence[AnyEvent]) -> FlywheelError | None:
    """What is wrong with the calls among events that follow the run's; None if nothing is."""
    try:
        for place, event in enumerate(events):
            if isinstance(event, ModelCalled):
                _check_call(blobs, found, event, f"events.{place}")
            found = _after(found, event)
    except FlywheelError as problem:
        return problem
    return None


def _check_call(blobs: BlobStore, found: _RunSoFar, call: ModelCalled, where: str) -> None:
    if not found.is_begun:
        way_out = "Begin it with a RunStarted event, or with a call through the proxy."
        raise Unknown(what="run", actual=call.run, way_out=way_out)
    if found.closed is not None:
        raise RunClosed(run=call.run, actual=found.closed)
    if call.index != found.calls:
        raise Unprocessable(where=f"{where}.index", actual=str(call.index), expected=f"{found.calls}, the next number")
    if call.role != "policy":
        raise Unprocessable(where=f"{where}.role", actual=repr(call.role), expected="'policy': the agent's own calls")
    for address in (call.completion, *call.images):
        blobs.get(address)
    following: str | None = call.messages
    while following is not None and following not in found.conversations:
        try:
            _, following = node(following, blobs.get(following))
        except (NotAConversation, BlobDamaged) as problem:
            raise Unprocessable(where=f"{where}.messages", actual=str(problem), expected="linked messages") from problem
