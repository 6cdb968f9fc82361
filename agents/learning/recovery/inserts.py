"""Missing steps: buttons, links and choices before or after a step that the plan does not use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from eventlog.events import InsertSteps, Step

from ...envs.clients.controls import Control
from ...envs.clients.pages import normalize_label
from ...plans import anchor_of
from .budgets import Budgets
from .failing import Failing
from .proposal import Proposal
from .sights import Sights, rank_controls, words_wanted

Where = Literal["before", "after"]
_LAST = 2


def missing_before(run: Failing, number: int, sights: Sights, budgets: Budgets) -> Iterator[Proposal]:
    """Insertions before the failed step: switches that the plan does not set, buttons, and links of its page alone."""
    shown, everywhere = sights.controls_after(run.before(number)), sights.everywhere()
    links = [each for each in shown if each.kind == "link" and each.label not in everywhere]
    wanted = words_wanted(run.turns[number].step)
    pressed = [each for each in shown if each.kind == "button"]
    for step in [
        *_switch_options(run, number, shown, budgets),
        *_press_buttons(pressed, wanted),
        *_press_buttons(links, wanted),
    ]:
        yield _insert(run, number, step, "before")


def missing_at_submits(run: Failing, sights: Sights, budgets: Budgets) -> Iterator[Proposal]:
    """Insertions beside the last submits of a run in which every step succeeded but the oracle failed it.

    Steps are inserted after the plan's last step only if that step changed its page.
    """
    for number in reversed(submits(run)[-_LAST:]):
        shown, step = sights.controls_after(run.before(number)), run.turns[number].step
        buttons = [
            each
            for each in shown
            if each.kind == "button" and normalize_label(each.label) != normalize_label(step.label or "")
        ]
        for missing in [*_switch_options(run, number, shown, budgets), *_press_buttons(buttons, words_wanted(step))]:
            yield _insert(run, number, missing, "before")
        if number == len(run.turns) - 1 and has_effect(run.before(number + 1), sights):
            buttons = [each for each in sights.controls_after(run.before(number + 1)) if each.kind == "button"]
            for missing in _press_buttons(buttons, words_wanted(step)):
                yield _insert(run, number, missing, "after")


def submits(run: Failing) -> list[int]:
    """Numbers of the submit steps; the last step's if there is none."""
    found = [number for number, each in enumerate(run.turns) if each.step.type == "submit"]
    return found or list(range(len(run.turns)))[-1:]


def has_effect(steps: tuple[Step, ...], sights: Sights) -> bool:
    """True if the last of these steps changed the text of the page."""
    before, after = sights.after(steps[:-1]), sights.after(steps)
    return before is not None and after is not None and before.text != after.text


def _switch_options(run: Failing, number: int, shown: tuple[Control, ...], budgets: Budgets) -> Iterator[Step]:
    """Yield steps that set another option of a switch in a step's form that the plan does not set, smallest first."""
    labels = {normalize_label(each.label) for each in run.plan if each.label is not None}
    label = normalize_label(run.turns[number].step.label or "")
    forms = {each.form for each in shown if normalize_label(each.label) == label and each.kind != "link"}
    switches = [
        each
        for each in shown
        if each.kind == "choice" and len(each.options) <= budgets.switch and normalize_label(each.label) not in labels
        if each.form in forms or not forms
    ]
    for switch in sorted(switches, key=lambda each: (len(each.options), each.label)):
        for option in switch.options:
            if option != switch.value:
                intent = f"choose {option} as {switch.label}"
                yield Step(type="select_option", intent=intent, label=switch.label, value=option, optional=True)


def _press_buttons(controls: list[Control], wanted: frozenset[str]) -> Iterator[Step]:
    for each in rank_controls(controls, wanted):
        if each.kind == "link":
            yield Step(type="click", intent=f"follow {each.label}", label=each.label, optional=True)
        else:
            yield Step(type="submit", intent=f"press {each.label}", label=each.label, optional=True)


def _insert(run: Failing, number: int, step: Step, where: Where) -> Proposal:
    place = run.turns[number].origin
    change = InsertSteps(steps=(step,), where=where)
    return Proposal(anchor_of(run.plan[place]), change, "page_controls", 500_000, mode="insert_steps", place=place)
