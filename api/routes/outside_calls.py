"""Model calls that the holder of a token appends to a run from outside: they are numbered on, and name what is stored.

A call may name text that no blob holds, or tokens that no dataset can, or belong to a run that ended: datasets are
built from calls, so each is refused here, where whoever recorded it can still do something about it. So is any event
of a run that names bytes of a person whom the run does not name, because an erasure finds by its runs what has seen
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from eventlog.blobs.envelope import Envelope
from eventlog.chain import EXACT
from eventlog.errors import BlobDamaged, BlobMissing, FlywheelError, NotAConversation
from eventlog.events import AnyEvent, ModelCalled, RewardGraded, RunFinished, RunMissing, RunStarted
from eventlog.keys import subject_tag
from eventlog.references import blob_addresses
from eventlog.store import Append, Conflict, Outcome
from projections.access import TokenState
from projections.datasets.completions import fault_of_completion
from projections.datasets.conversations import read_message

from ..errors import Unknown
from ..house import House
from ..run_owners import refuse_others
from ..serving.errors import RunClosed
from .errors import Unprocessable
from .roles import RUNS_OF_OTHERS, has_role

_NEVER: Final = EXACT
"""A version that no stream has: an append that expects it is answered by its key alone."""

_MOST_IMAGES: Final = 64


@dataclass(frozen=True, slots=True)
class _RunSoFar:
    """A run as its stream has it: its version, opener, subject, calls and their conversations, and what closed it."""

    version: int = 0
    opener: str = ""
    is_begun: bool = False
    subject: str | None = None
    calls: int = 0
    conversations: frozenset[str] = frozenset()
    closed: str | None = None


def needs_its_run(house: House, events: Iterable[AnyEvent]) -> bool:
    """True if events can only be appended by what their run has: calls among them, or names of a person's bytes."""
    return any(isinstance(event, ModelCalled) or _names_a_subject(house, event) for event in events)


def append_calls(house: House, token: TokenState, append: Append) -> Outcome:
    """Append events of a run from outside that need their run, if they go on from what its stream has.

    A retry with the key of an append that was committed is answered as that one, also after the run has ended. Raises
    OthersRun, Unknown, RunClosed, Unprocessable, BlobMissing, BlobErased.
    """
    run = append.stream.removeprefix("run/")
    while True:
        found = _read(house, append.stream)
        if found.opener and not has_role(token, RUNS_OF_OTHERS):
            refuse_others(run, found.opener, token.token)
        problem = _fault(house, found, append.events)
        expect = found.version if append.expect is None else append.expect
        (outcome,) = house.store.append([replace(append, expect=_NEVER if problem else expect)])
        if not isinstance(outcome, Conflict):
            return outcome
        if problem is not None:
            raise problem
        if append.expect is not None:
            return outcome


def _read(house: House, stream: str) -> _RunSoFar:
    found, told = _RunSoFar(), set[str]()
    for recorded in house.store.read(stream=stream):
        event = recorded.event
        told.update([event.messages] if isinstance(event, ModelCalled) else [])
        found = replace(_after(found, event), version=recorded.version, opener=found.opener or recorded.actor)
    return replace(found, conversations=frozenset(told))


def _after(found: _RunSoFar, event: AnyEvent) -> _RunSoFar:
    match event:
        case RunStarted():
            return replace(found, is_begun=True, subject=event.subject)
        case ModelCalled():
            return replace(found, calls=found.calls + 1)
        case RunFinished() | RunMissing() | RewardGraded():
            return replace(found, closed=event.type)
        case _:
            return found


def _fault(house: House, found: _RunSoFar, events: Sequence[AnyEvent]) -> FlywheelError | None:
    """What is wrong with the calls among events that follow the run's; None if nothing is."""
    walked = set(found.conversations)
    try:
        for place, event in enumerate(events):
            if isinstance(event, ModelCalled):
                _check_call(found, event, f"events.{place}")
                looked_at = _check_blobs(house, walked, event, f"events.{place}")
                _refuse_other_subjects(found, house.blobs.read_envelopes(looked_at), f"events.{place}")
            found = _after(found, event)
            if not isinstance(event, ModelCalled):
                _refuse_other_subjects(found, _stored_blobs(house, event), f"events.{place}")
    except FlywheelError as problem:
        return problem
    return None


def _check_call(found: _RunSoFar, call: ModelCalled, where: str) -> None:
    if not found.is_begun:
        way_out = "Begin it with a RunStarted event, or with a call through the proxy."
        raise Unknown(what="run", actual=call.run, way_out=way_out)
    if found.closed is not None:
        raise RunClosed(run=call.run, actual=found.closed)
    if call.index != found.calls:
        raise Unprocessable(where=f"{where}.index", actual=str(call.index), expected=f"{found.calls}, the next number")
    if call.role != "policy":
        raise Unprocessable(where=f"{where}.role", actual=repr(call.role), expected="'policy': the agent's own calls")
    if len(call.images) > _MOST_IMAGES:
        raise Unprocessable(where=f"{where}.images", actual=str(len(call.images)), expected=f"at most {_MOST_IMAGES}")


def _check_blobs(house: House, walked: set[str], call: ModelCalled, where: str) -> list[str]:
    """Have the blobs of a call, no longer together than a prompt may be, and return their addresses.

    Messages that are `walked` were looked at before.
    """
    blobs, left = house.blobs, house.settings.prompt_bytes
    looked_at = list(dict.fromkeys((call.completion, *call.images)))
    for address in looked_at:
        body = blobs.get(address).body
        left -= len(body)
        _refuse_long(left, house, where)
        if address == call.completion and (fault := fault_of_completion(body)) is not None:
            path = f"{where}.completion{fault.where and '.'}{fault.where}"
            raise Unprocessable(where=path, actual=fault.actual, expected=fault.expected)
    following: str | None = call.messages
    while following is not None and following not in walked:
        walked.add(following)
        looked_at.append(following)
        message = blobs.get(following)
        left -= len(message.body)
        _refuse_long(left, house, where)
        try:
            following = read_message(following, message).parent
        except (NotAConversation, BlobDamaged) as problem:
            raise Unprocessable(where=f"{where}.messages", actual=str(problem), expected="linked messages") from problem
    return looked_at


def _refuse_other_subjects(found: _RunSoFar, named: Iterable[Envelope], where: str) -> None:
    own = None if found.subject is None else subject_tag(found.subject)
    for envelope in named:
        if envelope.subject not in {None, own}:
            actual = f"the blob {envelope.address} of a subject that the run does not name"
            expected = "blobs of no subject, or of the one in the run's RunStarted.subject"
            raise Unprocessable(where=where, actual=actual, expected=expected)


def _names_a_subject(house: House, event: AnyEvent) -> bool:
    return any(envelope.subject is not None for envelope in _stored_blobs(house, event))


def _stored_blobs(house: House, event: AnyEvent) -> Iterator[Envelope]:
    """The blobs that an event names and that are stored: a step may name what nobody kept."""
    for address in blob_addresses(event):
        with suppress(BlobMissing):
            yield from house.blobs.read_envelopes([address])


def _refuse_long(left: int, house: House, where: str) -> None:
    if left < 0:
        expected = f"at most {house.settings.prompt_bytes} (FLYWHEEL_PROMPT_BYTES)"
        raise Unprocessable(where=where, actual="blobs of more bytes", expected=expected)
