"""Recovering: mode by mode, cheapest first, each change tried in the run's own instance before it is proposed.

It knows nothing of any site: all it goes by is the plan, and what the pages show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from eventlog.events import RecoveryDecided, RecoveryReason

from ...envs.clients.controls import offers
from ...models.model import Exchange, Model
from ..inspection import Inspector
from .addresses import other_addresses
from .budgets import BUDGETS, Budgets
from .failing import Failing
from .inserts import has_effect, missing_at_submits, missing_before, submits
from .model_proposal import ask, require_all_steps
from .proposal import Mode, Proposal
from .sights import Sights
from .targets import other_options, other_targets, ways_there

MODES: Final[tuple[Mode, ...]] = ("add_hint", "edit_step", "insert_steps")


@dataclass(frozen=True, slots=True)
class Recovered:
    """What recovery proposes, and how it came to that: a fact for each mode that tried something, or one halt.

    `exchange` is what a model was asked, where one was.
    """

    proposals: tuple[Proposal, ...]
    decided: tuple[RecoveryDecided, ...]
    exchange: Exchange | None = None


def recover(
    name: str, run: Failing, inspector: Inspector, budgets: Budgets = BUDGETS, model: Model | None = None
) -> Recovered:
    """Changes of a failed run's plan that were seen to work in its instance.

    "Works" means: the failed step can be done, and what the one after it needs is there. Where each step went well, the
    whole plan can be done again, and what it sends last changes the page at least as it did. The oracle is not asked:
    trials decide. A `model` is asked where nothing else worked and a look is left to try what it says. Where the site
    fails meanwhile, what was found before stands.
    """
    sights = Sights(inspector, budgets.looks)
    found: list[Proposal] = []
    decided: list[RecoveryDecided] = []
    for mode in MODES:
        tried, proposed = _try_mode(mode, run, sights, budgets, found)
        found += proposed
        decided += _decisions(name, mode, tried, proposed)
    exchange = None
    if not found and model is not None and sights.left:
        idea, exchange = ask(model, run, sights)
        found = [idea] if idea is not None and _holds(idea, run, sights) else []
        decided += [] if idea is None else _decisions(name, idea.mode, Counter({idea.place: 1}), found)
    if not found or sights.failed:
        decided.append(_halt(name, run, sights, sum(each.tried for each in decided)))
    return Recovered(tuple(found), tuple(decided), exchange)


def _decisions(name: str, mode: Mode, tried: Counter[int], proposed: list[Proposal]) -> Iterator[RecoveryDecided]:
    for place in sorted(tried):
        names = tuple(each.name for each in proposed if each.place == place)
        reason: RecoveryReason = "proposed" if names else "nothing_worked"
        yield RecoveryDecided(run=name, step=place, mode=mode, tried=tried[place], proposed=names, reason=reason)


def _try_mode(
    mode: Mode, run: Failing, sights: Sights, budgets: Budgets, before: list[Proposal]
) -> tuple[Counter[int], list[Proposal]]:
    """How often a mode tried something at each step of the plan, and what worked."""
    tried: Counter[int] = Counter()
    found: list[Proposal] = []
    names: set[str] = set()
    for candidate in _candidates(mode, run, sights, budgets):
        taken = [*before, *found]
        if len(taken) >= budgets.per_run or sights.left == 0:
            break
        is_full = sum(each.place == candidate.place for each in taken) >= budgets.per_step
        if is_full or candidate.name in names:
            continue
        names.add(candidate.name)
        tried[candidate.place] += 1
        if works(candidate, run, sights):
            found.append(candidate)
    return tried, found


def _candidates(mode: Mode, run: Failing, sights: Sights, budgets: Budgets) -> Iterator[Proposal]:
    """What a mode thinks of, best first, as long as it is asked for more."""
    match mode, run.at:
        case "add_hint", int(at):
            yield from other_targets(run, at, sights)
            yield from ways_there(run, at, sights, budgets)
        case "edit_step", int(at):
            yield from other_addresses(run, at, sights)
            yield from other_options(run, at, sights)
            if at:
                yield from other_addresses(run, at - 1, sights)
        case "insert_steps", int(at):
            yield from missing_before(run, at, sights, budgets)
        case "insert_steps", None:
            yield from missing_at_submits(run, sights, budgets)


def works(candidate: Proposal, run: Failing, sights: Sights) -> bool:
    """Whether a change does in the run's instance what it is for, as far as can be seen there."""
    steps, following = run.steps_with(candidate.piece)
    seen = sights.after(steps)
    if seen is None or seen.walked < len(steps):
        return False
    if run.at is not None:
        return following is None or following.optional or offers(seen.controls, following)
    last = submits(run)[-1]  # there is one, for a candidate was found beside it
    if has_effect(run.before(last + 1), sights):
        return True
    sent = max((number for number, step in enumerate(steps) if step == run.turns[last].step), default=0)
    return has_effect(steps[: sent + 1], sights)


def _holds(idea: Proposal, run: Failing, sights: Sights) -> bool:
    """Whether what a model made up changes the plan, can be done as it says, and works."""
    return run.overlay(idea.piece).plan != run.overlay(None).plan and works(require_all_steps(idea), run, sights)


def _halt(name: str, run: Failing, sights: Sights, tried: int) -> RecoveryDecided:
    at = -1 if run.at is None else run.at
    reason: RecoveryReason = "nothing_worked" if tried else "nothing_to_try"
    if sights.left == 0:
        reason = "site_failed" if sights.failed else "budget_used_up"
    place = run.turns[at].origin
    return RecoveryDecided(run=name, step=place, mode="halt", tried=tried, proposed=(), reason=reason)
