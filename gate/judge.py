"""Computes the verdict on two arms under the rules. Pure.

One test decides, on sealed instances: repeats are averaged inside their instance, instances inside their template, and
templates have equal weight. A promotion also requires a minimum mean difference, a bounded cost and no confirmed
regression. All figures of a verdict, including costs and passed runs, are over the pairs that both arms have.
`Verdict.pairs` counts instances, `ArmSummary.runs` counts (instance, repeat) pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eventlog.chain import EXACT
from eventlog.events import ArmSummary, BenchmarkFrozen, Confirmation, Rules, Verdict

from .alpha import Alpha
from .arms import Arm, PairedInstance, Pairs, pairs
from .checks import PromotionCheck, check_cost, check_minimum, check_regressions, decide_verdict, significant
from .confirmation import confirmations_of
from .counts import pico
from .eprocess import EProcessResult, evidence, order
from .errors import UnknownTest
from .randomisation import SignFlip, sign_flip
from .reported import report_figures, visible
from .seeds import judge_as_seeds
from .stats import MICRO, ceil_divide
from .strata import Strata, stratify
from .summaries import cost_basis, mismatches, summaries
from .voids import gaps, missing_p


@dataclass(frozen=True, slots=True)
class _Found:
    """Figures of a verdict before regressions are confirmed."""

    compared: Pairs
    voids: tuple[str, ...]
    strata: Strata | None
    tested: SignFlip | EProcessResult
    looked_at: int
    champion: ArmSummary
    challenger: ArmSummary
    checks: tuple[PromotionCheck, ...]
    worse: tuple[PairedInstance, ...]

    @property
    def would_promote(self) -> bool:
        """True if only a confirmed regression can prevent a promotion."""
        return not self.voids and all(check.is_met for check in self.checks)


def judge(champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules, spent: Alpha) -> Verdict:
    """Decide promote, hold or void, with every reason. Raises UnknownTest, NoSamples.

    The verdict is void if the arms are not the two arms of one evaluation of this benchmark, if they have too few
    instances, too many missing pairs or pairs that are missing unequally, or if a run is contaminated. Missing
    confirming repeats count against the challenger.
    """
    if rules.test == "bootstrap":
        return judge_as_seeds(champion, challenger, benchmark, rules, spent)
    found = _compute_findings(champion, challenger, benchmark, rules, spent)
    confirmations: tuple[Confirmation, ...] = ()
    checks = found.checks
    if found.would_promote:
        confirmations = confirmations_of(found.worse, champion, challenger, benchmark, rules)
        checks = (*checks, check_regressions(len(found.worse), confirmations, rules))
    decision, reasons = decide_verdict(found.voids, checks)
    tested, told = found.tested, report_figures(found.compared.instances, found.strata, benchmark, rules, spent.alpha)
    return Verdict(
        decision=decision,
        reasons=reasons,
        benchmark=benchmark.digest,
        rules=rules,
        champion=found.champion,
        challenger=found.challenger,
        pairs=len(found.compared.instances),
        missing=found.compared.missing,
        missing_p=pico(missing_p(found.compared)),
        alpha=spent.alpha,
        alpha_spent=spent.spent,
        p_value=pico(tested.p) if found.strata else None,
        draws=tested.draws if isinstance(tested, SignFlip) else None,
        looked_at=found.looked_at,
        e_value=_e_value(tested) if found.strata else None,
        mean_delta=found.strata.mean() if found.strata else None,
        interval=told.interval,
        prob_improvement=told.prob_improvement,
        win_rate=told.win_rate,
        wins=told.wins,
        ties=told.ties,
        losses=told.losses,
        mcnemar=told.mcnemar,
        power=told.power,
        pairs_needed=told.pairs_needed,
        screened=tuple(instance.name for instance in found.worse),
        confirmations=confirmations,
        regressions=tuple(each.instance for each in confirmations if each.is_regression),
        strata=told.strata,
        visible=visible(champion, challenger, benchmark),
    )


def screen(
    champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules, spent: Alpha
) -> tuple[tuple[str, int], ...]:
    """Sealed instances (template, seed) that look worse and must be repeated before the verdict.

    Empty if the verdict cannot be a promotion whatever the repeats give, and under the bootstrap, which confirms no
    regressions. Raises UnknownTest.
    """
    if rules.test == "bootstrap":
        return ()
    found = _compute_findings(champion, challenger, benchmark, rules, spent)
    return tuple((each.template, each.env_seed) for each in found.worse) if found.would_promote else ()


def _compute_findings(champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules, spent: Alpha) -> _Found:
    if rules.test not in _TESTS:
        raise UnknownTest(actual=rules.test, expected=", ".join([*_TESTS, "bootstrap"]))
    foreign = tuple(mismatches(champion, challenger, benchmark.digest))
    early = evidence(champion, challenger, benchmark, rules, spent) if rules.test == "e_process" else None
    sealed = [task for task in benchmark.tasks if task.is_sealed]
    tasks = order(benchmark, rules)[: early.looked_at] if early else sealed
    compared = pairs(champion, challenger, benchmark, tasks)
    if foreign:
        compared = Pairs((), compared.planned, compared.planned)
    strata = stratify((each.template, each.deltas) for each in compared.instances) if compared.instances else None
    values = strata.flat if strata else ()
    tested = early or _sign_flip(values, rules, spent.alpha)
    basis = cost_basis(compared.instances, rules)
    first, second = summaries(champion, challenger, compared.instances, basis, lambda each: stratify(each).mean())
    checks = () if strata is None else _checks(tested, strata, rules, spent.alpha)
    return _Found(
        compared=compared,
        voids=foreign or (*gaps(compared, rules), *_spoilt(champion, challenger)),
        strata=strata,
        tested=tested,
        looked_at=len(tasks),
        champion=first,
        challenger=second,
        checks=(*checks, check_cost(first, second, rules, len(basis))),
        worse=tuple(each for each, value in zip(compared.instances, values, strict=True) if value < 0),
    )


_TESTS = ("sign_flip", "e_process")


def _e_value(tested: SignFlip | EProcessResult) -> int | None:
    """The e-value in millionths, at most `EXACT`, the largest number that an event holds."""
    return min(EXACT, int(tested.e_value * MICRO)) if isinstance(tested, EProcessResult) else None


def _sign_flip(values: Sequence[int], rules: Rules, alpha: int) -> SignFlip:
    """Run the sign-flip test; with no alpha a promotion is impossible, so few draws suffice."""
    draws = ceil_divide(rules.draws_per_alpha * MICRO, alpha or MICRO)
    return sign_flip(values, draws, rules.max_exact, rules.rng_seed)


def _checks(tested: SignFlip | EProcessResult, strata: Strata, rules: Rules, alpha: int) -> tuple[PromotionCheck, ...]:
    return significant(tested, alpha), check_minimum("mean difference", strata.mean(), rules.min_mean_delta)


def _spoilt(champion: Arm, challenger: Arm) -> Iterator[str]:
    for run in (*champion.contaminated, *challenger.contaminated):
        yield f"the run {run} began from another state than the others of its instance"
