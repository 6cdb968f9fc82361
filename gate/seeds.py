"""The original gate of the seed documents: paired bootstrap, margin, win rate, regressions, cost. Pure.

Sealed instances decide. Repeats are averaged inside their instance, and instances have equal weight. A tie counts as
a win, and any number of challengers is judged by the same bounds. This gate is kept for its reference vectors and for
old verdicts that it decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eventlog.events import BenchmarkFrozen, Interval, Rules, Verdict

from .alpha import Alpha
from .arms import Arm, PairedInstance, Pairs, pairs
from .checks import PromotionCheck, check_cost, check_minimum, decide_verdict
from .figures import count_noun, decimal
from .stats import MICRO, average_repeats, bootstrap
from .summaries import cost_basis, mismatches, summaries


@dataclass(frozen=True, slots=True)
class _Figures:
    mean_delta: int
    interval: Interval
    prob_improvement: int
    win_rate: int
    regressions: tuple[str, ...]


def judge_as_seeds(champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules, spent: Alpha) -> Verdict:
    """Decide promote, hold or void by the bootstrap. Fields of tests with an alpha stay empty. Raises NoSamples."""
    compared, voids = _sealed_pairs(champion, challenger, benchmark, rules)
    figures = _figures(compared.instances, rules) if compared.instances else None
    basis = cost_basis(compared.instances, rules)
    first, second = summaries(champion, challenger, compared.instances, basis, _mean)
    checks = () if figures is None else (*_checks(figures, rules), check_cost(first, second, rules, len(basis)))
    decision, reasons = decide_verdict(voids, checks)
    return Verdict(
        decision=decision,
        reasons=reasons,
        benchmark=benchmark.digest,
        rules=rules,
        champion=first,
        challenger=second,
        pairs=len(compared.instances),
        missing=compared.missing,
        missing_p=None,
        alpha=spent.alpha,
        alpha_spent=spent.spent,
        p_value=None,
        draws=None,
        looked_at=None,
        e_value=None,
        mean_delta=figures.mean_delta if figures else None,
        interval=figures.interval if figures else None,
        prob_improvement=figures.prob_improvement if figures else None,
        win_rate=figures.win_rate if figures else None,
        wins=None,
        ties=None,
        losses=None,
        mcnemar=None,
        power=None,
        pairs_needed=None,
        screened=(),
        confirmations=(),
        regressions=figures.regressions if figures else (),
        strata=(),
        visible=None,
    )


def _sealed_pairs(
    champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules
) -> tuple[Pairs, tuple[str, ...]]:
    """The sealed pairs, none if the arms do not belong together, and the reasons for a void verdict."""
    compared = pairs(champion, challenger, benchmark, [task for task in benchmark.tasks if task.is_sealed])
    foreign = tuple(mismatches(champion, challenger, benchmark.digest))
    if foreign:
        return Pairs((), compared.planned, compared.planned), foreign
    return compared, tuple(_gaps(compared, rules))


def _mean(instances: Sequence[tuple[str, Sequence[int]]]) -> int:
    return average_repeats([repeats for _, repeats in instances]).mean()


def _gaps(compared: Pairs, rules: Rules) -> Iterator[str]:
    if not compared.instances:
        yield "the arms have no sealed pair to compare"
    if compared.missing * MICRO > rules.max_missing * compared.planned:
        yield (
            f"{compared.missing} of {compared.planned} sealed pairs are missing, "
            f"more than a share of {decimal(rules.max_missing)}"
        )


def _figures(instances: tuple[PairedInstance, ...], rules: Rules) -> _Figures:
    deltas = average_repeats([instance.deltas for instance in instances])
    resampled = bootstrap(deltas, rules.bootstrap_samples, rules.rng_seed)
    return _Figures(
        mean_delta=deltas.mean(),
        interval=resampled.interval,
        prob_improvement=resampled.prob_improvement,
        win_rate=deltas.share_at_least_zero(),
        regressions=tuple(instances[index].name for index in deltas.below(-rules.regression_tolerance)),
    )


def _checks(figures: _Figures, rules: Rules) -> tuple[PromotionCheck, ...]:
    return (
        check_minimum("mean difference", figures.mean_delta, rules.min_mean_delta),
        check_minimum("probability of improvement", figures.prob_improvement, rules.min_prob_improvement),
        check_minimum("win rate", figures.win_rate, rules.min_win_rate),
        _few_regressions(len(figures.regressions), rules),
    )


def _few_regressions(actual: int, rules: Rules) -> PromotionCheck:
    is_met = actual <= rules.max_regressions
    bound = f"{'at most' if is_met else 'more than'} the {rules.max_regressions} allowed"
    return PromotionCheck(
        is_met, f"{count_noun(actual, 'regression')} of more than {decimal(rules.regression_tolerance)}, {bound}"
    )
