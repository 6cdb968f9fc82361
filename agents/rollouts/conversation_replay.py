"""Replay of a policy's run: the executor plays again, and the record answers in place of the model and of the site.

Pure: no model is called and no page is fetched. Every request is compared with the recorded one, so a prompt, a rule of
reading answers, or a lesson that is told otherwise shows as the first divergence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Final, get_args

from eventlog.events import Sampling, Step, StepTaken

from ..envs.contract import Instance
from ..executors.actions import Sight, Wording, system_prompt
from ..executors.executor import ExecutedStep, Execution
from ..executors.policy import PolicyExecutor, guided_prompt, wording_budget
from ..executors.surface import Acted, Surface
from ..learning.advice import advice_lines, applied_of, reading_audience
from ..learning.guidance import guidance_text
from ..models.errors import RequestRejected
from ..models.model import Completion, CompletionRequest, Offers, Sample
from .facts import plain_message
from .recording import Conversation, Lines, Recording, ReplayCheck
from .replay_outcome import end_check
from .transcripts import text_of

if TYPE_CHECKING:
    from eventlog.blobs.conversations import Json

_NOWHERE: Final = Instance.model_validate({"seed": 0, "instance": "recorded", "url": "http://recorded.invalid/"})
_NEW, _PAGE, _END = "New on the page:\n<page>\n", "<page>\n", "\n</page>"
_LONGEST: Final = 120
_NO_PROMPT: Final = "its system prompt is none that policies are given for pages today, as in environments without"


class _Diverged(Exception):
    """The replay went another way than the record."""

    def __init__(self, check: ReplayCheck) -> None:
        super().__init__(check.where)
        self.check = check


def conversation_checks(recording: Recording, conversation: Conversation) -> Iterator[ReplayCheck]:
    """Yield the checks of what a policy was told, of each model call, of each step, and of the end."""
    prompt = _prompt_of(conversation)
    if prompt is None:
        yield ReplayCheck("calls", (), None, _NO_PROMPT)
        return
    sight, wording = prompt
    if conversation.said is not None:
        yield from _played_again(recording, conversation, sight, wording, conversation.said(wording_budget(wording)))
        return
    told = None if conversation.told is None else conversation.told(reading_audience(wording_budget(wording)))
    recorded = tuple(f"{item.piece} at line {item.step}" for item in recording.started.applied)
    if told is None:
        yield ReplayCheck("told", recorded, None, "its template is not in the log")
        return
    again = tuple(f"{item.piece} at line {item.step}" for item in applied_of(told))
    yield ReplayCheck("told", recorded, again, where="what it was told")
    yield from _played_again(recording, conversation, sight, wording, advice_lines(told), guidance_text(told))


def _played_again(
    recording: Recording,
    conversation: Conversation,
    sight: Sight,
    wording: Wording,
    advice: tuple[str, ...],
    guidance: str = "",
) -> Iterator[ReplayCheck]:
    """Yield the checks of each model call, of each step, and of the end, with this advice and guidance told."""
    model, surface = _RecordedModel(conversation), _RecordedSurface(recording, conversation)
    surface.model = model
    executor = PolicyExecutor(model, sight, surface.open_surface, conversation.calls[0].sampling.max_tokens, wording)
    try:
        execution = executor.execute(recording.assignment(advice, guidance), _NOWHERE)
    except _Diverged as diverged:
        yield diverged.check
        return
    yield ReplayCheck("calls", (f"calls: {len(conversation.calls)}",), (f"calls: {model.asked}",), where="the calls")
    yield from _steps(recording.steps, execution)
    yield end_check(recording, execution)


def _prompt_of(conversation: Conversation) -> tuple[Sight, Wording] | None:
    """The sight and wording of the system prompt that the conversation begins with, with any guidance behind it.

    None if it is none of them.
    """
    if not conversation.calls:
        return None
    said = text_of(conversation.messages[0])
    every = product(get_args(Sight), get_args(Wording))
    return next(((sight, wording) for sight, wording in every if _begins_with(said, sight, wording)), None)


def _begins_with(said: str, sight: Sight, wording: Wording) -> bool:
    prompt = system_prompt(sight, wording)
    return said == prompt or said.startswith(guided_prompt(prompt, "-").partition("“")[0])


@dataclass
class _RecordedModel:
    """A Model that answers each request with the recorded answer, if the request is the recorded one."""

    conversation: Conversation
    name: str = "recorded"
    asked: int = 0
    messages: int = 0

    @property
    def offers(self) -> Offers:
        calls = self.conversation.calls
        sampling, is_bound = calls[0].sampling, any(call.constrained for call in calls)
        return Offers(
            logprobs=sampling.wants_logprobs,
            token_ids=False,
            seed=sampling.seed is not None,
            images=True,
            schema=is_bound,
        )

    def complete(self, request: CompletionRequest) -> Completion:
        """See Model.complete. Raises RequestRejected after the last recorded answer, as a full context does."""
        if self.asked == len(self.conversation.calls):
            raise RequestRejected(url=self.name, actual=400, said="no further answer is recorded")
        call = self.conversation.calls[self.asked]
        expected = _call_lines(self.conversation.messages[: call.messages], call.sampling)
        actual = _call_lines([plain_message(message) for message in request.messages], request.sampling)
        if expected != actual:
            raise _Diverged(ReplayCheck("calls", *_first_other(expected, actual), where=f"call {self.asked}"))
        self.asked, self.messages = self.asked + 1, call.messages
        return Completion(self.name, (Sample(call.text, call.finish),), None, None)


@dataclass
class _RecordedSurface:
    """A surface on which each step ends as the recorded one did, and shows what the policy was told then."""

    recording: Recording
    conversation: Conversation
    model: _RecordedModel = field(init=False)
    taken: int = 0
    seen: str | None = None

    @contextmanager
    def open_surface(self, _instance: Instance, _headers: Mapping[str, str]) -> Iterator[Surface]:
        """See Opening."""
        yield self

    def act(self, step: Step) -> Acted:
        """See Surface. Raises _Diverged for another step than the recorded one."""
        steps = self.recording.steps
        recorded = steps[self.taken] if self.taken < len(steps) else None
        if recorded is None or recorded.action != step.action:
            expected = ("no step was taken",) if recorded is None else (f"step {self.taken}: {recorded.action}",)
            lines = (f"step {self.taken}: {step.action}",)
            raise _Diverged(ReplayCheck("steps", expected, lines, where=f"step {self.taken}"))
        self.taken += 1
        self.seen = self._view_after()
        return Acted(recorded.outcome, recorded.http_status, recorded.observation is not None)

    def text(self) -> str | None:
        """See Surface."""
        address = self.recording.steps[self.taken - 1].observation
        return None if address is None else self.recording.texts[address]

    def view(self) -> str | None:
        """See Surface."""
        return self.seen

    def screenshot(self) -> bytes | None:
        """See Surface."""
        address = self.recording.steps[self.taken - 1].screenshot
        return None if address is None else self.conversation.pictures[address]

    def _view_after(self) -> str | None:
        """The policy's view after its last step, from the message that it got then."""
        place = self.model.messages + 1
        if place >= len(self.conversation.messages):
            return self.seen
        _, _, told = text_of(self.conversation.messages[place]).partition("\n")
        if told.startswith(_NEW):
            return f"{self.seen or ''}\n{told.removeprefix(_NEW).removesuffix(_END)}"
        return told.removeprefix(_PAGE).removesuffix(_END) if told.startswith(_PAGE) else self.seen


