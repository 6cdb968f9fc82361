"""A server of `openenv-core` for tests: guess a number that the seed draws; warmer and colder are said, three guesses.

Run by a Python that has the package: `python tests/openenv_guess.py PORT`. It imports nothing of this project.
"""

from __future__ import annotations

import random
import sys
from typing import Any
from uuid import uuid4

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

GUESSES = 3


class GuessAction(Action):  # type: ignore[misc]  # not read by the type checker
    """One guess."""

    guess: str


class GuessObservation(Observation):  # type: ignore[misc]  # not read by the type checker
    """What the game says."""

    said: str
    left: int


class GuessEnvironment(Environment):  # type: ignore[misc]  # not read by the type checker
    """The game: full reward at the first guess, less at each later one."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State(episode_id=str(uuid4()), step_count=0)
        self._number = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> GuessObservation:
        """Draw a number."""
        self._number = random.Random(seed).randrange(1_000)  # noqa: S311 (repeatable)
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
        return GuessObservation(said=f"a number, {self._number % 10} at its end", left=GUESSES)

    def step(self, action: GuessAction, timeout_s: float | None = None, **_: Any) -> GuessObservation:
        """Judge a guess."""
        self._state.step_count += 1
        left = GUESSES - self._state.step_count
        if action.guess.strip() == str(self._number):
            return GuessObservation(said="right", left=left, reward=1.0 - self._state.step_count / 10, done=True)
        number = int(action.guess) if action.guess.strip().isdecimal() else -1
        said = "more" if number < self._number else "less"
        return GuessObservation(said=said, left=left, reward=0.0, done=left == 0)

    @property
    def state(self) -> State:
        """The state of the game."""
        return self._state


if __name__ == "__main__":
    app = create_fastapi_app(GuessEnvironment, GuessAction, GuessObservation, max_concurrent_envs=8)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
