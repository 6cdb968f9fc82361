"""Sizes and seeds of the four arms."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from eventlog.events import Lora, SftConfig

SITE: Final = "marketplace"
TASK: Final = "marketplace.phone_reveal"
BASE: Final = "smollm2"

_RANK: Final = Lora(rank=16, alpha=32)


@dataclass(frozen=True, slots=True)
class Effort:
    """Numbers of seeds, each part from its own, and of rounds.

    Plans learn in rounds of `found` seeds. `plain` seeds are demonstrated without memory, `told` with it. The trained
    policy tries what memory tells in rounds of `tried` seeds. `sealed` are the seeds that the gate alone plays.
    """

    found: int = 12
    plan_rounds: int = 8
    plain: int = 160
    told: int = 40
    tried: int = 12
    rounds: int = 4
    sealed: int = 40
    at_once: int = 48
    threads: int = 8
    sft: SftConfig = field(
        default_factory=lambda: SftConfig(steps=80, learning_rate="0.0005", rows_per_step=8, threads=8, lora=_RANK)
    )

    def plan_seeds(self, number: int) -> range:
        """Seeds of a round of plans, counted from 0."""
        return _part(0 + number * self.found, self.found)

    @property
    def plain_seeds(self) -> range:
        """Seeds of the demonstrations without memory."""
        return _part(2_000, self.plain)

    @property
    def told_seeds(self) -> range:
        """Seeds of the demonstrations that say what memory changed."""
        return _part(4_000, self.told)

    def trial_seeds(self, number: int) -> range:
        """Seeds of a round of the trained policy, counted from 0."""
        return _part(6_000 + number * self.tried, self.tried)

    @property
    def sealed_seeds(self) -> range:
        """Seeds of the benchmark, which nothing learns from."""
        return _part(10_000, self.sealed)


def _part(first: int, many: int) -> range:
    return range(first, first + many)


def on_processors() -> Effort:
    """A run without a CUDA device: fewer tokens are trained on, which takes half an hour of processor time."""
    whole = Effort()
    return replace(
        whole,
        plain=64,
        told=24,
        tried=8,
        at_once=16,
        threads=1,
        sft=whole.sft.model_copy(update={"steps": 60, "rows_per_step": 2, "threads": 1}),
    )


def quick() -> Effort:
    """A trial of every part, in which nothing can be learned."""
    whole = Effort()
    return replace(
        whole,
        plan_rounds=1,
        plain=8,
        told=3,
        tried=1,
        rounds=1,
        sealed=2,
        at_once=4,
        threads=2,
        sft=whole.sft.model_copy(update={"steps": 1, "rows_per_step": 2, "threads": 2}),
    )
