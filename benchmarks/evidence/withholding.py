"""Simulates how long a promoted piece that does harm stays: groups of a sweep until withheld runs demote it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eventlog.events import PairedRule, Trials
from projections.evidence import Evidence, Paired, Trial, add_trial, is_better, is_spent, is_turning, rule_of

MOST_GROUPS = 4_000
PIECES = 5
"""Promoted pieces of the task, of which one does harm."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Withheld trials of the harmful piece and groups until its demotion, and other pieces demoted meanwhile."""

    trials: int
    groups: int
    others: int


def watch(rule: PairedRule, shares: Trials, base: float, harm: float, draws: np.random.RandomState) -> Delay:
    """One course of groups, each of which may withhold one piece; with all pieces runs pass at the rate `base`."""
    decides: Paired = rule_of(rule.model_dump(mode="json"))  # type: ignore[assignment]
    known, trials, others = [Evidence()] * PIECES, 0, 0
    for group in range(1, MOST_GROUPS + 1):
        suspects = [place for place, each in enumerate(known) if is_turning(each)]
        use = bool(suspects) and shares.suspect_micro is not None
        share = shares.suspect_micro if use and shares.suspect_micro is not None else shares.withheld_micro
        if draws.random_sample() * 1_000_000 >= share:
            continue
        place = suspects[draws.randint(len(suspects))] if use else draws.randint(PIECES)
        won = bool(draws.random_sample() < base + (harm if place == 0 else 0))
        trial = Trial(won=won, controls=rule.controls, successes=int(draws.binomial(rule.controls, base)), seed=group)
        after = add_trial(known[place], decides, trial)
        trials += place == 0
        if is_better(known[place], decides, after):
            if place == 0:
                return Delay(trials, group, others)
            others, after = others + 1, Evidence()
        known[place] = Evidence() if is_spent(decides, after) else after
    return Delay(trials, MOST_GROUPS, others)
