"""What the plain loop is given, and what it brings."""

from __future__ import annotations

from eventlog.events import FrozenModel


class Asked(FrozenModel):
    """A question as it is put to the model, and the right number."""

    system: str
    user: str
    answer: str


class PlainTask(FrozenModel):
    """The questions of each step, and the held-out ones; and the sizes of the recipe."""

    steps: tuple[tuple[Asked, ...], ...]
    held_out: tuple[Asked, ...]
    samples: int
    answer_tokens: int
    learning_rate: float
    rank: int
    alpha: int
    threads: int
    seed: int


class PlainResult(FrozenModel):
    """Seconds of sampling and training, shares of held-out questions right, and the mean reward of each step."""

    sampling_s: float
    training_s: float
    before: float
    after: float
    rewards: tuple[float, ...]
    prompt_tokens: int
