"""Conditions of a promotion: each check is met or not, with its reason in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eventlog.events import ArmSummary, Confirmation, Decision, FamilyCheck, Rules

from .counts import floor_pico, pico
from .eprocess import EProcessResult
from .figures import count_noun, decimal, dollars, probability
from .randomisation import SignFlip
from .sequential import LookResult
from .stats import MICRO, ceil_divide

Tested = SignFlip | EProcessResult | LookResult


@dataclass(frozen=True, slots=True)
class PromotionCheck:
    """One condition of a promotion and its reason in words."""

    is_met: bool
    words: str


def decide_verdict(voids: Sequence[str], checks: Sequence[PromotionCheck]) -> tuple[Decision, tuple[str, ...]]:
    """Return the decision and its reasons: the voids if there are any, else the failed checks, else the met ones."""
    if voids:
        return "void", tuple(voids)
    failed = tuple(check.words for check in checks if not check.is_met)
    return ("hold", failed) if failed else ("promote", tuple(check.words for check in checks))


def check_minimum(what: str, actual: int, bound: int) -> PromotionCheck:
    """Check that a figure in millionths is at least its bound."""
    is_met = actual >= bound
    return PromotionCheck(is_met, f"{what} {decimal(actual)} is {'at least' if is_met else 'below'} {decimal(bound)}")


def significant(tested: Tested, alpha: int) -> PromotionCheck:
    """Check that the exact p is at most alpha; for an e-process this means an e-value of at least 1 / alpha."""
    if isinstance(tested, LookResult):
        return _check_last_look(tested)
    is_met = tested.p * MICRO <= alpha
    if isinstance(tested, EProcessResult):
        reached = decimal(int(tested.e_value * MICRO))
        bound = f"{'at least' if is_met else 'below'} 1 / {decimal(alpha)}"
        return PromotionCheck(is_met, f"e-value {reached} is {bound} after {count_noun(tested.looked_at, 'instance')}")
    bound = f"{'at most' if is_met else 'above'} the alpha {decimal(alpha)} of this challenger"
    return PromotionCheck(is_met, f"p {probability(pico(tested.p))} is {bound}")


def _check_last_look(look: LookResult) -> PromotionCheck:
    """Check that the last look of a group sequential test rejected."""
    is_met = look.outcome == "reject"
    bound = "at most" if is_met else "above"
    why = ", too little to play on" if look.outcome == "futile" else ""
    where = f"at look {look.number} of {look.of}{why}"
    return PromotionCheck(
        is_met,
        f"p {probability(pico(look.p))} is {bound} the alpha {probability(floor_pico(look.spent))} spent {where}",
    )


def check_families(families: Sequence[FamilyCheck]) -> Iterator[PromotionCheck]:
    """Check that no template that looked worse is worse by its fresh repeats; nothing is said if none looked worse."""
    for each in families:
        lost = "is worse" if each.is_worse else "is not shown to be worse"
        played = f"{each.champion_runs} and {each.challenger_runs} fresh runs of the champion and the challenger"
        words = f"{each.template} looked worse and {lost} by {played}: p {probability(each.p_value)}"
        yield PromotionCheck(not each.is_worse, words)


def check_regressions(screened: int, confirmations: Sequence[Confirmation], rules: Rules) -> PromotionCheck:
    """Check that no instance that looked worse is a confirmed regression."""
    if not screened:
        bound = f" by more than {decimal(rules.tolerated_loss)}" if rules.tolerated_loss else ""
        return PromotionCheck(is_met=True, words=f"no sealed instance looked worse{bound}")
    found = [each.instance for each in confirmations if each.is_regression]
    lacking = sum(2 * rules.confirm_repeats - each.champion_runs - each.challenger_runs for each in confirmations)
    lacking = 0 if rules.curtails else lacking
    named = f": {', '.join(found)}" if found else ""
    against = f"; {count_noun(lacking, 'confirming run')} missing, counted against the challenger" if lacking else ""
    words = f"{len(found)} confirmed of {count_noun(screened, 'instance')} that looked worse{named}{against}"
    return PromotionCheck(not found, words)


def check_cost(champion: ArmSummary, challenger: ArmSummary, rules: Rules, compared: int) -> PromotionCheck:
    """Check that the challenger's cost over `compared` run pairs is at most `max_cost_ratio` times the champion's."""
    first, second = champion.compared_cost, challenger.compared_cost
    over = "" if rules.cost_basis == "all_pairs" else f" over the {count_noun(compared, 'pair')} that both passed"
    if compared == 0:
        return _within_budget(challenger, rules)
    if first is None:
        return PromotionCheck(is_met=True, words="costs are not compared: the champion's is unknown")
    if second is None:
        return PromotionCheck(
            is_met=False, words=f"the challenger's cost is unknown beside the champion's {dollars(first)}"
        )
    if first == 0:
        return PromotionCheck(is_met=True, words="costs are not compared: the champion cost nothing")
    is_met = second * MICRO <= first * rules.max_cost_ratio
    bound = f"{'at most' if is_met else 'more than'} {decimal(rules.max_cost_ratio)} times"
    return PromotionCheck(is_met, f"cost {dollars(second)} is {bound} the champion's {dollars(first)}{over}")


def _within_budget(challenger: ArmSummary, rules: Rules) -> PromotionCheck:
    """Check the challenger's own cost of a passed run, because there is no pair to compare costs over."""
    alone = "there is no pair that both arms passed"
    if not rules.pass_budget:
        return PromotionCheck(is_met=True, words=f"costs are not compared: {alone}")
    if challenger.cost is None or not challenger.passed:
        return PromotionCheck(is_met=False, words=f"{alone}, and the challenger's cost of a passed run is unknown")
    each = ceil_divide(challenger.cost, challenger.passed)
    is_met = each <= rules.pass_budget
    bound = f"{'at most' if is_met else 'more than'} the budget of {dollars(rules.pass_budget)}"
    return PromotionCheck(is_met, f"{alone}; a passed run of the challenger costs {dollars(each)}, {bound}")
