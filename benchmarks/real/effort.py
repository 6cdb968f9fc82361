"""Tasks, seeds and sizes of the demonstration on a real model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from eventlog.events import GrpoConfig, Lora, SftConfig

TRAINED: Final = "reasoning-gym.chain_sum.max_digits-1.max_terms-2"
"""The task that is trained on: sums and differences of two numbers of one digit."""

OTHERS: Final = (
    "reasoning-gym.chain_sum.max_digits-1.max_terms-3.min_terms-3",
    "reasoning-gym.chain_sum.max_digits-2.max_terms-2.min_digits-2",
    "reasoning-gym.letter_counting.max_words-5.min_words-3",
)
"""Held-out tasks, which nothing is trained on: more terms, more digits, another generator."""

BASE: Final = "smollm2"
PRIMARY: Final = "loop - control"
"""The one comparison that was named before anything was measured, on held-out instances of the trained task."""

RANK: Final = Lora(rank=16, alpha=32)


@dataclass(frozen=True, slots=True)
class Effort:
    """Sizes. Each training seed has questions of its own for every sweep, so seeds are independent repetitions.

    Rejection sampling asks the base `asked` questions under a schema. The loop plays `rounds` sweeps of `questions`
    with `siblings` runs each, and trains GRPO on each. The control plays as many runs and trains as many tokens.
    `held_out` and `held_out_others` are numbers of held-out instances, of a trained task and of each other one. A run
    has at most `max_steps` actions of `answer_tokens` (None: as many as its task has).
    """

    training_seeds: tuple[int, ...] = (1, 2, 3)
    asked: int = 480
    rounds: int = 8
    questions: int = 16
    siblings: int = 8
    held_out: int = 60
    held_out_others: int = 30
    sealed: int = 200
    visible: int = 4
    answer_tokens: int = 24
    max_steps: int | None = None
    at_once: int = 32
    sft: SftConfig = field(
        default_factory=lambda: SftConfig(steps=6, learning_rate="0.0002", rows_per_step=8, threads=2, lora=RANK)
    )
    grpo: GrpoConfig = field(
        default_factory=lambda: GrpoConfig(
            steps=1,
            learning_rate="0.0003",
            groups_per_step=16,
            aggregation="bnpo",
            beta="0",
            max_tokens=24,
            threads=2,
            lora=RANK,
        )
    )


def quick() -> Effort:
    """A trial of every part, in which nothing can be learned."""
    whole = Effort()
    return replace(
        whole,
        training_seeds=(1, 2),
        asked=24,
        rounds=1,
        questions=6,
        siblings=4,
        held_out=6,
        held_out_others=3,
        sealed=40,
        sft=whole.sft.model_copy(update={"steps": 2, "rows_per_step": 4}),
        grpo=whole.grpo.model_copy(update={"steps": 1}),
    )


def on_pages() -> Effort:
    """Sizes of the part of the pages, where `asked`, `questions` and the held-out numbers are of each trained task."""
    whole = Effort()
    return replace(
        whole,
        asked=32,
        rounds=4,
        questions=4,
        held_out=20,
        held_out_others=16,
        answer_tokens=20,
        max_steps=2,
        at_once=16,
        grpo=whole.grpo.model_copy(update={"groups_per_step": 8}),
    )


def quick_on_pages() -> Effort:
    """A trial of every step on pages, in which nothing can be learned."""
    whole = on_pages()
    return replace(
        whole,
        training_seeds=(1,),
        asked=6,
        rounds=1,
        questions=2,
        siblings=4,
        held_out=2,
        held_out_others=2,
        at_once=4,
        sft=whole.sft.model_copy(update={"steps": 1, "rows_per_step": 2}),
    )