def _call_lines(messages: Sequence[Mapping[str, Json]], sampling: Sampling) -> Lines:
    """A request as lines: its parameters, then each message's lines after its role and number."""
    drawn = (f"sampling: {sampling.model_dump_json()}",)
    return (*drawn, *(f"message {n}, {m['role']}: {line}" for n, m in enumerate(messages) for line in _lines_of(m)))


def _lines_of(message: Mapping[str, Json]) -> list[str]:
    parts = message["parts"]
    pictures = (
        [str(part["image"]) for part in parts if isinstance(part, Mapping) and "image" in part]
        if isinstance(parts, Sequence)
        else []
    )
    return [*text_of(message).splitlines(), *pictures]


def _first_other(expected: Lines, actual: Lines) -> tuple[Lines, Lines]:
    """The first line in which two requests differ, cut."""
    number = next(
        (n for n, (one, other) in enumerate(zip(expected, actual, strict=False)) if one != other),
        min(len(expected), len(actual)),
    )
    one, other = ([*lines[number : number + 1], "nothing further"][0][:_LONGEST] for lines in (expected, actual))
    return ((one,), (other,)) if one != other else (expected, actual)


def _steps(recorded: Sequence[StepTaken], execution: Execution) -> Iterator[ReplayCheck]:
    taken = execution.taken
    for place in range(max(len(recorded), len(taken))):
        expected = _recorded_lines(recorded[place]) if place < len(recorded) else ("no step was taken",)
        actual = _taken_lines(taken[place]) if place < len(taken) else ("no step was taken",)
        yield ReplayCheck("steps", expected, actual, where=f"step {place}")


def _recorded_lines(event: StepTaken) -> Lines:
    return (f"step {event.index}: {event.action}", f"intent: {event.intent}", f"outcome: {event.outcome}")


def _taken_lines(taken: ExecutedStep) -> Lines:
    return (f"step {taken.index}: {taken.step.action}", f"intent: {taken.step.intent}", f"outcome: {taken.outcome}")
