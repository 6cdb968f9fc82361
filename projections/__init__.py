"""What the log means: pure folds, one shell that keeps them up to date. `ALL` is every projection there is."""

from __future__ import annotations

from .access import ACCESS
from .alpha import ALPHA
from .benchmarks import BENCHMARKS
from .champions import CHAMPIONS
from .checkpoints import CHECKPOINTS
from .costs import COSTS
from .courses import COURSES
from .environments import ENVIRONMENTS
from .failures import FAILURES
from .groups import GROUPS
from .judges import JUDGES
from .projection import AnyFold
from .rewards import REWARDS
from .rewrites import REWRITES
from .runs import RUNS
from .slices import SLICES
from .substrates import SUBSTRATES
from .taint import TAINT
from .verdicts import VERDICTS

ALL: tuple[AnyFold, ...] = (
    ACCESS,
    ALPHA,
    BENCHMARKS,
    CHAMPIONS,
    CHECKPOINTS,
    COSTS,
    COURSES,
    ENVIRONMENTS,
    FAILURES,
    GROUPS,
    JUDGES,
    REWARDS,
    REWRITES,
    RUNS,
    SLICES,
    SUBSTRATES,
    TAINT,
    VERDICTS,
)
