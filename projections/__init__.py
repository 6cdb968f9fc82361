"""What the log means: pure folds, one shell that keeps them up to date. `ALL` is every projection there is."""

from __future__ import annotations

from .access import ACCESS
from .alpha import ALPHA
from .benchmarks import BENCHMARKS
from .champions import CHAMPIONS
from .checkpoints import CHECKPOINTS
from .costs import COSTS
from .curriculum import CURRICULUM
from .environments import ENVIRONMENTS
from .exemplars import EXEMPLARS
from .failures import FAILURES
from .groups import GROUPS
from .hints import HINTS
from .judges import JUDGES
from .projection import AnyFold
from .recipes import RECIPES
from .rewards import REWARDS
from .rewrites import REWRITES
from .runs import RUNS
from .slices import SLICES
from .taint import TAINT
from .verdicts import VERDICTS

ALL: tuple[AnyFold, ...] = (
    ACCESS,
    ALPHA,
    BENCHMARKS,
    CHAMPIONS,
    CHECKPOINTS,
    COSTS,
    CURRICULUM,
    ENVIRONMENTS,
    EXEMPLARS,
    FAILURES,
    GROUPS,
    HINTS,
    JUDGES,
    RECIPES,
    REWARDS,
    REWRITES,
    RUNS,
    SLICES,
    TAINT,
    VERDICTS,
)
