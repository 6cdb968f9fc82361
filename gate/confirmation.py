"""Confirms regressions: both arms repeat the instances that looked worse, `confirm_repeats` times each. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from eventlog.events import BenchmarkFrozen, Confirmation, Rules

from .arms import Arm, PairedInstance, Result, confirming_repeats
from .counts import fisher, pico
from .stats import MICRO


def confirmations_of(
    worse: Sequence[PairedInstance], champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules
) -> tuple[Confirmation, ...]:
    """Confirm each instance that looked worse: it regressed if Fisher's p is at most `confirm_p` / len(worse).

    A missing repeat counts against the challenger: as passed in the champion's arm, as failed in the challenger's. So
    missing runs cannot cause a promotion.
    """
    return tuple(_confirmation(each, len(worse), champion, challenger, benchmark, rules) for each in worse)


def _confirmation(
    instance: PairedInstance, screened: int, champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules
) -> Confirmation:
    first, second = (_results_of(arm, instance, benchmark, rules) for arm in (champion, challenger))
    first_passed, second_passed = (sum(result.passed for result in results) for results in (first, second))
    asked = rules.confirm_repeats
    p = fisher(asked - len(first) + first_passed, asked, second_passed, asked)
    return Confirmation(
        instance=instance.name,
        champion_runs=len(first),
        champion_passed=first_passed,
        challenger_runs=len(second),
        challenger_passed=second_passed,
        p_value=pico(p),
        is_regression=p * screened * MICRO <= rules.confirm_p,
    )


def _results_of(arm: Arm, instance: PairedInstance, benchmark: BenchmarkFrozen, rules: Rules) -> list[Result]:
    places = ((instance.template, instance.env_seed, repeat) for repeat in confirming_repeats(benchmark, rules))
    return [arm.confirming[place] for place in places if place in arm.confirming]
