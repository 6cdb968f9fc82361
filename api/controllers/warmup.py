"""Make a first base model: play demonstrations, create a small model, train it in turns and measure each turn.

Nothing is downloaded. The next step is read from the log alone, so a killed warm-up repeats nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agents.envs.environment import Environment
from agents.executors.demonstration import Demonstrator
from agents.executors.executor import Executor
from agents.models.local.network import refuse_missing
from agents.rollouts.sweep import SeedSweep
from agents.suites.in_log import VersionedSuite
from eventlog.events import SftQuery, SweepPlanned, Template
from gate.figures import count_noun
from projections.checkpoints import WeightsState
from projections.engine.views import Views

from ..course import BASE, WARM_UP
from ..datasets import freeze
from ..datasets.demonstrations import keep_tokens, tokens_of
from ..errors import DatasetErased, DatasetWithdrawn
from ..house import House
from ..queries.benchmarks import benchmark_seeds
from ..queries.facts import require
from ..queries.sweeps import names_planned_by, planned_by, sweeps_on
from ..reporter import Reporter
from ..sweeps.plan import is_planned, plan
from ..sweeps.play import play_sweep
from ..sweeps.seeds import fresh_seeds
from ..training.errors import NoBase, TrainingEnded
from ..training.first_bases import first_base
from ..training.stage_process import PROCESS_ENDED
from ..training.stages import Stage, describe_measures, train_stage, watch_progress
from ..training.weights import base_of
from .slow import Serving, tasks_of
from .slow_next import MOST_ATTEMPTS, SlowCourse, rounds_on
from .warmup_next import (
    WarmingCourse,
    WarmingNext,
    WarmupTurn,
    bases_of,
    decide_warming,
    measured_name,
    measured_seeds,
    success_of,
    tokens_in,
)

DEMONSTRATOR: Final = Demonstrator(wording="brief")
"""Executor of the demonstrations. Its prompts are brief, because the model to train is small."""

_MICRO: Final = 1_000_000
_FIRST_SEEDS: Final = 10


@dataclass(frozen=True)
class Warming:
    """The warm-up on one site, for the tasks of a slow loop. The executor of `serving` measures each turn."""

    house: House
    client: Environment
    site: str
    course: SlowCourse
    warming: WarmingCourse
    reporter: Reporter
    serving: Serving
    suite: VersionedSuite | None = None

    def run(self) -> str:
        """Run the warm-up until a base model is chosen. Returns its digest. The caller must hold the site's lock.

        Raises LibrariesMissing, Unknown, NoBase if seeds run out, EmptyDataset if no demonstration passed,
        TrainingEnded, and what playing raises.
        """
        refuse_missing("that a warm-up makes")
        templates = tasks_of(self.client, self.course, self.suite)
        tasks = {template.oracle_task_id for template in templates}
        while True:
            views = self.house.views()
            own, rounds = self._own(views), rounds_on(self.house.store, views, self.site)
            step = decide_warming(views, own, rounds, course=self.warming, site=self.site, tasks=tasks)
            match step.what:
                case "show":
                    self._show(step.shown, templates)
                case "freeze":
                    self._freeze(require(step.shown))
                case "train":
                    self._train(step)
                case "measure":
                    self._measure(require(step.turn), templates, measured_seeds(own, tasks, self.warming.measured))
                case "take":
                    return self._take(require(step.turn), step.why)

    def _own(self, views: Views) -> tuple[SweepPlanned, ...]:
        """The sweeps that a warm-up planned on the site, in order."""
        return planned_by(self.house.store, views, WARM_UP, self.site)

    def _show(self, shown: SweepPlanned | None, templates: Sequence[Template]) -> None:
        """Play the plan of each task with current memory, recorded as the prompts and answers of a policy."""
        if shown is None:
            generator = SeedSweep(self._free_name(), templates, self._fresh(self.warming.demonstrated))
            shown = self._plan_sweep(generator, DEMONSTRATOR)
            self.reporter.say(
                f"{shown.sweep} demonstrates {', '.join(template.oracle_task_id for template in templates)}"
            )
        first = _first_of(shown)
        if len(first.specs) < len(shown.specs) and success_of(self.house.views(), first) is None:
            play_sweep(self.house, self.client, first, self.course.sizes, self.reporter, DEMONSTRATOR)
            left = count_noun(len(shown.specs) - len(first.specs), "further demonstration")
            self._warn_if_cold(first, f"{left} will take longer than these; Ctrl-C stops before them")
        play_sweep(self.house, self.client, shown, self.course.sizes, self.reporter, DEMONSTRATOR)

    def _warn_if_cold(self, shown: SweepPlanned, aside: str) -> None:
        """Say if too few demonstrations passed to teach a model anything."""
        passed = require(success_of(self.house.views(), shown))
        if not self.warming.is_warm(passed):
            count = round(passed * len(shown.specs) / _MICRO)
            shared = count_noun(len(shown.specs), "demonstration")
            told = f"{count} of {shared} passed, less than {self.warming.low} of them"
            way_out = "a model trained on them will hardly do better. Run the fast loop first to improve the plans"
            self.reporter.say(f"{told}: {way_out}{aside and f'. {aside}'}")

    def _freeze(self, shown: SweepPlanned) -> None:
        start = first_base(self.house, shown, self.warming.shape)
        tokens = keep_tokens(self.house.blobs, start.path)
        query = SftQuery(runs="demonstration", environment=self.site, sweep=shown.sweep, tokens=tokens)
        made = freeze.make_rows(self.house.store, self.house.blobs, self.house.views(), query)
        digest = freeze.freeze_dataset(self.house.store, freeze.refuse_empty(made), WARM_UP)
        self.reporter.say(f"froze dataset {digest[:8]}: {made.height} rows of {len(shown.specs)} demonstrations")
        self._warn_if_cold(shown, "")

    def _train(self, step: WarmingNext) -> None:
        """Train one turn. If its dataset is no longer valid, freeze a new one, and all turns start over."""
        shown, dataset, turn = require(step.shown), require(step.dataset), step.turn
        if turn is None:
            base, number = first_base(self.house, shown, self.warming.shape), 0
            if tokens_of(base.path) != tokens_in(dataset):
                return self._freeze(shown)  # other texts are used now, or the tokenizer library differs
        else:
            base, number = base_of(self.house, turn.weights.checkpoint, None), turn.number + 1
        stage = Stage(dataset, base, None, self.warming.stage(number))
        try:
            saved = self._train_stage(stage)
        except (DatasetErased, DatasetWithdrawn, freeze.DatasetDiffers) as error:
            self.reporter.say(f"freezing a new dataset of {shown.sweep}: {error}")
            return self._freeze(shown)
        told = describe_measures(self.house.views(), saved)
        turns = f"turn {number + 1} of {self.warming.turns} at most"
        return self.reporter.say(f"saved base model {saved.checkpoint[:8]} ({turns}); last step: {told}")

    def _train_stage(self, stage: Stage) -> WeightsState:
        """Train a stage. If its process dies, retry up to MOST_ATTEMPTS attempts, as in the slow loop."""
        died = 0
        while True:
            try:
                with self.reporter.phase(stage.name, stage.config.steps) as advance:
                    return train_stage(self.house, stage, watch_progress(advance, self.reporter.say), WARM_UP)
            except TrainingEnded as error:
                died += 1
                if error.facts["error"] != PROCESS_ENDED or died == MOST_ATTEMPTS:
                    raise
                self.reporter.say(str(error))

    def _measure(self, turn: WarmupTurn, templates: Sequence[Template], seeds: Sequence[int]) -> None:
        """Measure a base model on each task, at the seeds of the earlier measurements or else at fresh ones."""
        digest = turn.weights.checkpoint
        with self.serving(base_of(self.house, digest, None)) as executor:
            sweep = turn.sweep
            if sweep is None:
                seeds = seeds or self._fresh(self.warming.measured)
                temperatures = (self.course.temperature_micro,)
                name = measured_name(self.site, digest)
                sweep = self._plan_sweep(SeedSweep(name, templates, seeds, 1, temperatures), executor)
            play_sweep(self.house, self.client, sweep, self.course.sizes, self.reporter, executor)
        success = _share(require(success_of(self.house.views(), sweep)))
        self.reporter.say(f"{digest[:8]} after {turn.steps} steps passes {success} of {len(sweep.specs)} instances")

    def _take(self, turn: WarmupTurn, why: str) -> str:
        digest = turn.weights.checkpoint
        passes = "" if turn.success is None else f", success rate {_share(turn.success)}"
        band = f"{self.warming.low} to {self.warming.high}"
        self.reporter.say(f"chose base model {digest[:8]}: {why} ({turn.steps} steps{passes}, target {band})")
        return digest

    def _plan_sweep(self, generator: SeedSweep, executor: Executor) -> SweepPlanned:
        return plan(
            self.house,
            self.house.views(),
            self.site,
            generator,
            rng_seed=self.course.sizes.rng_seed,
            learns=False,
            executor=executor,
            actor=WARM_UP,
            weights=BASE,
            suite=None if self.suite is None else str(self.suite),
        )

    def _fresh(self, amount: int) -> tuple[int, ...]:
        """`amount` training seeds that no sweep has used and no benchmark holds. Raises NoBase."""
        views, sizes = self.house.views(), self.course.sizes
        seeds = fresh_seeds(sweeps_on(views, self.site), sizes, amount, benchmark_seeds(views, self.site))
        if len(seeds) < amount:
            left = f"{len(seeds)} of {sizes.training_seeds} training seeds are left"
            raise NoBase(
                actual=f"a warm-up needs {amount} seeds that no sweep has used and no benchmark holds, and {left}"
            )
        return seeds

    def _free_name(self) -> str:
        number = 1
        while is_planned(self.house.store, f"{self.site}-shown-{number}"):
            number += 1
        return f"{self.site}-shown-{number}"


def is_told_briefly(house: House, base: str) -> bool:
    """True if a base model was made by a warm-up of this project, with brief prompts."""
    views = house.views()
    return base in bases_of(views, names_planned_by(views, WARM_UP))


def _first_of(shown: SweepPlanned) -> SweepPlanned:
    """The demonstrations at the first seeds, which tell early how many will pass."""
    seeds = set(list(dict.fromkeys(spec.env_seed for spec in shown.specs))[:_FIRST_SEEDS])
    return shown.model_copy(update={"specs": tuple(spec for spec in shown.specs if spec.env_seed in seeds)})


def _share(success: int) -> str:
    return f"{success / _MICRO:.2f}"
