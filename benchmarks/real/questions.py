"""Which questions of the trained task may be asked in training, and the seeds that ask them.

There are only 200 sums and differences of two digits, so seeds that were never played ask questions that were. The
questions themselves are therefore divided: one half may be asked in training, the other is held out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count, islice
from typing import Final

from agents.models.model import Schema
from api.environments.connect import Placed, placed_at
from api.house import House

from .effort import OTHERS, TRAINED, Effort
from .subject import HeldOut, Subject

NUMBER: Final = Schema("number", {"type": "integer"})
"""An integer and nothing else."""

ASKED: Final = "questions asked in training"
"""Name of the trained task at later seeds whose questions may be asked in training."""

FIRST_HELD_OUT: Final = 30_000
_SEEDS_A_TRAINING_SEED = 2_500


def sums(effort: Effort) -> Subject:
    """The part of the sums."""
    others = range(FIRST_HELD_OUT, FIRST_HELD_OUT + effort.held_out_others)
    columns = {
        "held-out questions": (HeldOut(TRAINED, held_out_seeds(effort)),),
        ASKED: (HeldOut(TRAINED, asked_seeds(effort)),),
        **{task.removeprefix("reasoning-gym."): (HeldOut(task, tuple(others)),) for task in OTHERS},
    }
    return Subject(
        name="sums",
        effort=effort,
        asked=lambda seed, part: {TRAINED: training_seeds_of(effort, seed, part)},
        columns=columns,
        untrained=len(OTHERS),
        schema=NUMBER,
        open_tasks=_open_tasks,
    )


@contextmanager
def _open_tasks(house: House) -> Iterator[Mapping[str, Placed]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(placed_at(house, name)) for name in (TRAINED, *OTHERS)}


@cache
def question(env_seed: int) -> str:
    """The question of the trained task at a seed."""
    import reasoning_gym  # noqa: PLC0415 an extra

    dataset = reasoning_gym.create_dataset("chain_sum", seed=env_seed, size=1, max_digits=1, max_terms=2)
    return str(dataset[0]["question"])


def may_be_asked(text: str) -> bool:
    """True if a question may be asked in training; about half of them may."""
    return hashlib.sha256(text.encode()).digest()[0] % 2 == 0


def training_seeds_of(effort: Effort, training_seed: int, part: int) -> tuple[int, ...]:
    """Training questions of one training seed: part 0 is the base's sweep, then one part for each round.

    Their seeds lie below 9,000, where no benchmark has any. The control's questions are the loop's.
    """
    first = (training_seed - 1) * _SEEDS_A_TRAINING_SEED
    own = [seed for seed in range(first, first + _SEEDS_A_TRAINING_SEED) if may_be_asked(question(seed))]
    at = effort.asked + (part - 1) * effort.questions if part else 0
    return tuple(own[at : at + (effort.questions if part else effort.asked)])


def held_out_seeds(effort: Effort) -> tuple[int, ...]:
    """Seeds of held-out questions of the trained task: none of them may be asked in training."""
    return tuple(islice(_later_seeds(asked=False), effort.held_out))


def asked_seeds(effort: Effort) -> tuple[int, ...]:
    """Other seeds of questions that may be asked in training, to tell what was learned by heart."""
    return tuple(islice(_later_seeds(asked=True), effort.held_out_others))


def _later_seeds(*, asked: bool) -> Iterator[int]:
    return (seed for seed in count(FIRST_HELD_OUT) if may_be_asked(question(seed)) == asked)
