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
    """Seconds of each part, the share of held-out questions right before and after, and each step's mean reward."""

    loading_s: float
    sampling_s: float
    training_s: float
    held_out_s: float
    before: float
    after: float
    rewards: tuple[float, ...]
    prompt_tokens: int

    @property
    def whole_s(self) -> float:
        """Seconds from the first weight read to the last held-out answer."""
        return self.loading_s + self.sampling_s + self.training_s + self.held_out_s
