"""The rule agent, which only follows what it is told, on small generated sites. No model is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from agents.envs.clients.client import EnvClient
from agents.executors.policy import PolicyExecutor
from agents.models.scripted import Scripted
from benchmarks.demo_sites import FIRST_SEALED
from tests.desks.grammar import CONTROL, Combination, DeskKind, draw_desk
from tests.desks.serving import serve_desk
from tests.desks.site import template_of
from tests.desks.words import WORDS
from tests.followers import Follower

from .learning import Case

EXPLORES: Final = 0.35
"""Chance that the agent tries a control that it sees, where a step sends or failed: siblings then end differently."""

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


def _agent(desk: DeskKind, explores: float) -> PolicyExecutor:
    task = template_of(desk)
    return PolicyExecutor(Scripted(Follower(task.plan_steps, task.instruction, explores)))


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
