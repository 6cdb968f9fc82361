"""Reasons that make a verdict void because too few pairs can be compared. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from eventlog.events import Rules

from .arms import Pairs
from .counts import pico, sign_test
from .figures import count_noun, decimal, probability
from .stats import MICRO


def missing_p(compared: Pairs) -> Fraction:
    """Two-sided p of the sign test that both arms lack pairs equally often."""
    return sign_test(compared.champion_missing, compared.challenger_missing)


def gaps(compared: Pairs, rules: Rules) -> Iterator[str]:
    """Reasons for a void verdict: too few instances, too many missing pairs, or unequally missing pairs."""
    instances = len(compared.instances)
    if instances < rules.min_pairs or not instances:
        yield f"{count_noun(instances, 'sealed instance')} to compare, fewer than {max(1, rules.min_pairs)}"
    if compared.missing * MICRO > rules.max_missing * compared.planned:
        yield (
            f"{compared.missing} of {compared.planned} sealed pairs are missing, "
            f"more than a share of {decimal(rules.max_missing)}"
        )
    p = missing_p(compared)
    if p * MICRO < rules.max_missing_p:
        yield (
            f"the champion lacks {compared.champion_missing} pairs and the challenger {compared.challenger_missing}: "
            f"p {probability(pico(p))} is below {decimal(rules.max_missing_p)}"
        )
