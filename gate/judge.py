"""Computes the verdict on two arms under the rules. Pure.

One test decides, on sealed instances: repeats are averaged inside their instance, instances inside their template, and
templates have equal weight. Where templates share seeds, a seed is one unit of the test. A promotion
also requires a minimum mean difference, a bounded cost and no confirmed regression. All figures of a verdict, including
costs and passed runs, are over the pairs that both arms have.
`Verdict.pairs` counts instances, `ArmSummary.runs` counts (instance, repeat) pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eventlog.chain import EXACT
from eventlog.events import ArmSummary, BenchmarkFrozen, BenchmarkTask, Rules, Verdict, Visible

from .alpha import Alpha
from .arms import Arm, PairedInstance, Pairs, confirming_repeats, pairs
from .checks import (
    PromotionCheck,
    Tested,
    check_cost,
    check_families,
    check_minimum,
    check_regressions,
    decide_verdict,
    significant,
)
from .confirmation import Confirmed, Suspects, confirm, find_suspects, next_repeats
from .counts import pico
from .eprocess import EProcessResult, evidence
from .errors import UnknownTest
from .losses import charge_of, charged_units, count_lost_as_failed, has_losses
from .randomisation import SignFlip, sign_flip
from .reported import report_figures, visible
from .seeds import judge_as_seeds
from .sequential import LookResult, Path, list_looks, look_at
from .stats import MICRO, ceil_divide
from .strata import Strata, stratify
from .summaries import cost_basis, mismatches, summaries
from .units import order, pool_by_seed, takes_seeds
from .voids import count_units, gaps, missing_p


@dataclass(frozen=True, slots=True)
class _Found:
    """Figures of a verdict before regressions are confirmed."""

    compared: Pairs
    voids: tuple[str, ...]
    strata: Strata | None
    units: Strata | None
    tested: Tested
    looks: Path | None
    looked_at: int
    champion: ArmSummary
    challenger: ArmSummary
    checks: tuple[PromotionCheck, ...]
    suspects: Suspects

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
    confirmed, checks = Confirmed((), (), ()), found.checks
    if found.would_promote:
        confirmed = confirm(found.suspects, champion, challenger, benchmark, rules)
        checks = (
            *checks,
            check_regressions(len(found.suspects.worse), confirmed.instances, rules),
            *check_families(confirmed.families),
        )
    shown = None if _is_unseen(found) else visible(champion, challenger, benchmark)
    return _to_verdict(found, confirmed, checks, benchmark, rules, spent, shown)


def _to_verdict(
    found: _Found,
    confirmed: Confirmed,
    checks: tuple[PromotionCheck, ...],
    benchmark: BenchmarkFrozen,
    rules: Rules,
    spent: Alpha,
    shown: Visible | None,
) -> Verdict:
    decision, reasons = decide_verdict(found.voids, checks)
    told = report_figures(found.compared.instances, found.strata, found.units, benchmark, rules, spent.alpha)
    return Verdict(
        decision=decision,
        reasons=reasons,
        benchmark=benchmark.digest,
        rules=rules,
        champion=found.champion,
        challenger=found.challenger,
        pairs=len(found.compared.instances),
        missing=found.compared.missing,
        missing_p=pico(missing_p(found.compared, rules)),
        alpha=spent.alpha,
        alpha_spent=spent.spent,
        p_value=pico(found.tested.p) if found.strata else None,
        draws=_draws(found.tested, rules, spent.alpha),
        looked_at=found.looked_at,
        e_value=_e_value(found.tested) if found.strata else None,
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
        screened=tuple(instance.name for instance in found.suspects.worse),
        confirmations=confirmed.instances,
        regressions=tuple(each.instance for each in confirmed.instances if each.is_regression),
        strata=told.strata,
        visible=shown,
        units=count_units(found.compared, rules) if takes_seeds(benchmark, rules) else None,
        lost=(found.compared.champion_lost, found.compared.challenger_lost) if rules.replays else None,
        looks=list_looks(found.looks) if found.looks else (),
        families=confirmed.families,
        interrupted=found.compared.interrupted if any(found.compared.interrupted) else None,
        one_answer=tuple(each.template_id for each in benchmark.templates if each.one_answer),
    )


def _is_unseen(found: _Found) -> bool:
    """True if a group sequential test was void before its first look: then no outcome is told."""
    return found.looks is not None and not found.looks.looks


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
    return tuple((each.template, each.env_seed) for each in found.suspects.instances) if found.would_promote else ()


def to_confirm(
    champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules, spent: Alpha
) -> tuple[tuple[str, int, range], ...]:
    """Instances (template, seed) to play again next, with the numbers of their repeats; empty if none is needed.

    All suspects at once, or where the rules curtail, a few repeats of those that can still change the decision.
    """
    if rules.test == "bootstrap":
        return ()
    found = _compute_findings(champion, challenger, benchmark, rules, spent)
    if not found.would_promote:
        return ()
    if not rules.curtails:
        again = confirming_repeats(benchmark, rules)
        return tuple((each.template, each.env_seed, again) for each in found.suspects.instances)
    left = confirm(found.suspects, champion, challenger, benchmark, rules).open
    places = ((each.template, each.env_seed) for each in left)
    return tuple((*place, next_repeats(champion, challenger, benchmark, rules, place)) for place in places)


def _compute_findings(champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules, spent: Alpha) -> _Found:
    if rules.test not in _TESTS:
        raise UnknownTest(actual=rules.test, expected=", ".join([*_TESTS, "bootstrap"]))
    foreign = tuple(mismatches(champion, challenger, benchmark.digest))
    early = evidence(champion, challenger, benchmark, rules, spent) if rules.test == "e_process" else None
    looks = look_at(champion, challenger, benchmark, rules, spent) if rules.test == "group_sequential" else None
    tasks = _tasks(benchmark, rules, early or looks)
    compared = looks.compared if looks else pairs(champion, challenger, benchmark, tasks)
    if foreign:
        compared = Pairs((), compared.planned, compared.planned)
    strata = stratify((each.template, each.deltas) for each in compared.instances) if compared.instances else None
    units = pool_by_seed(compared.instances, strata) if strata and takes_seeds(benchmark, rules) else strata
    last = looks.last if looks else None
    is_charged = rules.charges_losses and has_losses(champion, challenger, benchmark, tasks)
    tested = early or last or _sign_flip(units.flat if units else (), rules, spent.alpha)
    failing = _with_lost_as_failed(champion, challenger, benchmark, tasks) if is_charged else ()
    if is_charged and isinstance(tested, SignFlip):
        charged = _charged_values(champion, challenger, benchmark, tasks, rules, compared)
        tested = max(tested, _sign_flip(charged, rules, spent.alpha), key=lambda each: each.p)
    basis = cost_basis(compared.instances, rules)
    first, second = summaries(champion, challenger, compared.instances, basis, lambda each: stratify(each).mean())
    checks = () if strata is None else _checks(tested, strata, rules, spent.alpha)
    return _Found(
        compared=compared,
        voids=foreign or (*(looks.voids if looks else gaps(compared, rules)), *_spoilt(champion, challenger)),
        strata=strata,
        units=units,
        tested=tested,
        looks=looks,
        looked_at=len(tasks),
        champion=first,
        challenger=second,
        checks=(*checks, check_cost(first, second, rules, len(basis))),
        suspects=find_suspects(compared.instances, strata, rules, failing),
    )


_TESTS = ("group_sequential", "sign_flip", "e_process")


def _tasks(benchmark: BenchmarkFrozen, rules: Rules, stopped: EProcessResult | Path | None) -> Sequence[BenchmarkTask]:
    """Sealed instances that the test saw, or all of them."""
    if stopped is None:
        return [task for task in benchmark.tasks if task.is_sealed]
    return order(benchmark, rules)[: stopped.looked_at]


def _e_value(tested: Tested) -> int | None:
    """The e-value in millionths, at most `EXACT`, the largest number that an event holds."""
    return min(EXACT, int(tested.e_value * MICRO)) if isinstance(tested, EProcessResult) else None


def _draws(tested: Tested, rules: Rules, alpha: int) -> int | None:
    """Number of draws; None for an exact test."""
    match tested:
        case SignFlip():
            return tested.draws
        case LookResult():
            return _most_draws(rules, alpha)
        case _:
            return None


def _most_draws(rules: Rules, alpha: int) -> int:
    """Draws that alpha asks for; with no alpha a promotion is impossible, so few suffice."""
    return ceil_divide(rules.draws_per_alpha * MICRO, alpha or MICRO)


def _sign_flip(values: Sequence[int], rules: Rules, alpha: int) -> SignFlip:
    return sign_flip(values, _most_draws(rules, alpha), rules.max_exact, rules.rng_seed)


def _with_lost_as_failed(
    champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, tasks: Sequence[BenchmarkTask]
) -> tuple[PairedInstance, ...]:
    """The instances with places that lost a run as failed in the arm that lost it."""
    return pairs(count_lost_as_failed(champion), count_lost_as_failed(challenger), benchmark, tasks).instances


def _charged_values(
    champion: Arm,
    challenger: Arm,
    benchmark: BenchmarkFrozen,
    tasks: Sequence[BenchmarkTask],
    rules: Rules,
    compared: Pairs,
) -> list[int]:
    """The value of each unit with places that lost a run charged to their arm."""
    found = charged_units(champion, challenger, benchmark, tasks, rules)
    charge = charge_of(compared, champion, benchmark, tasks)
    return [found.value_at(unit, charge) for unit in found.differences]


def _checks(tested: Tested, strata: Strata, rules: Rules, alpha: int) -> tuple[PromotionCheck, ...]:
    return significant(tested, alpha), check_minimum("mean difference", strata.mean(), rules.min_mean_delta)


def _spoilt(champion: Arm, challenger: Arm) -> Iterator[str]:
    for run in (*champion.contaminated, *challenger.contaminated):
        yield f"the run {run} began from another state than the others of its instance"
