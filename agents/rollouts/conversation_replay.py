"""Replay of a policy's run: the executor plays again, and the record answers in place of the model and of the site.

Pure: no model is called and no page is fetched. Every request is compared with the recorded one, so a prompt, a rule of
reading answers, or a lesson that is told otherwise shows as the first divergence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from eventlog.events import Applied, Sampling, Step

from ..envs.contract import Instance
from ..envs.episodes.episode import ActionSpec
from ..executors.actions import Wording
from ..executors.policy import PolicyExecutor, task_paragraphs, wording_budget
from ..executors.surface import Acted, Surface
from ..learning.advice import advice_lines, applied_of, reading_audience
from ..learning.guidance import guidance_text
from ..models.errors import RequestRejected
from ..models.model import Completion, CompletionRequest, Offers, Sample
from .facts import plain_message
from .recorded_prompt import RecordedPrompt, first_view, recorded_prompt
from .recording import Conversation, Lines, Recording, ReplayCheck
from .replay_outcome import end_check
from .step_checks import step_checks
from .transcripts import text_of

if TYPE_CHECKING:
    from eventlog.blobs.conversations import Json

_NOWHERE: Final = Instance.model_validate({"seed": 0, "instance": "recorded", "url": "http://recorded.invalid/"})
_NEW, _PAGE, _END = "New on the page:\n<page>\n", "<page>\n", "\n</page>"
_LONGEST: Final = 120
_NO_PROMPT: Final = "its system prompt is none that policies are given today"


class _Diverged(Exception):
    """The replay went another way than the record."""

    def __init__(self, check: ReplayCheck) -> None:
        super().__init__(check.where)
        self.check = check


def conversation_checks(recording: Recording, conversation: Conversation) -> Iterator[ReplayCheck]:
    """Yield the checks of what a policy was told, of each model call, of each step, and of the end."""
    prompt = recorded_prompt(recording, conversation)
    if prompt is None:
        yield ReplayCheck("calls", (), None, _NO_PROMPT)
        return
    wording = prompt.wordings[0]
    if conversation.said is not None:
        yield from _played_again(recording, conversation, prompt, wording, conversation.said(wording_budget(wording)))
        return
    recorded = _told_lines(recording.started.applied)
    if conversation.told is None:
        yield ReplayCheck("told", recorded, None, "its template is not in the log")
        return
    every = {each: conversation.told(reading_audience(wording_budget(each))) for each in prompt.wordings}
    wording = next((each for each in every if _told_lines(applied_of(every[each])) == recorded), wording)
    told = every[wording]
    yield ReplayCheck("told", recorded, _told_lines(applied_of(told)), where="what it was told")
    yield from _played_again(recording, conversation, prompt, wording, advice_lines(told), guidance_text(told))


def _made_lines(steps: Sequence[int | None]) -> Lines:
    return (f"calls: {len(steps)}", f"made for steps: {', '.join(map(str, steps))}")


def _told_lines(applied: Iterable[Applied]) -> Lines:
    return tuple(f"{item.piece} at line {item.step}" for item in applied)


def _played_again(
    recording: Recording,
    conversation: Conversation,
    prompt: RecordedPrompt,
    wording: Wording,
    advice: tuple[str, ...],
    guidance: str = "",
) -> Iterator[ReplayCheck]:
    """Yield the checks of each model call, of each step, and of the end, with this advice and guidance told."""
    model, surface = _RecordedModel(conversation), _RecordedSurface(recording, conversation)
    if prompt.actions:
        told, instruction = text_of(conversation.messages[1]), recording.started.task_spec.instruction
        surface = _RecordedOpenSurface(recording, conversation, prompt.actions)
        surface.seen = first_view(told, instruction, advice)
        if surface.seen is None:
            again = task_paragraphs(instruction, advice).splitlines()
            yield ReplayCheck("told", tuple(told.splitlines()), tuple(again), where="what it was told first")
            return
    surface.model = model
    tokens = conversation.calls[0].sampling.max_tokens
    executor = PolicyExecutor(model, prompt.sight, surface.open_surface, tokens, wording)
    try:
        execution = executor.execute(recording.assignment(advice, guidance), _NOWHERE)
    except _Diverged as diverged:
        yield diverged.check
        return
    made, played = (_made_lines([call.step for call in calls]) for calls in (conversation.calls, execution.called))
    yield ReplayCheck("calls", made, played, where="the calls")
    yield from step_checks(recording.steps, execution)
    yield end_check(recording, execution)


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
    taken: int = field(default=0, init=False)
    seen: str | None = field(default=None, init=False)

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

    @property
    def has_told(self) -> bool:
        """True if the policy was told how its last step ended: the run went on."""
        return self.model.messages + 1 < len(self.conversation.messages)

    def _view_after(self) -> str | None:
        """The policy's view after its last step, from the message that it got then."""
        if not self.has_told:
            return self.seen
        _, _, told = text_of(self.conversation.messages[self.model.messages + 1]).partition("\n")
        return self._view_told(told)

    def _view_told(self, told: str) -> str | None:
        """The view after a step whose outcome was followed by this."""
        if told.startswith(_NEW):
            return f"{self.seen or ''}\n{told.removeprefix(_NEW).removesuffix(_END)}"
        return told.removeprefix(_PAGE).removesuffix(_END) if told.startswith(_PAGE) else self.seen


@dataclass
class _RecordedOpenSurface(_RecordedSurface):
    """The same without pages. It ends the run with the last step of one that was completed without `finish`."""

    actions: tuple[ActionSpec, ...]

    def act(self, step: Step) -> Acted:
        """See Surface. Raises _Diverged for another step than the recorded one, or if its page was told otherwise."""
        acted, told = super().act(step), self.seen
        number, is_last = self.taken - 1, self.taken == len(self.recording.steps)
        shown = self.text()
        if shown is not None and self.has_told and shown != told:
            lines = tuple(shown.splitlines()), tuple((told or "").splitlines())
            raise _Diverged(ReplayCheck("steps", *lines, where=f"what is seen after step {number}"))
        return replace(acted, is_last=is_last and self.recording.finished.status == "completed")

    def _view_told(self, told: str) -> str | None:
        return told


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
