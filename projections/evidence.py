"""Evidence for one piece of memory: the sums of its trials, and the decisions of its rule. Pure.

A trial is one run that differs by the piece from m - 1 siblings of its instance. With w in {0, 1} for that run and s
successes among all m, U = sum(m*w - s) is the difference between the run and its siblings in units of 1/m, and
V = sum(s*(m - s)) its variance if the piece has no effect. All numbers are integers.
"""

from __future__ import annotations

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


Rule = Seeds | Paired


class Evidence(FoldState, frozen=True, kw_only=True):
    """Sums over `k` trials: `u` and `v` as above, the current streak of wins (`streak`) and the longest (`longest`)."""

    k: int = 0
    wins: int = 0
    control_runs: int = 0
    control_successes: int = 0
    u: int = 0
    v: int = 0
    streak: int = 0
    longest: int = 0

    @property
    def losses(self) -> int:
        """Trials whose run did not pass."""
        return self.k - self.wins


class Trial(FoldState, frozen=True, kw_only=True):
    """One trial: `won` if the tried run passed, and how many of its controls did."""

    won: bool
    controls: int
    successes: int


def rule_of(record: dict[str, Any]) -> Rule:
    """Parse the rule from its form in the event."""
    found: Rule = convert(record, Rule)
    return found


def add_trial(evidence: Evidence, trial: Trial) -> Evidence:
    """The evidence after one more trial."""
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
    )


def is_trial(rule: Rule, trial: Trial) -> bool:
    """True if the trial has the number of controls that the rule requires."""
    return isinstance(rule, Seeds) or trial.controls == rule.controls


def judge_adoption(before: Evidence, rule: Paired, after: Evidence) -> Judgement | None:
    """The decision on a candidate given `after`, which has one trial more than `before`; None: continue trials."""
    if after.longest >= rule.wins_in_a_row and is_better(before, rule, after):
        return "adopt"
    return "give_up" if is_spent(rule, after) else None


def is_better(before: Evidence, rule: Paired, after: Evidence) -> bool:
    """True if `after` is a look at which the tried runs did significantly better than their siblings."""
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
