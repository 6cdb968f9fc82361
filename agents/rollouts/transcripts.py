"""Transcripts of models' runs, read from the log: what the model did, and the page on which it did it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

from eventlog.blobs import BlobStore
from eventlog.blobs.conversations import get_messages, node
from eventlog.events import ModelCalled, RunFinished, RunStarted, Step, StepTaken, StepType
from eventlog.store import EventStore
from projections.runs import is_agent

from ..executors.actions import NotAnAction, step_of
from ..executors.open_actions import FINISH, open_step
from ..learning.contrast import Move
from ..models.model import Sample
from ..models.tool_results import ToolUse, action_name, answered_uses, content_texts, tool_results

if TYPE_CHECKING:
    from eventlog.blobs.conversations import Json

_ON_PAGES: Final = frozenset(get_args(StepType))
_READ: Final = ("RunStarted", "StepTaken", "ModelCalled", "RunFinished")
_PAGE: Final = re.compile(r"^page (/\S*), status \d+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Action:
    """An action that a model answered, and the page that it had seen last."""

    step: Step
    page: str


def read_moves(store: EventStore, blobs: BlobStore, run: str) -> tuple[Move, ...]:
    """The actions of a model's run, in order.

    A policy's steps are read from its conversation, those of other agents from what they reported, or else from the
    tools that they used. Raises BlobErased, BlobMissing, BlobDamaged.
    """
    events = [item.event for item in store.read(stream=f"run/{run}", types=_READ)]
    is_reported = any(isinstance(event, RunStarted) and is_agent(event.executor) for event in events)
    taken = [event for event in events if isinstance(event, StepTaken)]
    calls = [event for event in events if isinstance(event, ModelCalled) and event.role == "policy"]
    if is_reported:
        is_done = any(isinstance(event, RunFinished) and event.status == "completed" for event in events)
        return _agent_moves(blobs, taken, calls, is_done=is_done)
    if not calls:
        return tuple(_reported_move(blobs, event) for event in taken)
    if any(event.argument is not None or event.action not in _ON_PAGES for event in taken):
        return tuple(_own_move(blobs, event) for event in taken)
    moves: list[Move] = []
    for event, action in zip(taken, _actions(messages_of(blobs, calls[-1])), strict=False):
        if action.step.action != event.action:
            break  # an answer that today's rules read otherwise
        moves.append(Move(action.step, action.page, event.outcome == "ok"))
    return tuple(moves)


def read_last_seen(store: EventStore, blobs: BlobStore, run: str) -> str:
    """What the model of a run was told before its last answer: the page that a policy saw, what an agent's tools gave.

    Pictures are left out. Empty if no model was called. Raises BlobErased, BlobMissing, BlobDamaged, NotAConversation.
    """
    events = [item.event for item in store.read(stream=f"run/{run}", types=["ModelCalled"])]
    calls = [event for event in events if isinstance(event, ModelCalled) and event.role == "policy"]
    told = _told_since(blobs, calls[-1].messages) if calls else []
    return "\n".join(text for message in told for text in _texts_in(message) if text)


def _told_since(blobs: BlobStore, address: str) -> list[Mapping[str, Json]]:
    """The messages after the model's last answer; the last message alone if it had answered nothing.

    A beginning of its next answer, which some requests end with, is none.
    """
    found: list[Mapping[str, Json]] = []
    following: str | None = address
    while following is not None:
        message, following = node(following, blobs.get(following))
        if message.get("role") != "assistant":
            found.append(message)
        elif found:
            return found[::-1]
    return found[:1]


def _texts_in(message: Mapping[str, Json]) -> Iterator[str]:
    """The texts of a message, as a policy's is recorded or as an agent sent it."""
    return iter((text_of(message),)) if "parts" in message else content_texts(message.get("content"))


def messages_of(blobs: BlobStore, call: ModelCalled) -> list[Mapping[str, Json]]:
    """The messages of a call, with its answer as the last one. Raises what BlobStore.get does."""
    answer = json.loads(blobs.get(call.completion).body)["samples"][0]["text"]
    return [*get_messages(blobs, call.messages), {"role": "assistant", "parts": [{"text": answer}]}]


