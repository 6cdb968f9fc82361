"""Cures of several steps, for runs that no single change cures: ways to the failed step, and settings of its form."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from eventlog.events import EditStep, InsertSteps, PreferTarget, Step

from ...envs.clients.controls import Control, offers
from ...envs.clients.pages import normalize_label
from ...plans import Plan, anchor_of
from .budgets import Budgets
from .failing import Failing
from .inserts import has_effect, submits
from .proposal import Mode, Proposal
from .sights import START, Sights, wanted_share, words_wanted
from .targets import KINDS, hint_for
from .ways import PagePath, find_ways, form_settings, like_controls

SETTINGS = 2
"""Most settings of the failed step's form that are combined."""


def sequences(run: Failing, sights: Sights, budgets: Budgets) -> Iterator[Iterator[Proposal]]:
    """Proposals of two steps and more, and of single ones that the modes leave out, by sort, cheapest first."""
    if run.at is None:
        for number in reversed(submits(run)[-1:]):
            yield _settings(run, number, sights, budgets)
            yield _after_the_last(run, number, sights, budgets)
        return
    failed = run.turns[run.at].step
    if failed.type == "navigate":
        yield _instead_of_opening(run, run.at, sights, budgets)
        return
    yield _like_targets(run, run.at, sights)
    if failed.type == "submit":
        yield _settings(run, run.at, sights, budgets)
    yield _ways_before(run, run.at, sights, budgets)
    yield _ways_instead(run, run.at, sights, budgets)


def has_no_such_control(run: Failing, sights: Sights) -> bool:
    """True if the failed step names a control, and its page has none of that kind whose name shares a word with it."""
    if run.at is None:
        return False
    step = run.turns[run.at].step
    kinds, wanted = KINDS.get(step.type, frozenset()), words_wanted(step)
    seen = sights.known_after(run.before(run.at))
    if not kinds or seen is None or offers(seen.controls, step):
        return False
    return not any(wanted_share(each.label, wanted) for each in seen.controls if each.kind in kinds)


def _like_targets(run: Failing, number: int, sights: Sights) -> Iterator[Proposal]:
    """Hints for the failed step: controls of its page with a name like its own."""
    failed, kinds = run.turns[number].step, KINDS.get(run.turns[number].step.type, frozenset())
    if run.is_own(number):
        for control in like_controls(sights.controls_after(run.before(number)), failed, kinds, words_wanted(failed)):
            yield hint_for(run, number, sights, PreferTarget(label=control.label), 300_000)


def _settings(run: Failing, number: int, sights: Sights, budgets: Budgets) -> Iterator[Proposal]:
    """One and two settings of a submit's form that the plan leaves alone, also if its button is called otherwise.

    In a run in which every step succeeded, only settings count that change the page where it ends.
    """
    step, shown = run.turns[number].step, sights.controls_after(run.before(number))
    button = _button_for(run, number, shown)
    if button is None:
        return
    planned = {normalize_label(each.label) for each in run.plan if each.label is not None}
    free = [each for each in shown if each.form == button.form and normalize_label(each.label) not in planned]
    found = list(form_settings(free, _plan_words(run), budgets))
    singles = [each for each in found if len(each) == 1]
    pairs = [one + other for one, other in combinations(singles, SETTINGS) if one[0].label != other[0].label]
    is_renamed = normalize_label(button.label) != normalize_label(step.label or "")
    for steps in [*found, *pairs]:
        if is_renamed:
            yield _replacement(run, number, (*steps, step.model_copy(update={"label": button.label})))
        elif run.at is not None or _ends_otherwise(run, _insertion(run, number, steps), sights):
            yield _insertion(run, number, steps)


def _button_for(run: Failing, number: int, shown: tuple[Control, ...]) -> Control | None:
    """The button that a submit names, else the likeliest that shares words with it."""
    step = run.turns[number].step
    own, buttons = normalize_label(step.label or ""), [each for each in shown if each.kind == "button"]
    named = next((each for each in buttons if normalize_label(each.label) == own), None)
    if named is not None or not run.is_own(number):
        return named
    return next(iter(like_controls(shown, step, KINDS["submit"], words_wanted(step))), None)


