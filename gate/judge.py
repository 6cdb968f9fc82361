"""Two arms and the rules to a verdict. Pure.

Sealed instances decide. Repeats are averaged inside their instance, and every instance counts the same. All figures of
a verdict, costs and passed runs included, are over the pairs that both arms have. `Verdict.pairs` counts instances,
`ArmSummary.runs` counts (instance, repeat) pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eventlog.events import ArmSummary, Artifact, BenchmarkFrozen, Interval, Rules, Verdict

from .arms import Arm, PairedInstance, Pairs, Result, pairs
from .figures import counted, decimal, dollars
from .stats import MICRO, averaged, bootstrap, wilson


@dataclass(frozen=True, slots=True)
class _Figures:
    mean_delta: int
    interval: Interval
    prob_improvement: int
    win_rate: int
    regressions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Check:
    is_met: bool
    words: str


def judge(champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules) -> Verdict:
    """Promote, hold or void, with every reason. Raises NoSamples where the rules ask for no bootstrap samples.

    Void: the arms are not the two of one evaluation of this benchmark, have no pair, or miss more than the rules allow.
    """
    mismatches = tuple(_mismatches(champion, challenger, benchmark))
    compared = pairs(champion, challenger, benchmark)
    if mismatches:
        compared = Pairs((), compared.planned, compared.planned)
    voids = mismatches or tuple(_gaps(compared, rules))
    figures = _figures(compared.instances, rules) if compared.instances else None
    basis = _cost_basis(compared.instances, rules)
    first = _summary(champion.artifact, [i.champion for i in compared.instances], [pair[0] for pair in basis])
    second = _summary(challenger.artifact, [i.challenger for i in compared.instances], [pair[1] for pair in basis])
    checks = () if figures is None or voids else _checks(figures, first, second, rules, len(basis))
    failed = tuple(check.words for check in checks if not check.is_met)
    return Verdict(
        decision="void" if voids else "hold" if failed else "promote",
        reasons=voids or failed or tuple(check.words for check in checks),
        benchmark=benchmark.digest,
        rules=rules,
        champion=first,
        challenger=second,
        pairs=len(compared.instances),
        missing=compared.missing,
        mean_delta=figures.mean_delta if figures else None,
        interval=figures.interval if figures else None,
        prob_improvement=figures.prob_improvement if figures else None,
        win_rate=figures.win_rate if figures else None,
        regressions=figures.regressions if figures else (),
    )


def _mismatches(champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen) -> Iterator[str]:
    for arm, expected in ((champion, "champion"), (challenger, "challenger")):
        if arm.name != expected:
            yield f"the {arm.name} stands where the {expected} belongs"
        if arm.benchmark != benchmark.digest:
            yield f"the {expected} played the benchmark {arm.benchmark[:8]}, not {benchmark.digest[:8]}"
    if champion.evaluation != challenger.evaluation:
        yield f"the arms are of two evaluations: {champion.evaluation} and {challenger.evaluation}"


def _gaps(compared: Pairs, rules: Rules) -> Iterator[str]:
    if not compared.instances:
        yield "the arms have no sealed pair to compare"
    if compared.missing * MICRO > rules.max_missing * compared.planned:
        yield (
            f"{compared.missing} of {compared.planned} sealed pairs are missing, "
            f"more than a share of {decimal(rules.max_missing)}"
        )


def _figures(instances: tuple[PairedInstance, ...], rules: Rules) -> _Figures:
    deltas = averaged([instance.deltas for instance in instances])
    resampled = bootstrap(deltas, rules.bootstrap_samples, rules.rng_seed)
    worse = [instances[index] for index in deltas.below(-rules.regression_tolerance)]
    return _Figures(
        mean_delta=deltas.mean(),
        interval=resampled.interval,
        prob_improvement=resampled.prob_improvement,
        win_rate=deltas.share_at_least_zero(),
        regressions=tuple(f"{instance.template}__seed{instance.env_seed}" for instance in worse),
    )


def _cost_basis(instances: tuple[PairedInstance, ...], rules: Rules) -> list[tuple[Result, Result]]:
    """The pairs of runs whose costs are compared."""
    both = [pair for instance in instances for pair in zip(instance.champion, instance.challenger, strict=True)]
    if rules.cost_basis == "all_pairs":
        return both
    return [(champion, challenger) for champion, challenger in both if champion.passed and challenger.passed]


def _total(results: list[Result]) -> int | None:
    known = [result.cost for result in results if result.cost is not None]
    return sum(known) if results and len(known) == len(results) else None


def _summary(artifact: Artifact, instances: list[tuple[Result, ...]], compared: list[Result]) -> ArmSummary:
    results = [result for repeats in instances for result in repeats]
    passed = sum(result.passed for result in results)
    scores = averaged([[result.score for result in repeats] for repeats in instances])
    return ArmSummary(
        artifact=artifact,
        runs=len(results),
        passed=passed,
        mean_score=scores.mean() if results else None,
        success=wilson(passed, len(results)),
        cost=_total(results),
        compared_cost=_total(compared),
    )


def _checks(
    figures: _Figures, champion: ArmSummary, challenger: ArmSummary, rules: Rules, compared: int
) -> tuple[_Check, ...]:
    return (
        _at_least("mean difference", figures.mean_delta, rules.min_mean_delta),
        _at_least("probability of improvement", figures.prob_improvement, rules.min_prob_improvement),
        _at_least("win rate", figures.win_rate, rules.min_win_rate),
        _few_regressions(len(figures.regressions), rules),
        _affordable(champion.compared_cost, challenger.compared_cost, rules, compared),
    )


def _at_least(what: str, actual: int, bound: int) -> _Check:
    is_met = actual >= bound
    return _Check(is_met, f"{what} {decimal(actual)} is {'at least' if is_met else 'below'} {decimal(bound)}")


def _few_regressions(actual: int, rules: Rules) -> _Check:
    is_met = actual <= rules.max_regressions
    bound = f"{'at most' if is_met else 'more than'} the {rules.max_regressions} allowed"
    return _Check(
        is_met, f"{counted(actual, 'regression')} of more than {decimal(rules.regression_tolerance)}, {bound}"
    )


def _affordable(champion: int | None, challenger: int | None, rules: Rules, compared: int) -> _Check:
    over = "" if rules.cost_basis == "all_pairs" else f" over the {counted(compared, 'pair')} that both passed"
    if compared == 0:
        return _Check(is_met=True, words="costs are not compared: there is no pair that both arms passed")
    if champion is None:
        return _Check(is_met=True, words="costs are not compared: the champion's is unknown")
    if challenger is None:
        return _Check(is_met=False, words=f"the challenger's cost is unknown beside the champion's {dollars(champion)}")
    if champion == 0:
        return _Check(is_met=True, words="costs are not compared: the champion cost nothing")
    is_met = challenger * MICRO <= champion * rules.max_cost_ratio
    bound = f"{'at most' if is_met else 'more than'} {decimal(rules.max_cost_ratio)} times"
    return _Check(is_met, f"cost {dollars(challenger)} is {bound} the champion's {dollars(champion)}{over}")
