"""The reward of the recipe: a half for the right last number of an answer, all for the number alone. Pure."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from typing import Final

from agents.envs.contract import MICRO
from agents.envs.episodes.episode import Episode, EpisodeKind, Turn

HALF: Final = 0.5
_NUMBER: Final = re.compile(r"-?\d+")


def reward_of(text: str, answer: str) -> float:
    """Reward of a text, in 0 to 1, where `answer` is the right number."""
    found = _NUMBER.findall(text)
    if not found or int(found[-1]) != int(answer):
        return 0.0
    return 1.0 if text.strip() == answer else HALF


def by_last_number(kind: EpisodeKind) -> EpisodeKind:
    """The kind with that reward in place of its own. A run passes with the right last number."""
    return replace(kind, start=lambda seed: _ByLastNumber(kind.start(seed)), threshold_micro=round(HALF * MICRO))


def answer_of(kind: EpisodeKind, seed: int) -> str:
    """The right number of the question at a seed. Raises ValueError if the kind knows none."""
    return _number_in(kind.start(seed))


def _number_in(episode: Episode) -> str:
    match episode.solution:
        case ((_, str() as answer),):
            return answer
        case other:
            raise ValueError(f"the solution is {other!r}; expected one action with a number")


@dataclass(frozen=True, slots=True)
class _ByLastNumber:
    """A question with the other reward. See Episode."""

    question: Episode

    @property
    def observation(self) -> str:
        """See Episode."""
        return self.question.observation

    @property
    def solution(self) -> tuple[tuple[str, str | None], ...] | None:
        """See Episode."""
        return self.question.solution

    def act(self, action: str, argument: str | None) -> Turn:
        """See Episode."""
        turn = self.question.act(action, argument)
        return replace(turn, reward_micro=round(MICRO * reward_of(argument or "", _number_in(self.question))))

    def sample_action(self, rng: random.Random) -> tuple[str, str | None]:
        """See Episode."""
        return self.question.sample_action(rng)

    def close(self) -> None:
        """See Episode."""
        self.question.close()
