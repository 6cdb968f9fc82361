"""Evidence for one piece of memory: the sums of its trials, and the decisions of its rule. Pure.

A trial is one run that differs by the piece from m - 1 siblings of its instance. With w in {0, 1} for that run and s
successes among all m, U = sum(m*w - s) is the difference between the run and its siblings in units of 1/m, and
V = sum(s*(m - s)) its variance if the piece has no effect. All numbers are integers.

Beside the looks at U and V a rule may have a fast lane: an e-process of likelihood ratios. If the piece has no effect,
w is 1 with probability s / m given s; if it multiplies the odds by r, the likelihood ratio of a trial is
m * r^w / (m + (r - 1) * s), whatever the chance to pass is. The mean of the products for the rule's `odds` is the
e-value. Without an effect it ever reaches x with a chance of at most 1 / x (Ville's inequality).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

from msgspec.structs import replace

from .engine.decoders import convert
from .engine.projection import FoldState

Judgement = Literal["adopt", "give_up"]


class Seeds(FoldState, frozen=True, kw_only=True, tag="seeds", tag_field="name"):
    """See SeedsRule."""

    wins_to_promote: int
    losses_to_demote: int
    cold_after_days: int


class Paired(FoldState, frozen=True, kw_only=True, tag="paired", tag_field="name"):
    """See PairedRule."""

    controls: int
    looks: tuple[int, ...]
    least_v: int
    bound: int
    wins_in_a_row: int
    single: tuple[tuple[int, int], ...]
    single_trials: int
    cold_after_days: int
    unit: Literal["instance", "seed"] = "instance"
    odds: tuple[int, ...] = ()
    e_value: int = 0
    futile: tuple[tuple[int, int], ...] = ()


Rule = Seeds | Paired
_TURNS_FROM = 4
"""Fewest trials that can turn evidence: fewer say too little."""


class Evidence(FoldState, frozen=True, kw_only=True):
    """Sums over `k` trials: `u` and `v` as above, the current streak of wins (`streak`) and the longest (`longest`).

    `passed` counts the trials by s, from 0 to m; it is kept for rules with a fast lane. `seeds` are the seeds of the
    trials, in order; they are kept for rules whose unit is the seed.
    """

    k: int = 0
    wins: int = 0
    control_runs: int = 0
    control_successes: int = 0
    u: int = 0
    v: int = 0
    streak: int = 0
    longest: int = 0
    passed: tuple[int, ...] = ()
    seeds: tuple[int, ...] = ()

    @property
    def losses(self) -> int:
        """Trials whose run did not pass."""
        return self.k - self.wins


class Trial(FoldState, frozen=True, kw_only=True):
    """One trial: `won` if the tried run passed, and how many of its controls did. `seed` is that of its instance."""

    won: bool
    controls: int
    successes: int
    seed: int | None = None


def rule_of(record: dict[str, Any]) -> Rule:
    """Parse the rule from its form in the event."""
    found: Rule = convert(record, Rule)
    return found


def add_trial(evidence: Evidence, rule: Rule, trial: Trial) -> Evidence:
    """The evidence after one more trial under this rule."""
    w, runs = int(trial.won), trial.controls + 1
    s = trial.successes + w
    streak = evidence.streak + 1 if trial.won else 0
    return replace(
        evidence,
        k=evidence.k + 1,
        wins=evidence.wins + w,
        control_runs=evidence.control_runs + trial.controls,
        control_successes=evidence.control_successes + trial.successes,
        u=evidence.u + runs * w - s,
        v=evidence.v + s * (runs - s),
        streak=streak,
        longest=max(evidence.longest, streak),
        passed=_count_passed(evidence.passed, s, runs) if isinstance(rule, Paired) and rule.odds else (),
        seeds=_add_seed(evidence.seeds, trial.seed) if is_by_seed(rule) else (),
    )


def _count_passed(counts: tuple[int, ...], s: int, runs: int) -> tuple[int, ...]:
    known = counts or (0,) * (runs + 1)
    return (*known[:s], known[s] + 1, *known[s + 1 :])


def _add_seed(seeds: tuple[int, ...], seed: int | None) -> tuple[int, ...]:
    return seeds if seed is None else (*seeds, seed)


def is_by_seed(rule: Rule | None) -> bool:
    """True if the rule counts one trial at a seed: tasks at the same seed are not independent of one another."""
    return isinstance(rule, Paired) and rule.unit == "seed"


def is_trial(evidence: Evidence, rule: Rule, trial: Trial) -> bool:
    """True if the trial counts beside `evidence`: it has the controls and, where the rule asks for it, a new seed."""
    if isinstance(rule, Seeds):
        return True
    is_new = not is_by_seed(rule) or (trial.seed is not None and trial.seed not in evidence.seeds)
    return is_new and trial.controls == rule.controls


def e_value(evidence: Evidence, rule: Paired) -> Fraction:
    """The value of the fast lane's e-process; 1 without a trial that tells anything, and without a fast lane."""
    if not evidence.passed or not rule.odds:
        return Fraction(1)
    runs, telling = len(evidence.passed) - 1, evidence.passed[1:-1]
    won = evidence.wins - evidence.passed[-1]
    total = Fraction(0)
    for odds in rule.odds:
        below = 1
        for s, trials in enumerate(telling, start=1):
            below *= (runs + (odds - 1) * s) ** trials
        total += Fraction(odds**won * runs ** sum(telling), below)
    return total / len(rule.odds)


def judge_adoption(before: Evidence, rule: Paired, after: Evidence) -> Judgement | None:
    """The decision on a candidate given `after`, which has one trial more than `before`; None: continue trials."""
    if after.longest >= rule.wins_in_a_row and is_better(before, rule, after):
        return "adopt"
    return "give_up" if is_spent(rule, after) or is_futile(rule, after) else None


def is_futile(rule: Paired, after: Evidence) -> bool:
    """True if `after` is a place where the rule gives up a piece that is unlikely to be promoted later."""
    least = dict(rule.futile).get(after.k)
    return least is not None and (after.u <= 0 or 100 * after.u**2 < least * after.v)


def is_better(before: Evidence, rule: Paired, after: Evidence) -> bool:
    """True if the tried runs did significantly better than their siblings, at a look or by the fast lane."""
    return _is_better_at_look(before, rule, after) or (bool(rule.odds) and e_value(after, rule) >= rule.e_value)


def is_turning(evidence: Evidence) -> bool:
    """True if the tried runs did better than their siblings so far, by about a standard error or more."""
    return evidence.k >= _TURNS_FROM and evidence.u > 0 and evidence.u**2 >= evidence.v


def _is_better_at_look(before: Evidence, rule: Paired, after: Evidence) -> bool:
    if rule.controls == 1:
        won = (after.v + after.u) // 2
        return after.v > before.v and any(after.v == pairs and won >= least for pairs, least in rule.single)
    is_look = after.k in rule.looks
    return is_look and after.u > 0 and after.v >= rule.least_v and after.k * after.u**2 >= rule.bound * after.v


def is_spent(rule: Paired, after: Evidence) -> bool:
    """True if the last look has been reached."""
    if rule.controls > 1:
        return after.k >= rule.looks[-1]
    return after.k >= rule.single_trials or after.v >= max((pairs for pairs, _ in rule.single), default=0)


def next_look(evidence: Evidence, rule: Paired) -> int | None:
    """Number of trials (with one control: of discordant pairs) at the next look, or None."""
    places = [pairs for pairs, _ in rule.single] if rule.controls == 1 else list(rule.looks)
    reached = evidence.v if rule.controls == 1 else evidence.k
    return next((place for place in places if place > reached), None)
