"""Ways of several steps to a page on which a failed step can be done, searched for with the cheapest first.

A way follows links, presses buttons, and before a button sets boxes and choices of its form. Its cost falls with the
words that each of its controls shares with what the plan is looking for, so that a likely way is tried at greater
depth before an unlikely one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from eventlog.events import Step

from ...envs.clients.controls import Control
from ...envs.clients.pages import normalize_label
from ...plans import Plan
from ..inspection import Inspection
from .budgets import Budgets
from .likeness import likeness
from .sights import MICRO, START_PAGE, Sights

STEP_COST = MICRO // 2
LEAST_COST = MICRO // 20
LEAST_LIKENESS = MICRO // 4
MOST_SETTINGS = 3
"""Most boxes of a form that are set together."""


@dataclass(frozen=True, slots=True)
class PagePath:
    """Steps from a page, and what is seen at their end."""

    steps: Plan
    cost: int
    seen: Inspection


@dataclass(order=True, slots=True)
class _Next:
    """A way that was not walked yet; ways of equal cost are ordered by their labels."""

    cost: int
    names: tuple[str, ...]
    steps: Plan = field(compare=False)


def find_ways(begin: Plan, wanted: frozenset[str], sights: Sights, budgets: Budgets) -> Iterator[PagePath]:
    """Yield the ways from the page after the steps of `begin` that lead to another text, cheapest first.

    Each takes one inspection; the search ends when none is left, or with the last way of `budgets.way` steps.
    """
    seen = sights.after(begin)
    if seen is None or seen.outcome != "ok":
        return
    known, waiting = {seen.text}, list[_Next]()
    _extend(waiting, (), 0, seen, wanted, sights, budgets)
    while waiting:
        each = heappop(waiting)
        found = sights.after((*begin, *each.steps))
        if found is None:
            return
        if found.outcome != "ok" or found.text in known:
            continue
        known.add(found.text)
        yield PagePath(each.steps, each.cost, found)
        _extend(waiting, each.steps, each.cost, found, wanted, sights, budgets)


def _extend(
    waiting: list[_Next],
    steps: Plan,
    cost: int,
    seen: Inspection,
    wanted: frozenset[str],
    sights: Sights,
    budgets: Budgets,
) -> None:
    """Add the ways that go one control further, with the settings of its form."""
    everywhere = frozenset() if seen.page == START_PAGE else sights.everywhere()
    shown = [each for each in seen.controls if each.kind != "link" or each.label not in everywhere]
    moves = [*_moves(shown, wanted, budgets)]
    for more in sorted(moves, key=lambda each: (_cost(each, wanted), _names(each)))[: 2 * budgets.links]:
        if len(steps) + len(more) <= budgets.way:
            longer = (*steps, *more)
            heappush(waiting, _Next(cost + _cost(more, wanted), _names(longer), longer))


def _moves(shown: list[Control], wanted: frozenset[str], budgets: Budgets) -> Iterator[Plan]:
    """A link; a button; a button after settings of its form."""
    for each in shown:
        if each.kind == "link":
            yield (follow(each),)
        elif each.kind == "button":
            press = press_button(each)
            yield (press,)
            for settings in form_settings([other for other in shown if other.form == each.form], wanted, budgets):
                yield (*settings, press)


def form_settings(shown: list[Control], wanted: frozenset[str], budgets: Budgets) -> Iterator[Plan]:
    """Settings of a form: all its boxes checked, each box, and each other option of each choice, likeliest first."""
    boxes = [
        set_option(each, each.options[0]) for each in shown if each.kind == "box" and each.value != each.options[0]
    ]
    if 1 < len(boxes) <= MOST_SETTINGS:
        yield tuple(boxes)
    yield from ((each,) for each in boxes[: budgets.links])
    for choice in (each for each in shown if each.kind == "choice"):
        others = [option for option in choice.options if option != choice.value]
        for option in sorted(others, key=lambda each: -likeness(each, wanted))[: budgets.links]:
            yield (set_option(choice, option),)


def follow(link: Control) -> Step:
    """The step that follows a link, if it is there."""
    return Step(type="click", intent=f"follow {link.label}", label=link.label, optional=True)


def press_button(button: Control) -> Step:
    """The step that presses a button, if it is there."""
    return Step(type="submit", intent=f"press {button.label}", label=button.label, optional=True)


def set_option(choice: Control, option: str) -> Step:
    """The step that chooses an option, if there is such a choice."""
    intent = f"choose {option} as {choice.label}"
    return Step(type="select_option", intent=intent, label=choice.label, value=option, optional=True)


def like_controls(
    shown: tuple[Control, ...], step: Step, kinds: frozenset[str], wanted: frozenset[str]
) -> list[Control]:
    """Controls that could stand for the step's own under another name, likeliest first, down to LEAST_LIKENESS."""
    own = normalize_label(step.label or "")
    found = [each for each in shown if each.kind in kinds and normalize_label(each.label) != own]
    alike = [each for each in found if likeness(each.label, wanted) >= LEAST_LIKENESS]
    return sorted(alike, key=lambda each: (-likeness(each.label, wanted), each.label))


def _cost(move: Plan, wanted: frozenset[str]) -> int:
    """Cost of the steps that a move adds."""
    return sum(max(LEAST_COST, STEP_COST - likeness(f"{each.label} {each.value or ''}", wanted) // 2) for each in move)


def _names(steps: Plan) -> tuple[str, ...]:
    return tuple(f"{each.label or ''} {each.value or ''}" for each in steps)
