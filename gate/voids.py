"""Reasons that make a verdict void because too few pairs can be compared. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from eventlog.events import Rules

from .arms import Pairs
from .counts import pico, sign_test
from .figures import count_noun, decimal, probability
from .stats import MICRO, ceil_divide


def missing_p(compared: Pairs, rules: Rules) -> Fraction:
    """Two-sided p of the sign test that both arms lack runs equally often.

    Where lost runs are played again, every lost run counts: an arm gains nothing by losing what it would fail.
    """
    if rules.replays:
        return sign_test(compared.champion_lost, compared.challenger_lost)
    return sign_test(compared.champion_missing, compared.challenger_missing)


def count_units(compared: Pairs, rules: Rules) -> int:
    """Number of independent units among the compared instances."""
    found = compared.instances
    return len({each.env_seed for each in found}) if rules.unit == "seed" else len(found)


def gaps(compared: Pairs, rules: Rules, share: int = MICRO) -> Iterator[str]:
    """Reasons for a void verdict: too few units, too many missing pairs, or unequally missing pairs.

    `share` is the part of all units that was looked at, in millionths; as large a part of the least number suffices.
    """
    units, least = count_units(compared, rules), max(1, ceil_divide(rules.min_pairs * share, MICRO))
    if units < least:
        is_seed = units < len(compared.instances)
        yield f"{count_noun(units, 'sealed seed' if is_seed else 'sealed instance')} to compare, fewer than {least}"
    if compared.missing * MICRO > rules.max_missing * compared.planned:
        yield (
            f"{compared.missing} of {compared.planned} sealed pairs are missing, "
            f"more than a share of {decimal(rules.max_missing)}"
        )
    p = missing_p(compared, rules)
    if p * MICRO < rules.max_missing_p:
        yield f"{_unequal(compared, rules)}: p {probability(pico(p))} is below {decimal(rules.max_missing_p)}"


def _unequal(compared: Pairs, rules: Rules) -> str:
    if rules.replays:
        return (
            f"{compared.champion_lost} runs of the champion and {compared.challenger_lost} of the challenger were lost"
        )
    return f"the champion lacks {compared.champion_missing} pairs and the challenger {compared.challenger_missing}"
