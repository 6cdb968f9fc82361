"""Judges simulated evaluations with the real gate. Each question counts the evaluations that answer it with yes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from eventlog.events import Rules, Verdict
from gate.alpha import Alpha
from gate.eprocess import evidence
from gate.judge import judge, screen

from .worlds import Chances, Evaluation, World, chances, confirmed, frozen, simulate_arms

MARGIN = Rules().min_mean_delta / 1_000_000
DECIDING = Rules(bootstrap_samples=1)
"""The default rules with one bootstrap sample, because the interval does not affect the decision."""
EARLY = Rules(test="e_process", bootstrap_samples=1)
UNVETOED = Rules.seeds().model_copy(update={"max_regressions": 1_000})

FAMILY = 20

Count = dict[str, tuple[int, int]]
"""For each figure: number of evaluations with the answer yes, and number of evaluations."""


@dataclass(frozen=True, slots=True)
class Job:
    """One question, with the number of simulated evaluations of a world and the alpha in millionths."""

    question: str
    world: World
    alpha: int
    times: int
    seed: int


def asked(job: Job) -> Count:
    """Answer a job's question. Deterministic."""
    rng = np.random.default_rng(job.seed)
    yes: dict[str, list[bool]] = {}
    for _ in range(job.times):
        for figure, is_so in QUESTIONS[job.question](job, rng).items():
            yes.setdefault(figure, []).append(is_so)
    return {figure: (sum(found), len(found)) for figure, found in yes.items()}


def verdict_of(
    world: World, truth: Chances, evaluation: Evaluation, rules: Rules, alpha: int, rng: np.random.Generator
) -> Verdict:
    """The gate's verdict, including the confirming repeats that it requires."""
    benchmark, spent = frozen(world.instances, world.repeats), Alpha(1, alpha, alpha)
    worse = screen(evaluation.champion, evaluation.challenger, benchmark, rules, spent)
    if worse:
        evaluation = confirmed(world, truth, evaluation, worse, rules.confirm_repeats, rng)
    return judge(evaluation.champion, evaluation.challenger, benchmark, rules, spent)


def cannot_promote(world: World, evaluation: Evaluation, rules: Rules, alpha: int) -> bool:
    """True if a promotion is clearly impossible, by a small difference or weak evidence; saves the cost of judging."""
    if rules.test != "e_process":
        return evaluation.falls_short(MARGIN)
    benchmark, spent = frozen(world.instances, world.repeats), Alpha(1, alpha, alpha)
    found = evidence(evaluation.champion, evaluation.challenger, benchmark, rules, spent)
    return found.p * 1_000_000 > alpha


def _seeded(rules: Rules, rng: np.random.Generator) -> Rules:
    """The rules with a new random seed, for independent draws and orders in each evaluation."""
    return rules.model_copy(update={"rng_seed": int(rng.integers(2**31))})


def _promotes(job: Job, truth: Chances, rules: Rules, rng: np.random.Generator) -> bool:
    evaluation, rules = simulate_arms(job.world, truth, rng), _seeded(rules, rng)
    if cannot_promote(job.world, evaluation, rules, job.alpha):
        return False
    return verdict_of(job.world, truth, evaluation, rules, job.alpha, rng).decision == "promote"


def _promoted(job: Job, rng: np.random.Generator) -> dict[str, bool]:
    return {"promoted": _promotes(job, chances(job.world, rng), DECIDING, rng)}


def _promoted_early(job: Job, rng: np.random.Generator) -> dict[str, bool]:
    return {"promoted": _promotes(job, chances(job.world, rng), EARLY, rng)}


def _any_of_family(job: Job, rng: np.random.Generator) -> dict[str, bool]:
    """Answer if any of twenty challengers on the same instances is promoted."""
    truth = chances(job.world, rng)
    return {"any promoted": any(_promotes(job, truth, DECIDING, rng) for _ in range(FAMILY))}


def _any_of_family_early(job: Job, rng: np.random.Generator) -> dict[str, bool]:
    """Answer if any of twenty challengers is promoted, with early stopping after each instance."""
    truth = chances(job.world, rng)
    return {"any promoted": any(_promotes(job, truth, EARLY, rng) for _ in range(FAMILY))}


def _gained(job: Job, rng: np.random.Generator) -> dict[str, bool]:
    """Answer if a true gain is promoted, or held by regressions alone. Confirms only would-be promotions."""
    truth = chances(job.world, rng)
    evaluation, rules = simulate_arms(job.world, truth, rng), _seeded(DECIDING, rng)
    if cannot_promote(job.world, evaluation, rules, job.alpha):
        return {"promoted": False, "held by regressions alone": False}
    verdict = verdict_of(job.world, truth, evaluation, rules, job.alpha, rng)
    return {"promoted": verdict.decision == "promote", "held by regressions alone": bool(verdict.regressions)}


def _caught(job: Job, rng: np.random.Generator) -> dict[str, bool]:
    """Answer if a verdict that would otherwise promote names the one instance that regressed."""
    truth = chances(job.world, rng)
    evaluation, rules = simulate_arms(job.world, truth, rng), _seeded(DECIDING, rng)
    verdict = verdict_of(job.world, truth, evaluation, rules, job.alpha, rng)
    would_promote = verdict.decision == "promote" or bool(verdict.regressions)
    return {"caught": "t0__seed0" in verdict.regressions} if would_promote else {}


def _covered(job: Job, rng: np.random.Generator) -> dict[str, bool]:
    truth = chances(job.world, rng)
    evaluation, rules = simulate_arms(job.world, truth, rng), _seeded(Rules(), rng)
    verdict = judge(
        evaluation.champion,
        evaluation.challenger,
        frozen(job.world.instances, job.world.repeats),
        rules,
        Alpha(1, job.alpha, job.alpha),
    )
    found, gain = verdict.interval, round(job.world.gain * 1_000_000)
    return {} if found is None else {"covered": found.low <= gain <= found.high}


def _by_the_seeds(job: Job, rng: np.random.Generator) -> dict[str, bool]:
    """Answer if the gate of the seed documents promotes the same data, with and without its limit on regressions."""
    evaluation = simulate_arms(job.world, chances(job.world, rng), rng)
    if evaluation.falls_short(MARGIN):
        return {"promoted": False, "promoted, regressions allowed": False}
    benchmark = frozen(job.world.instances, job.world.repeats)
    rules = _seeded(UNVETOED, rng)
    verdict = judge(evaluation.champion, evaluation.challenger, benchmark, rules, Alpha(0, 0, 0))
    would = verdict.decision == "promote"
    return {"promoted": would and not verdict.regressions, "promoted, regressions allowed": would}


QUESTIONS: Mapping[str, Callable[[Job, np.random.Generator], dict[str, bool]]] = {
    "promoted": _promoted,
    "promoted early": _promoted_early,
    "any": _any_of_family,
    "any early": _any_of_family_early,
    "gained": _gained,
    "caught": _caught,
    "covered": _covered,
    "seeds": _by_the_seeds,
}
