"""Summaries of both arms over their common pairs: passes, scores, costs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from eventlog.events import ArmSummary, Rules

from .arms import Arm, PairedInstance, Result
from .intervals import wilson

Pair = tuple[Result, Result]
"""Results of the champion and the challenger at the same place."""


def cost_basis(instances: Sequence[PairedInstance], rules: Rules) -> list[Pair]:
    """Pairs of runs whose costs are compared."""
    both = [pair for instance in instances for pair in zip(instance.champion, instance.challenger, strict=True)]
    if rules.cost_basis == "all_pairs":
        return both
    return [(champion, challenger) for champion, challenger in both if champion.passed and challenger.passed]


def summaries(
    champion: Arm,
    challenger: Arm,
    instances: Sequence[PairedInstance],
    compared: Sequence[Pair],
    mean: Callable[[Sequence[tuple[str, Sequence[int]]]], int],
) -> tuple[ArmSummary, ArmSummary]:
    """Summarise both arms over the same pairs. `mean` takes instances as (template, scores of repeats)."""
    first = [(instance.template, instance.champion) for instance in instances]
    second = [(instance.template, instance.challenger) for instance in instances]
    return (
        _summary(champion, first, [pair[0] for pair in compared], mean),
        _summary(challenger, second, [pair[1] for pair in compared], mean),
    )


def _summary(
    arm: Arm,
    instances: Sequence[tuple[str, tuple[Result, ...]]],
    compared: Sequence[Result],
    mean: Callable[[Sequence[tuple[str, Sequence[int]]]], int],
) -> ArmSummary:
    results = [result for _, repeats in instances for result in repeats]
    passed = sum(result.passed for result in results)
    scores = [(template, [result.score for result in repeats]) for template, repeats in instances]
    return ArmSummary(
        artifact=arm.artifact,
        runs=len(results),
        passed=passed,
        mean_score=mean(scores) if scores else None,
        success=wilson(passed, len(results)),
        cost=_total(results),
        compared_cost=_total(compared),
    )


def _total(results: Sequence[Result]) -> int | None:
    known = [result.cost for result in results if result.cost is not None]
    return sum(known) if results and len(known) == len(results) else None


def mismatches(champion: Arm, challenger: Arm, digest: str) -> Iterator[str]:
    """Reasons why the arms are not the two arms of one evaluation of the benchmark with this digest."""
    for arm, expected in ((champion, "champion"), (challenger, "challenger")):
        if arm.name != expected:
            yield f"the {arm.name} stands where the {expected} belongs"
        if arm.benchmark != digest:
            yield f"the {expected} played the benchmark {arm.benchmark[:8]}, not {digest[:8]}"
    if champion.evaluation != challenger.evaluation:
        yield f"the arms are of two evaluations: {champion.evaluation} and {challenger.evaluation}"
