"""The part of the pages: tasks of MiniWoB++, their instances, and the browser that they are opened in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from agents.envs.miniwob.tabs import Tabs, open_tabs
from agents.envs.provider import Site
from agents.executors.miniwob.kit import open_in_tabs
from agents.models.model import Schema
from api.environments.connect import Placed
from api.house import House

from .clicks import clicks_on
from .effort import Effort
from .questions import FIRST_HELD_OUT
from .subject import HeldOut, Instances, Subject

CLICKED: Final = ("miniwob.click-button", "miniwob.click-tab")
"""The tasks that are trained on."""

OTHER: Final = "miniwob.click-dialog-2"
"""A task that nothing is trained on."""

_BUTTONS = ("submit", "okay", "ok", "yes", "no", "cancel", "next", "previous")
_LABELS = (*_BUTTONS, *map(str.capitalize, _BUTTONS), "Tab #1", "Tab #2", "Tab #3", "OK", "Close")
LABEL: Final = Schema("label", {"type": "string", "enum": list(_LABELS)})
"""What buttons and tabs of these tasks are called, and nothing else; few of them are on one page."""

_SEEDS_A_TRAINING_SEED = 1_400
_SEEDS_A_TASK = 4_200


def pages(effort: Effort) -> Subject:
    """The part of the pages. Raises ValueError if a training seed would run into the seeds of another."""
    needed = effort.asked + effort.rounds * effort.questions
    if needed > _SEEDS_A_TRAINING_SEED or max(effort.training_seeds) * _SEEDS_A_TRAINING_SEED > _SEEDS_A_TASK:
        raise ValueError(f"{needed} instances a training seed; expected at most {_SEEDS_A_TRAINING_SEED}")
    held_out = tuple(HeldOut(task, _held_out_seeds(number, effort.held_out)) for number, task in enumerate(CLICKED))
    other = HeldOut(OTHER, _held_out_seeds(len(CLICKED), effort.held_out_others))
    return Subject(
        name="pages",
        effort=effort,
        asked=lambda seed, part: training_seeds_of(effort, seed, part),
        columns={
            "held-out instances": held_out,
            **{each.task.removeprefix("miniwob."): (each,) for each in (*held_out, other)},
        },
        untrained=1,
        schema=LABEL,
        open_tasks=_open_tasks,
    )


def training_seeds_of(effort: Effort, training_seed: int, part: int) -> Instances:
    """Training instances of one training seed: part 0 is the base's sweep, then one part for each round.

    Their seeds lie below 9,000, where no benchmark has any, and those of the two tasks differ. The control's are the
    loop's.
    """
    many = effort.questions if part else effort.asked
    at = (training_seed - 1) * _SEEDS_A_TRAINING_SEED + (effort.asked + (part - 1) * effort.questions if part else 0)
    return {
        task: tuple(range(number * _SEEDS_A_TASK + at, number * _SEEDS_A_TASK + at + many))
        for number, task in enumerate(CLICKED)
    }


def _held_out_seeds(number: int, many: int) -> tuple[int, ...]:
    first = FIRST_HELD_OUT + 1_000 * number
    return tuple(range(first, first + many))


@contextmanager
def _open_tasks(house: House) -> Iterator[Mapping[str, Placed]]:
    with open_tabs(house.settings.browser) as tabs, ExitStack() as stack:
        yield {task: stack.enter_context(_open_page(task, tabs)) for task in (*CLICKED, OTHER)}


@contextmanager
def _open_page(task: str, tabs: Tabs) -> Iterator[Placed]:
    with open_in_tabs(task, tabs) as inside:
        clicked = replace(inside, opening=clicks_on(tabs))
        yield Placed(Site(task, tabs.origin, tabs.origin, ""), inside.environment, clicked)
