"""What a verdict asks of its figures: each check is met or not, and says so in words. Pure."""

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
    """One thing that a promotion takes."""

    is_met: bool
    words: str


def decide_verdict(voids: Sequence[str], checks: Sequence[PromotionCheck]) -> tuple[Decision, tuple[str, ...]]:
    """The decision, and all its reasons: what makes it void, else what failed, else what was met."""
    if voids:
        return "void", tuple(voids)
    failed = tuple(check.words for check in checks if not check.is_met)
    return ("hold", failed) if failed else ("promote", tuple(check.words for check in checks))


def check_minimum(what: str, actual: int, bound: int) -> PromotionCheck:
    """A figure in millionths reaches its bound."""
    is_met = actual >= bound
    return PromotionCheck(is_met, f"{what} {decimal(actual)} is {'at least' if is_met else 'below'} {decimal(bound)}")


def significant(tested: SignFlip | EProcessResult, alpha: int) -> PromotionCheck:
    """The deciding test, on the exact p. An e-process reaches 1 / alpha exactly where its p is at most alpha."""
    is_met = tested.p * MICRO <= alpha
    if isinstance(tested, EProcessResult):
        reached = decimal(int(tested.e_value * MICRO))
        bound = f"{'at least' if is_met else 'below'} 1 / {decimal(alpha)}"
        return PromotionCheck(is_met, f"e-value {reached} is {bound} after {count_noun(tested.looked_at, 'instance')}")
    bound = f"{'at most' if is_met else 'above'} the alpha {decimal(alpha)} of this challenger"
    return PromotionCheck(is_met, f"p {probability(pico(tested.p))} is {bound}")


def check_regressions(screened: int, confirmations: Sequence[Confirmation], rules: Rules) -> PromotionCheck:
    """No instance that looked worse is confirmed to be."""
    if not screened:
        return PromotionCheck(is_met=True, words="no sealed instance looked worse")
    found = [each.instance for each in confirmations if each.is_regression]
    lacking = sum(2 * rules.confirm_repeats - each.champion_runs - each.challenger_runs for each in confirmations)
    named = f": {', '.join(found)}" if found else ""
    against = f"; {count_noun(lacking, 'confirming run')} missing, counted against the challenger" if lacking else ""
    words = f"{len(found)} confirmed of {count_noun(screened, 'instance')} that looked worse{named}{against}"
    return PromotionCheck(not found, words)


def check_cost(champion: ArmSummary, challenger: ArmSummary, rules: Rules, compared: int) -> PromotionCheck:
    """The challenger's cost is at most so many times the champion's, over `compared` pairs of runs."""
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
