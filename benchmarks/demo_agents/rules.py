"""The rule agent, which only follows what it is told, on small generated sites. No model is called."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from agents.envs.clients.client import EnvClient
from agents.executors.policy import PolicyExecutor
from agents.models.model import CompletionRequest
from agents.models.scripted import Scripted
from benchmarks.demo_sites import FIRST_SEALED
from tests.desks.grammar import CHANCE, CONTROL, Combination, DeskKind, draw_desk
from tests.desks.serving import serve_desk
from tests.desks.site import template_of
from tests.desks.words import WORDS
from tests.followers import Follower, answer, read_conversation

from .learning import Case

EXPLORES: Final = 0.35
"""Chance that the agent tries a control that it sees, where a step sends or failed: siblings then end differently."""

READS: Final = 0.5
"""Chance that the agent reads the news where chance alone decides."""

_FIRST: Final = ("Old", "New", "Open", "Shared", "Local", "Daily", "Weekly", "Public", "Short", "Long", "Early", "Late")
_SECOND: Final = tuple(
    f"{topic} {form}"
    for topic in ("town", "river", "market", "school", "garden", "station", "harbour")
    for form in ("report", "notice", "letter", "summary", "list", "calendar")
)

CASES: Final[tuple[Combination, ...]] = (
    ("gate page",),
    ("renamed control",),
    ("missing prerequisite",),
    ("extra confirmation",),
    CONTROL,
)


def drawn_desks(seed: int, *, is_short: bool) -> list[DeskKind]:
    """A site for each obstacle and the control, as the seed draws them; of the short form one and the control."""
    cases = [case for case in CASES if not is_short or case in {CASES[0], CONTROL}]
    return [draw_desk(1_000 * seed + number, WORDS, [each]) for number, each in enumerate(cases)]


@contextmanager
def open_desk(desk: DeskKind) -> Iterator[Case]:
    """Serve a site, and yield its task for the rule agent. On sealed seeds it tries nothing: it does what it knows."""
    with serve_desk(desk) as site, EnvClient(site.admin_url, site.admin_token) as client:
        yield Case(
            obstacle=" and ".join(desk.obstacles),
            site=desk.words.site,
            task=template_of(desk),
            environment=client,
            learner=_agent(desk, EXPLORES),
            knower=_agent(desk, 0.0),
            pool=lessons_of(desk),
            sealed_from=FIRST_SEALED,
            is_control=desk.obstacles == CONTROL,
        )


def chance_desk(seed: int, luck: int = 0) -> DeskKind:
    """A site where chance alone decides whether a run passes, with draws of its own for each `luck`."""
    return replace(draw_desk(seed, WORDS, [CHANCE]), luck=luck)


@contextmanager
def open_chance(desk: DeskKind) -> Iterator[Case]:
    """The task of such a site, with a pool of sentences that do nothing, and an agent that sometimes reads the news.

    That matters to no run, so whatever is learned from siblings that ended differently does nothing, too, and wins by
    chance alone.
    """
    with open_desk(desk) as case:
        task = case.task
        rule = Reader(Follower(task.plan_steps, task.instruction), (*desk.words.branches, *desk.words.tabs))
        yield replace(case, learner=PolicyExecutor(Scripted(rule)), pool=lessons_of_nothing(), is_control=True)


@dataclass(frozen=True, slots=True)
class Reader:
    """An agent that after its first step, on the first page, may follow a link to news, and then goes its way."""

    follower: Follower
    links: tuple[str, ...]

    def __call__(self, request: CompletionRequest) -> str:
        """The next action."""
        rng = random.Random(f"{request.sampling.seed} news")  # noqa: S311 (a rule)
        is_new = len(read_conversation(request, self.follower.instruction).done) == 1
        if is_new and rng.random() < READS:
            return answer(f"follow the link '{rng.choice(self.links)}'")
        return self.follower(request)


def _agent(desk: DeskKind, explores: float) -> PolicyExecutor:
    task = template_of(desk)
    return PolicyExecutor(Scripted(Follower(task.plan_steps, task.instruction, explores)))


def lessons_of_nothing() -> tuple[str, ...]:
    """Different sentences about a page that no link leads to."""
    return tuple(f"On /archive: follow the link '{first} {second}'." for first, second in product(_FIRST, _SECOND))


def lessons_of(desk: DeskKind) -> tuple[str, ...]:
    """Sentences that a model might propose on a site, at most one of which helps there."""
    words = desk.words
    send = f"before you press the button '{words.send}': "
    return (
        "Open /news, then follow the link 'News'.",
        f"{send}choose 'checked' at '{words.prerequisite}'.",
        f"Press the button '{words.renamed}', not: press the button '{words.send}'.",
        f"After you press the button '{words.send}': press the button '{words.confirm[1]}'.",
        (
            f"Before you write 'Alex Morgan' into '{words.who}': choose 'checked' at '{words.gate[0]}', then press the "
            f"button '{words.gate[1]}'."
        ),
    )
