"""What is searched: small sites that a seed draws, a fixed pool of sentences, and the agent that is instructed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final, Literal

from agents.envs.clients.client import EnvClient
from agents.envs.unclosed_instances import close_or_count
from agents.executors.executor import Assignment, Execution
from agents.executors.policy import PolicyExecutor
from agents.learning.contrast import Move, Transcript
from agents.learning.guidance import LONGEST_GUIDANCE
from agents.learning.quoting import clean_text
from agents.learning.reflection import run_lines
from agents.models.scripted import Scripted
from eventlog.events import Template
from tests.desks.desk import NAME
from tests.desks.grammar import Combination, DeskKind, draw_desk
from tests.desks.serving import serve_desk
from tests.desks.site import template_of
from tests.desks.words import WORDS
from tests.followers import PAGE, Follower

OBSTACLES: Final[Combination] = (
    "moved address",
    "gate page",
    "renamed control",
    "missing prerequisite",
    "extra confirmation",
)
TRIPLES: Final[tuple[Combination, ...]] = tuple(combinations(OBSTACLES, 3))
"""Each site has three obstacles, an instance one of them or none, and each sentence of the pool is about one.

So an instruction that cures a site has three sentences, and each of them is worth a quarter of the instances.
"""

EXPLORES: Final = 0.2
"""Chance that the agent tries another control while it learns, so that one run of an instruction proves little."""


def sentences_for(desk: DeskKind) -> tuple[str, ...]:
    """The pool: a sentence for each obstacle in the words of the site, two that do nothing, and two that do harm."""
    words = desk.words
    send = f"press the button '{words.send}'"
    who = f"write '{NAME}' into '{words.who}'"
    return (
        f"Open /, then follow the link '{words.things}', not: open {words.address}.",
        f"Before you {who}: choose 'checked' at '{words.gate[0]}', then press the button '{words.gate[1]}'.",
        f"Press the button '{words.renamed}', not: {send}.",
        f"Before you {send}: choose 'checked' at '{words.prerequisite}'.",
        f"After you {send}: press the button '{words.confirm[1]}'.",
        f"On /news: follow the link '{words.further}'.",
        f"Before you {send}: follow the link '{words.tabs[0]}'.",
        f"Open /news, not: {send}.",
        f"After you {who}: open /.",
    )


def propose(desk: DeskKind, seed: int, number: int, text: str) -> str:
    """The scripted reflector: the instruction with another sentence of the pool, drawn by seed and number of the call.

    It begins anew where the text would be too long.
    """
    left = [each for each in sentences_for(desk) if each not in text]
    drawn = random.Random(f"{seed} {number}").choice(left or [""])  # noqa: S311 (a seed's data)
    longer = f"{text} {drawn}".strip()
    return longer if len(longer.encode()) <= LONGEST_GUIDANCE else drawn


@dataclass
class Spent:
    """What a search used: runs, calls of models, and tokens (bytes of a scripted model) read and written."""

    runs: int = 0
    calls: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Budget:
    """What a search may use of one thing: runs, calls or tokens. It ends at its first step after that is used up."""

    of: Literal["runs", "calls", "tokens"]
    most: int

    def left(self, spent: Spent) -> int:
        """How much of it is left; 0 or less if it is used up."""
        used: int = getattr(spent, self.of)
        return self.most - used


@dataclass(frozen=True, slots=True)
class Played:
    """Whether the oracle passed a run, and what it did, a line for each step."""

    passed: bool
    did: str


@dataclass
class Player:
    """Plays instances of a site with an instruction, one after another, and counts what that takes."""

    desk: DeskKind
    client: EnvClient
    spent: Spent = field(default_factory=Spent)

    def play(self, text: str, seeds: Sequence[int], explores: float = EXPLORES) -> list[bool]:
        """Whether the oracle passed the run at each seed. Repeated runs draw otherwise."""
        return [each.passed for each in self.watch(text, seeds, explores)]

    def watch(self, text: str, seeds: Sequence[int], explores: float = EXPLORES) -> list[Played]:
        """Like `play`, with what each run did."""
        return [self._play(text, seed, explores) for seed in seeds]

    def _play(self, text: str, seed: int, explores: float) -> Played:
        task, executor = template_of(self.desk), agent(self.desk, explores)
        self.spent.runs += 1
        drawn = Assignment(
            task.instruction,
            (),
            task.max_steps,
            seed=self.spent.runs,
            temperature_micro=700_000,
            guidance=clean_text(text, LONGEST_GUIDANCE),
        )
        instance = self.client.reset(seed)
        try:
            done = executor.execute(drawn, instance)
            self.spent.calls += len(done.called)
            self.spent.tokens += sum((each.input_tokens or 0) + (each.output_tokens or 0) for each in done.called)
            passed = self.client.oracle(instance, task.oracle_task_id).passed
            return Played(passed, tell_run(done, task, passed=passed))
        finally:
            close_or_count(self.client, instance)


def tell_run(done: Execution, task: Template, *, passed: bool) -> str:
    """A run as the loop's own reflector reads it: each page and step, and what a failed run saw last."""
    seen = [call.request.messages[-1].text for call in done.called]
    pages = [PAGE.findall(text) for text in seen]
    moves = tuple(
        Move(each.step, found[-1] if found else "", not each.is_failed)
        for found, each in zip(pages, done.taken, strict=False)
    )
    run = Transcript("run", task.template_id, "group", passed, 0, moves, seen[-1] if seen else "")
    return "\n".join(run_lines(run, task.instruction))


def agent(desk: DeskKind, explores: float) -> PolicyExecutor:
    """The rule agent of a site, which follows its instruction."""
    task = template_of(desk)
    return PolicyExecutor(Scripted(Follower(task.plan_steps, task.instruction, explores)))


@contextmanager
def open_site(seed: int) -> Iterator[tuple[DeskKind, EnvClient]]:
    """The site that a seed draws, served until the end of the block."""
    desk = replace(draw_desk(seed, WORDS, TRIPLES), one_each=True)
    with serve_desk(desk) as site, EnvClient(site.admin_url, site.admin_token) as client:
        yield desk, client