def text_of(message: Mapping[str, Json]) -> str:
    """The texts of a recorded message, one per line."""
    parts = message["parts"]
    found = [part.get("text") for part in parts if isinstance(part, Mapping)] if isinstance(parts, Sequence) else []
    return "\n".join(text for text in found if isinstance(text, str))


def _actions(messages: Sequence[Mapping[str, Json]]) -> Iterator[_Action]:
    """The answers of a conversation that are actions, each with the page that was seen before it."""
    page = ""
    for message in messages:
        text = text_of(message)
        if message["role"] != "assistant":
            found = _PAGE.search(text)
            page = page if found is None else found[1]
            continue
        try:
            yield _Action(step_of("recorded", Sample(text, "stop"), "screenshot"), page)
        except NotAnAction:
            continue


def _own_move(blobs: BlobStore, event: StepTaken) -> Move:
    """A step of a policy without pages, whose environment may name an action as a step on a page is named."""
    is_end = event.action == FINISH and event.argument is None
    step = Step(type="finish", intent=event.intent) if is_end else open_step(event.action, _argument(blobs, event))
    return Move(step, "", event.outcome == "ok")


def _agent_moves(
    blobs: BlobStore, taken: Sequence[StepTaken], calls: Sequence[ModelCalled], *, is_done: bool
) -> tuple[Move, ...]:
    """What an agent reported, or else its uses of tools; then how it ended, which went well if it was done."""
    ends = [event for event in taken[-1:] if event.action == FINISH]
    reported = [_reported_move(blobs, event) for event in taken[: len(taken) - len(ends)]]
    ended = [Move(Step(type="finish", intent=each.intent), "", is_done) for each in ends]
    return (*(reported or _tool_moves(blobs, calls)), *ended)


def _tool_moves(blobs: BlobStore, calls: Sequence[ModelCalled]) -> Iterator[Move]:
    """Uses of tools, as later calls tell them, and those that the last answer asks for, of which no call tells.

    Each is read once, though several calls may tell it. What the first call tells was not done in this run.
    """
    known = set[ToolUse]()
    for number, call in enumerate(calls):
        for found in tool_results(_told_last(blobs, call.messages)):
            if number and found.use not in known:
                yield Move(_tool_step(found.use), "", not found.has_failed)
            known.add(found.use)
    for call in calls[-1:]:
        samples = json.loads(blobs.get(call.completion).body)["samples"]
        for use in (each for sample in samples[:1] for each in answered_uses(sample) if each not in known):
            yield Move(_tool_step(use), "", is_ok=True)


def _told_last(blobs: BlobStore, address: str) -> list[Mapping[str, Json]]:
    """The messages of a conversation from the model's last one on; all of them if it said nothing."""
    found: list[Mapping[str, Json]] = []
    following: str | None = address
    while following is not None and not (found and found[-1].get("role") == "assistant"):
        message, following = node(following, blobs.get(following))
        found.append(message)
    return found[::-1]


def _tool_step(found: ToolUse) -> Step:
    """A use of a tool as an action. An argument that is the only one, and a text, stands for itself."""
    try:
        given = json.loads(found.argument or "{}")
    except (ValueError, RecursionError):
        given = found.argument
    match [*given.values()] if isinstance(given, dict) else [found.argument]:
        case []:
            return open_step(action_name(found.name), None)
        case [str(only)]:
            return open_step(action_name(found.name), only)
        case _:
            return open_step(action_name(found.name), found.argument)


def _reported_move(blobs: BlobStore, event: StepTaken) -> Move:
    """A step as the agent reported it, by its name and its argument."""
    argument = _argument(blobs, event)
    return Move(_page_step(event, argument) or open_step(event.action, argument), "", event.outcome == "ok")


def _argument(blobs: BlobStore, event: StepTaken) -> str | None:
    return None if event.argument is None else blobs.get(event.argument).body.decode(errors="replace")


def _page_step(event: StepTaken, argument: str | None) -> Step | None:
    """A step on a page that an agent reported, with what it acted on; None if it is an action of an environment."""
    if event.action not in _ON_PAGES:
        return None
    try:
        given = json.loads(argument) if argument else {}
        return Step.model_validate({"type": event.action, "intent": event.intent, **given})
    except (TypeError, ValueError, RecursionError):
        return None
