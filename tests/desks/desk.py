"""One instance of a small site: what it holds, what was done in it, and whether that was right."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from agents.envs.contract import Mutation
from agents.envs.sites.journal import Journal
from agents.envs.sites.site import FULL, OracleGrade

from .grammar import CHANCE, DeskKind

NAME = "Alex Morgan"
THINGS, A_PAGE, CLEAR_EVERY = 15, 5, 4
"""Things of a list, things of one of its pages, and one in so many instances has no obstacle but another name."""
UNLUCKY = 0.5
"""Share of the instances in which what is sold out by chance is sold out."""


class Desk:
    """One instance: its things by number, with the kind that each is of."""

    def __init__(self, desk: DeskKind, seed: int, mutations: Sequence[Mutation] = (), repeat: int = 0) -> None:
        self.desk, self.seed, self.journal = desk, seed, Journal(mutations)
        rng = random.Random(f"{desk.words.site} {seed}")  # noqa: S311 (a seed's data)
        numbers = rng.sample(range(1_000, 10_000), THINGS)
        self.things = {number: rng.choice(desk.words.kinds[1:]) for number in numbers}
        self.right = numbers[rng.randrange(A_PAGE) + A_PAGE * desk.page * self.has("paged list")]
        self.things[self.right] = desk.words.kinds[0]
        self.is_let_in, self.who = False, ""
        self.is_unlucky = random.Random(f"luck {desk.luck} {seed} {repeat}").random() < UNLUCKY  # noqa: S311 (an instance's noise)

    def has(self, obstacle: str) -> bool:
        obstacles, is_clear = self.desk.obstacles, self.seed % CLEAR_EVERY == 0
        if obstacle == "sold out" and CHANCE[0] in obstacles:
            return self.is_unlucky
        if self.desk.one_each:
            return not is_clear and obstacle == obstacles[self.seed // CLEAR_EVERY % len(obstacles)]
        return obstacle in obstacles and (not is_clear or obstacle == "renamed control")

    @property
    def address(self) -> str:
        words = self.desk.words
        return words.moved[self.seed % len(words.moved)] if self.has("moved address") else words.address

    @property
    def mutations(self) -> Sequence[Mutation]:
        return self.journal.mutations

    def counts(self) -> Mapping[str, int]:
        return {"things": THINGS}

    def fingerprint(self) -> str:
        return self.journal.digest({"seed": self.seed, "things": {str(n): kind for n, kind in self.things.items()}})

    def grade(self, _task_id: str) -> OracleGrade:
        told = [(each.target_id, each.payload.get("who")) for each in self.mutations]
        passed = told == [(str(self.right), NAME)]
        return OracleGrade(passed, FULL if passed else 0, () if passed else ("not exactly the right request",), {})
