"""Projections: pure folds over the log, and the engine that keeps their tables up to date. `ALL` lists every fold."""

from __future__ import annotations

from .access import ACCESS
from .advice import ADVICE, ADVICE_COSTS
from .alpha import ALPHA
from .bases import BASES
from .benchmarks import BENCHMARKS
from .champions import CHAMPIONS
from .checkpoints import WEIGHTS
from .costs import COSTS
from .courses import COURSES
from .delegation.budgets import LOOP_BUDGETS
from .delegation.loops import LOOPS
from .delegation.skills import LOOP_SKILLS, SKILLS
from .delegation.stalls import LOOP_STALLS
from .delegation.tools import LOOP_TOOLS, TOOLS
from .engine.projection import AnyFold
from .environments import ENVIRONMENTS
from .evaluations import EVALUATIONS
from .failures import FAILURES
from .forged import FORGED
from .frozen_datasets import CHECKPOINTS
from .groups import GROUPS
from .judges import JUDGES
from .outside.webhooks import WEBHOOKS
from .pieces import CURRICULUM, EXEMPLARS, HINTS, INSTRUCTIONS, RECIPES, SKILL_PIECES
from .rewards import REWARDS
from .rewrites import REWRITES
from .runs import RUNS
from .slices import SLICES
from .substrates import SUBSTRATES
from .suites import REGISTRATIONS, SUITES
from .sweeps import NEWEST_SWEEPS, SWEEP_PLANS, SWEEPS
from .taint import TAINT
from .trainings import TRAININGS
from .verdicts import VERDICTS

ALL: tuple[AnyFold, ...] = (
    ACCESS,
    ADVICE,
    ADVICE_COSTS,
    ALPHA,
    BASES,
    BENCHMARKS,
    CHAMPIONS,
    CHECKPOINTS,
    COSTS,
    COURSES,
    CURRICULUM,
    ENVIRONMENTS,
    EVALUATIONS,
    EXEMPLARS,
    FAILURES,
    FORGED,
    GROUPS,
    HINTS,
    INSTRUCTIONS,
    JUDGES,
    LOOPS,
    LOOP_BUDGETS,
    LOOP_SKILLS,
    LOOP_STALLS,
    LOOP_TOOLS,
    NEWEST_SWEEPS,
    RECIPES,
    REGISTRATIONS,
    REWARDS,
    REWRITES,
    RUNS,
    SKILLS,
    SKILL_PIECES,
    SLICES,
    SUBSTRATES,
    SUITES,
    SWEEPS,
    SWEEP_PLANS,
    TAINT,
    TOOLS,
    TRAININGS,
    VERDICTS,
    WEBHOOKS,
    WEIGHTS,
)
