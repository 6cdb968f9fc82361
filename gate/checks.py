"""Conditions of a promotion: each check is met or not, with its reason in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eventlog.events import ArmSummary, Confirmation, Decision, Rules

from .counts import pico
from .eprocess import EProcessResult
from .figures import count_noun, decimal, dollars, probability
from .randomisation import SignFlip
from .stats import MICRO


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


def significant(tested: SignFlip | EProcessResult, alpha: int) -> PromotionCheck:
    """Check that the exact p is at most alpha; for an e-process this means an e-value of at least 1 / alpha."""
    is_met = tested.p * MICRO <= alpha
    if isinstance(tested, EProcessResult):
        reached = decimal(int(tested.e_value * MICRO))
        bound = f"{'at least' if is_met else 'below'} 1 / {decimal(alpha)}"
        return PromotionCheck(is_met, f"e-value {reached} is {bound} after {count_noun(tested.looked_at, 'instance')}")
    bound = f"{'at most' if is_met else 'above'} the alpha {decimal(alpha)} of this challenger"
    return PromotionCheck(is_met, f"p {probability(pico(tested.p))} is {bound}")


def check_regressions(screened: int, confirmations: Sequence[Confirmation], rules: Rules) -> PromotionCheck:
    """Check that no instance that looked worse is a confirmed regression."""
    if not screened:
        return PromotionCheck(is_met=True, words="no sealed instance looked worse")
    found = [each.instance for each in confirmations if each.is_regression]
    lacking = sum(2 * rules.confirm_repeats - each.champion_runs - each.challenger_runs for each in confirmations)
    named = f": {', '.join(found)}" if found else ""
    against = f"; {count_noun(lacking, 'confirming run')} missing, counted against the challenger" if lacking else ""
    words = f"{len(found)} confirmed of {count_noun(screened, 'instance')} that looked worse{named}{against}"
    return PromotionCheck(not found, words)


def check_cost(champion: ArmSummary, challenger: ArmSummary, rules: Rules, compared: int) -> PromotionCheck:
    """Check that the challenger's cost over `compared` run pairs is at most `max_cost_ratio` times the champion's."""
    first, second = champion.compared_cost, challenger.compared_cost
    over = "" if rules.cost_basis == "all_pairs" else f" over the {count_noun(compared, 'pair')} that both passed"
    if compared == 0:
        return PromotionCheck(is_met=True, words="costs are not compared: there is no pair that both arms passed")
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
