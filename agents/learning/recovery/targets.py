"""Alternative targets and options on the page of a step whose own is missing or leads to the wrong page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from eventlog.events import EditStep, Occasion, PreferTarget, Step

from ...envs.clients.controls import Control, ControlKind, offers
from ...envs.clients.pages import normalize_label
from ...plans import anchor_of
from ..piece_content import page_pattern
from .budgets import Budgets
from .failing import Failing
from .proposal import Proposal
from .sights import Sights, label_words, rank_controls, wanted_share, words_wanted

LEAST_SHARE: Final = 250_000
FEW: Final = 2
"""Most unnamed controls that are tried in turn if no control shares words with the step."""
KINDS: Final[dict[str, frozenset[ControlKind]]] = {
    "click": frozenset({"link"}),
    "submit": frozenset({"button"}),
    "fill_field": frozenset({"field"}),
    "select_option": frozenset({"choice", "box"}),
}
"""Kinds of the controls that a step can act on, by its type."""


def other_targets(run: Failing, number: int, sights: Sights) -> Iterator[Proposal]:
    """Hints for the failed step: controls of its page that share words with it, best first.

    If none does, the controls without a name are tried, unless there are more than FEW.
    """
    step = run.turns[number].step
    if step.type not in KINDS or not run.is_own(number):
        return
    wanted = words_wanted(step)
    others = rank_controls(_others(step, sights.controls_after(run.before(number))), wanted)
    alike = [each for each in others if wanted_share(each.label, wanted) >= LEAST_SHARE]
    nameless = [each for each in others if not each.is_named]
    for control in alike or (nameless if len(nameless) <= FEW else []):
        yield hint_for(run, number, sights, PreferTarget(label=control.label), 500_000 if alike else 400_000)


def ways_there(run: Failing, number: int, sights: Sights, budgets: Budgets) -> Iterator[Proposal]:
    """Hints for the click before the failed step: other links of its page that lead to the failed step's control."""
    before = number - 1
    if before < 0 or run.turns[before].step.type != "click" or not run.is_own(before):
        return
    failed = run.turns[number].step
    wanted = words_wanted(failed) | words_wanted(run.turns[before].step)
    known = sights.everywhere() | {run.turns[before].step.label or ""}
    ways: list[tuple[str, ...]] = [()]
    for depth in range(budgets.depth):
        further: list[tuple[str, ...]] = []
        for way in ways:
            shown = sights.controls_after(_steps_along(run, before, way))
            links = [each for each in shown if each.kind == "link" and each.label not in known]
            further += [(*way, link.label) for link in rank_controls(links, wanted)[: budgets.links]]
        there = [way for way in further if offers(sights.controls_after(_steps_along(run, before, way)), failed)]
        for way in there:
            change = PreferTarget(label=way[0], then=way[1:])
            yield hint_for(run, before, sights, change, 600_000 - 50_000 * depth)
        known = known | {label for way in further for label in way}
        ways = [way for way in further if way not in there]


def other_options(run: Failing, number: int, sights: Sights) -> Iterator[Proposal]:
    """Edits of a choice whose option is missing: options that share words with it, best first."""
    turn = run.turns[number]
    step = turn.step
    if step.type != "select_option" or not run.is_own(number):
        return
    wanted = label_words(step.value or "")
    for control in sights.controls_after(run.before(number)):
        if control.kind == "choice" and normalize_label(control.label) == normalize_label(step.label or ""):
            options = rank_controls((Control("choice", option) for option in control.options), wanted)
            for option in (each.label for each in options if wanted_share(each.label, wanted) >= LEAST_SHARE):
                edited = step.model_copy(update={"value": option})
                yield Proposal(
                    anchor_of(run.plan[turn.origin]),
                    EditStep(step=edited),
                    "page_controls",
                    500_000,
                    place=turn.origin,
                )


def _steps_along(run: Failing, number: int, way: tuple[str, ...]) -> tuple[Step, ...]:
    """Steps before the step with this number, then clicks on the links of a way."""
    clicks = (Step(type="click", intent=run.turns[number].step.intent, label=label) for label in way)
    return (*run.before(number), *clicks)


def _others(step: Step, shown: tuple[Control, ...]) -> Iterator[Control]:
    for each in shown:
        if each.kind in KINDS[step.type] and normalize_label(each.label) != normalize_label(step.label or ""):
            yield each


def hint_for(run: Failing, number: int, sights: Sights, change: PreferTarget, confidence: int) -> Proposal:
    """Proposal of a hint for the step with this number, on the page where it is taken."""
    turn = run.turns[number]
    seen = sights.after(run.before(number))
    occasion = Occasion(
        environment=run.environment,
        type=turn.step.type,
        intent=turn.step.intent,
        page="" if seen is None else page_pattern(seen.page),
    )
    return Proposal(
        anchor_of(run.plan[turn.origin]),
        change,
        "page_controls",
        confidence,
        mode="add_hint",
        occasion=occasion,
        place=turn.origin,
    )
