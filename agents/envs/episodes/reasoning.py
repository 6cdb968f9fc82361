"""Data sets of reasoning-gym as environments: a question by seed, one answer, and the data set's verifier as oracle."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

from ..contract import MICRO
from .episode import SEEDS_END, ActionSpec, EpisodeKind, Turn, UnfitArgument, reward_in_micro
from .errors import LibraryMissing, UnknownEnvironment
from .names import EpisodeName

ANSWER: Final = "answer"
INSTRUCTION: Final = "Answer the question. Give the result alone, without any other word."
_LONGEST: Final = 20_000
_RESERVED: Final = frozenset({"seed", "size"})


@dataclass(frozen=True, slots=True)
class _Question:
    """One question of a data set. See Episode; its only action is the answer, and it ends with it."""

    dataset: Any
    entry: Mapping[str, Any]

    @property
    def observation(self) -> str:
        """See Episode."""
        return str(self.entry["question"])

    @property
    def solution(self) -> tuple[tuple[str, str | None], ...] | None:
        """See Episode."""
        answer = self.entry.get("answer")
        return None if answer is None else ((ANSWER, str(answer)),)

    def act(self, action: str, argument: str | None) -> Turn:  # noqa: ARG002 - there is one action
        """See Episode. Raises UnfitArgument for an answer that is missing or too long to be verified."""
        if argument is None or len(argument) > _LONGEST:
            raise UnfitArgument(f"an answer is a text of at most {_LONGEST:,} characters")
        score = float(self.dataset.score_answer(argument, self.entry))
        return Turn(self.observation, min(max(reward_in_micro(score), 0), MICRO), is_over=True)

    def sample_action(self, rng: random.Random) -> tuple[str, str | None]:
        """See Episode: a number, a letter or a word of the question."""
        words = self.observation.split() or [""]
        drawn = (str(rng.randrange(-99, 1_000)), rng.choice("abcdefghijklmnopqrstuvwxyz"), rng.choice(words))
        return ANSWER, rng.choice(drawn)

    def close(self) -> None:
        """See Episode: it holds nothing."""


def reasoning_kind(name: str, parts: EpisodeName, threshold_micro: int = MICRO) -> EpisodeKind:
    """The kind of a data set: the seed of an instance is the data set's, and its first item is the question.

    Raises LibraryMissing, and UnknownEnvironment if there is no such data set or it refuses a setting.
    """
    try:
        import reasoning_gym  # noqa: PLC0415 - an extra, imported on use
    except ImportError as problem:
        raise LibraryMissing(environment=name, actual="reasoning-gym", expected="reasoning-gym") from problem
    create = reasoning_gym.create_dataset

    def start(seed: int) -> _Question:
        dataset = create(parts.id, seed=seed % SEEDS_END, size=1, **parts.settings)
        return _Question(dataset, dataset[0])

    _refuse_unfit(name, parts.settings)
    try:
        start(0)
    except (AssertionError, TypeError, ValueError) as problem:
        actual = " ".join(str(problem).split()) or type(problem).__name__
        raise UnknownEnvironment(environment=name, actual=actual, expected="a data set and its settings") from problem
    answer = ActionSpec(ANSWER, "give the result; this ends the task")
    return EpisodeKind(name, INSTRUCTION, (answer,), start, threshold_micro=threshold_micro, max_steps=1)


def _refuse_unfit(name: str, settings: Mapping[str, JsonValue]) -> None:
    """Raise UnknownEnvironment for settings that the instance's seed decides."""
    unfit = sorted(_RESERVED & settings.keys())
    if unfit:
        raise UnknownEnvironment(
            environment=name, actual=f"it sets {', '.join(unfit)}", expected="neither seed nor size"
        )