def _ends_otherwise(run: Failing, proposal: Proposal, sights: Sights) -> bool:
    """True if the run would end on another text with the proposal."""
    before = sights.after(run.before(len(run.turns)))
    after = sights.after(run.steps_with(proposal.piece)[0])
    return before is not None and after is not None and before.text != after.text


def _after_the_last(run: Failing, number: int, sights: Sights, budgets: Budgets) -> Iterator[Proposal]:
    """Insertions of a way after the plan's last step, if that step changed its page."""
    if number == len(run.turns) - 1 and has_effect(run.before(number + 1), sights):
        for way in find_ways(run.before(number + 1), _plan_words(run), sights, budgets):
            if any(each.type == "submit" for each in way.steps):
                yield _insertion(run, number, way.steps, is_after=True)


def _ways_before(run: Failing, number: int, sights: Sights, budgets: Budgets) -> Iterator[Proposal]:
    """Ways from the failed step's page to another one that offers its control, or one that is called otherwise."""
    failed = run.turns[number].step
    for way in find_ways(run.before(number), words_wanted(failed) | _plan_words(run), sights, budgets):
        if offers(way.seen.controls, failed):
            yield _insertion(run, number, way.steps)
        elif run.is_own(number):
            yield from _other_controls(run, number, way)


def _other_controls(run: Failing, number: int, way: PagePath) -> Iterator[Proposal]:
    """The way, and then the failed step on a control that shares words with its own."""
    failed, wanted = run.turns[number].step, words_wanted(run.turns[number].step)
    others = like_controls(way.seen.controls, failed, KINDS.get(failed.type, frozenset()), wanted)
    for control in others[:1]:
        last = failed.model_copy(update={"label": control.label})
        yield _replacement(run, number, (*way.steps, last))


def _ways_instead(run: Failing, number: int, sights: Sights, budgets: Budgets) -> Iterator[Proposal]:
    """Other ways than the click before the failed step; a way of links alone is a hint."""
    before = number - 1
    if before < 0 or run.turns[before].step.type != "click" or not run.is_own(before):
        return
    failed, own = run.turns[number].step, run.turns[before].step
    for way in find_ways(run.before(before), words_wanted(failed) | words_wanted(own), sights, budgets):
        labels = tuple(each.label or "" for each in way.steps)
        is_own_way = normalize_label(own.label or "") in normalize_label(labels[0])
        if is_own_way or not offers(way.seen.controls, failed):
            continue
        if all(each.type == "click" for each in way.steps):
            yield hint_for(run, before, sights, PreferTarget(label=labels[0], then=labels[1:]), 400_000)
        else:
            yield _replacement(run, before, way.steps)


def _instead_of_opening(run: Failing, number: int, sights: Sights, budgets: Budgets) -> Iterator[Proposal]:
    """Ways from the first page, instead of an address that does not open."""
    if not run.is_own(number):
        return
    step = run.turns[number].step
    following = run.turns[number + 1].step if number + 1 < len(run.turns) else None
    wanted = words_wanted(step) | (frozenset() if following is None else words_wanted(following))
    opened = START.model_copy(update={"intent": f"open the first page, to {step.intent}"})
    for way in find_ways((*run.before(number), opened), wanted, sights, budgets):
        if following is None or offers(way.seen.controls, following):
            yield _replacement(run, number, (opened, *way.steps))


def _plan_words(run: Failing) -> frozenset[str]:
    return frozenset().union(*(words_wanted(step) for step in run.plan))


def _insertion(run: Failing, number: int, steps: Plan, *, is_after: bool = False) -> Proposal:
    change = InsertSteps(steps=steps, where="after" if is_after else "before")
    return _proposal(run, run.turns[number].origin, change, "insert_steps", len(steps))


def _replacement(run: Failing, number: int, steps: tuple[Step, ...]) -> Proposal:
    change = EditStep(step=steps[0], then=steps[1:])
    return _proposal(run, run.turns[number].origin, change, "edit_step", len(steps))


def _proposal(run: Failing, place: int, change: InsertSteps | EditStep, mode: Mode, steps: int) -> Proposal:
    confidence = max(100_000, 500_000 - 100_000 * steps)
    return Proposal(anchor_of(run.plan[place]), change, "page_controls", confidence, mode=mode, place=place)
