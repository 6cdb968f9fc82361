"""What the record of a policy's run says of how it was asked: its prompt, its actions, and what it saw first. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import get_args

from ..envs.episodes.episode import ActionSpec
from ..executors.actions import Sight, Wording, system_prompt
from ..executors.open_actions import actions_in, open_system_prompt
from ..executors.policy import guided_prompt, task_paragraphs
from ..learning.advice import begins_with_advice
from .recording import Conversation, Recording
from .transcripts import text_of


@dataclass(frozen=True, slots=True)
class RecordedPrompt:
    """What the system prompt of a run says: the policy's sight and wording, and the actions where there are no pages.

    The prompt of open actions says no wording (None).
    """

    sight: Sight
    wording: Wording | None
    actions: tuple[ActionSpec, ...] = ()

    @property
    def wordings(self) -> tuple[Wording, ...]:
        """The wordings that the run may have had."""
        return get_args(Wording) if self.wording is None else (self.wording,)


def recorded_prompt(recording: Recording, conversation: Conversation) -> RecordedPrompt | None:
    """What the system prompt says that the conversation begins with, with any guidance behind it.

    None if it is none that is given today.
    """
    if not conversation.calls:
        return None
    said = text_of(conversation.messages[0])
    every = product(get_args(Sight), get_args(Wording))
    for_pages = (RecordedPrompt(*each) for each in every if _begins_with(said, system_prompt(*each)))
    if (prompt := next(for_pages, None)) is not None:
        return prompt
    only = next((step.action for step in recording.steps), "answer")
    actions = actions_in(said, only)
    is_whole = bool(actions) and _begins_with(said, open_system_prompt(actions))
    return RecordedPrompt("text", None, actions) if is_whole else None


def _begins_with(said: str, prompt: str) -> bool:
    return said == prompt or said.startswith(guided_prompt(prompt, "-").partition("“")[0])


def first_view(told: str, instruction: str, advice: Iterable[str]) -> str | None:
    """What a policy without pages saw first, of what it was told first; None if it was told another task or advice."""
    before = task_paragraphs(instruction, advice)
    seen = told.removeprefix(before)
    return None if not told.startswith(before) or begins_with_advice(seen) else seen
