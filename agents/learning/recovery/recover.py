"""Recovery mode by mode, cheapest first; each change is tried in the run's own instance before it is proposed.

It has no knowledge of any site and uses only the plan and what the pages show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
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
from .sequences import has_no_such_control, sequences
from .sights import Sights
from .targets import other_options, other_targets, ways_there

MODES: Final[tuple[Mode, ...]] = ("add_hint", "edit_step", "insert_steps")


@dataclass(frozen=True, slots=True)
class Recovered:
    """Result of recovery: its proposals, and an event for each mode and step that was tried, or one halt.

    `exchange` is the call of a model, if one answered.
    """

    proposals: tuple[Proposal, ...]
    decided: tuple[RecoveryDecided, ...]
    exchange: Exchange | None = None


def recover(
    name: str, run: Failing, inspector: Inspector, budgets: Budgets = BUDGETS, model: Model | None = None
) -> Recovered:
    """Find changes of a failed run's plan that work in its instance.

    A change works if the failed step can be executed and the control for the next step is present. If every step had
    succeeded, the whole plan must execute, and a last submit that had changed nothing must now change its page. The
    oracle is not asked; trials decide. A `model` is asked if nothing else worked and a look is left to try its answer.
    If the site fails meanwhile, earlier proposals are kept.
    """
    kept = budgets.kept if budgets.looks > budgets.kept else 0
    sights = Sights(inspector, budgets.looks - kept)
    found: list[Proposal] = []
    decided: list[RecoveryDecided] = []
    for mode in MODES:
        tried, proposed = _try_candidates(_candidates(mode, run, sights, budgets), run, sights, budgets, found)
        found += proposed
        decided += _decisions(name, mode, Counter(each.place for each in tried), proposed)
    if not sights.failed:
        sights.left += kept
    if not found:
        tried, found = _try_sequences(run, sights, budgets)
        for mode in MODES:
            counted = Counter(each.place for each in tried if each.mode == mode)
            decided += _decisions(name, mode, counted, [each for each in found if each.mode == mode])
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


def _try_sequences(run: Failing, sights: Sights, budgets: Budgets) -> tuple[list[Proposal], list[Proposal]]:
    """The cures of several steps that were tried, and those of the first sort of which some worked."""
    tried: list[Proposal] = []
    for candidates in sequences(run, sights, budgets):
        more, found = _try_candidates(candidates, run, sights, budgets, [])
        tried += more
        if found:
            return tried, found
    return tried, []


def _try_candidates(
    candidates: Iterable[Proposal], run: Failing, sights: Sights, budgets: Budgets, before: list[Proposal]
) -> tuple[list[Proposal], list[Proposal]]:
    """The changes that were tried, and those of them that worked."""
    tried: list[Proposal] = []
    found: list[Proposal] = []
    names: set[str] = set()
    for candidate in candidates:
        taken = [*before, *found]
        if len(taken) >= budgets.per_run or sights.left == 0:
            break
        is_full = sum(each.place == candidate.place for each in taken) >= budgets.per_step
        if is_full or candidate.name in names:
            continue
        names.add(candidate.name)
        tried.append(candidate)
        if works(candidate, run, sights):
            found.append(candidate)
    return tried, found


def _candidates(mode: Mode, run: Failing, sights: Sights, budgets: Budgets) -> Iterator[Proposal]:
    """Yield the proposals of a mode, best first."""
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
    """True if a change works in the run's instance, as defined by `recover`."""
    steps, following = run.steps_with(candidate.piece)
    seen = sights.after(steps)
    if seen is None or seen.walked < len(steps):
        return False
    if run.at is not None:
        return following is None or following.optional or offers(seen.controls, following)
    last = submits(run)[-1]  # not empty, because the candidate was found beside a submit
    if has_effect(run.before(last + 1), sights):
        return True
    sent = max((number for number, step in enumerate(steps) if step == run.turns[last].step), default=0)
    return has_effect(steps[: sent + 1], sights)


def _holds(idea: Proposal, run: Failing, sights: Sights) -> bool:
    """True if a model's proposal changes the plan and works with mandatory steps."""
    return run.overlay(idea.piece).plan != run.overlay(None).plan and works(require_all_steps(idea), run, sights)


def _halt(name: str, run: Failing, sights: Sights, tried: int) -> RecoveryDecided:
    at = -1 if run.at is None else run.at
    reason: RecoveryReason = "nothing_worked" if tried else "nothing_to_try"
    if sights.failed:
        reason = "site_failed"
    elif has_no_such_control(run, sights):
        reason = "no_such_control"
    elif sights.left == 0:
        reason = "budget_used_up"
    place = run.turns[at].origin
    return RecoveryDecided(run=name, step=place, mode="halt", tried=tried, proposed=(), reason=reason)
