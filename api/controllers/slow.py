"""The controller of the slow loop: sweep, dataset, training, gate, repeat. The next step is read from the log alone.

It never loads weights itself: the executor that uses them is injected, and training runs in a separate process.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from agents.envs.environment import Environment
from agents.executors.by_weights import refuse_unserved
from agents.executors.executor import Executor
from agents.rollouts.sweep import SeedSweep
from agents.suites.in_log import VersionedSuite
from eventlog.events import BenchmarkFrozen, SweepPlanned, Template
from eventlog.weights_folder import Base
from gate.benchmark import freeze_benchmark
from gate.renewal import draw_fresh_seeds, seed_ranges
from projections.benchmarks import BENCHMARKS
from projections.trainings import TRAININGS

from ..course import SLOW_CONTROLLER
from ..datasets import freeze as datasets
from ..environments.admission import see_admission
from ..environments.suites import course_within, pin_suite
from ..errors import DatasetErased, DatasetWithdrawn, EmptyDataset, OtherTasks, Unknown
from ..evaluations.benchmarks import (
    freeze_on,
    judged_tasks,
    refuse_unfreezable,
    renew,
    size_in_words,
    unavailable_instances,
)
from ..evaluations.evaluate import challenge, play_and_settle
from ..history.disown import refuse_forged
from ..house import House
from ..locks import only_controller
from ..queries.benchmarks import benchmark_seeds
from ..queries.champion import present_champion
from ..queries.checkpoints import find_weights
from ..queries.facts import require
from ..queries.sweeps import sweeps_on
from ..reporter import Reporter
from ..sweeps.missing import is_in_vain, nothing_graded
from ..sweeps.plan import first_facts, kept_to_judge, next_sweep_name, plan, site_templates
from ..sweeps.play import play_sweep
from ..sweeps.seeds import fresh_seeds
from ..training.errors import NoBase, TrainingEnded
from ..training.stage_process import PROCESS_ENDED
from ..training.stages import Stage, describe_measures, train_stage, watch_progress
from ..training.weights import base_of
from .budgets import close_course, open_course
from .rounds import never
from .slow_next import (
    MOST_ATTEMPTS,
    SlowCourse,
    SlowNext,
    SlowRound,
    benchmark_name,
    decide_slow,
    policy_benchmark,
    rounds_on,
    rounds_so_far,
)
from .warmup_next import present_base

Serving = Callable[[Base], AbstractContextManager[Executor]]
"""Start an executor on a base model. It can play the base (`base`) and every checkpoint on it, named by digest."""

WarmUp = Callable[[House], str]
"""Make the first base model in a house and return its digest. Resumes an interrupted warm-up from the log."""


def tasks_of(client: Environment, course: SlowCourse, suite: VersionedSuite | None = None) -> tuple[Template, ...]:
    """Templates of the tasks that a course plays on a site. Raises Unknown, and what site_templates raises."""
    found = site_templates(client, None if suite is None else suite.suite)
    known_tasks = {template.oracle_task_id: template for template in found}
    for task in course.tasks:
        if task not in known_tasks:
            raise Unknown(what="task of the site", actual=task, way_out=f"It grades {', '.join(sorted(known_tasks))}.")
    return tuple(known_tasks[task] for task in course.tasks or sorted(known_tasks))


@dataclass
class SlowController:
    """The slow loop over one site. Sweeps and both arms of an evaluation are played by the executor of `serving`.

    `base` names a base model. None takes the last one warmed up by hand, else the champion's, else the one that
    `warm_up` makes or has made. `suite` has the tasks (None: `run` takes the suite of the site and brings it in). The
    course stays open, and the next run resumes it, before a further round where `is_turn_over`.
    """

    house: House
    client: Environment
    site: str
    course: SlowCourse
    reporter: Reporter
    serving: Serving
    base: str | None = None
    warm_up: WarmUp | None = None
    admit: Callable[[House], None] | None = None
    suite: VersionedSuite | None = None
    is_turn_over: Callable[[], bool] = never
    _barren: set[str] = field(default_factory=set)
    _died: list[str] = field(default_factory=list)

    def run(self) -> str:
        """Play rounds until all are done. Returns the reason for stopping.

        Raises NothingGraded if every run of a round is missing; such a round does not count. Also ControllerBusy,
        ForgedEvents, NotAdmitted, NoBase, OtherTasks, LockLost, and what refuse_unserved raises of the champion.
        """
        with only_controller(self.house, self.site) as house:
            refuse_forged(house.views())
            return replace(self, house=house)._run()

    def _run(self) -> str:
        first_facts(self.house)
        see_admission(self.house, self.client, self.site, self.admit)
        self.suite = self.suite or pin_suite(self.house, self.client, self.site)
        self.course = replace(self.course, sizes=course_within(self.course.sizes, self.suite.suite))
        is_frozen = benchmark_name(self.site) in self.house.views().find(BENCHMARKS)
        if is_frozen:
            self._refuse_other_tasks()
        else:  # before a warm-up plays anything
            refuse_unfreezable(self.house, self._benchmark())
        base = self._base()
        if not is_frozen:
            freeze_on(self.house, self._benchmark(), SLOW_CONTROLLER)
        with self.serving(base) as executor:
            refuse_unserved(executor, (present_champion(self.house.views()).pointed_artifact(),))
            return self._rounds(base, executor)

    def _rounds(self, base: Base, executor: Executor) -> str:
        while True:
            views = self.house.views()
            graded = [each for each in rounds_on(self.house.store, views, self.site) if not is_in_vain(views, each)]
            rounds = rounds_so_far(views, graded, self.course, self.site, base.digest)
            step = decide_slow(
                views,
                rounds,
                course=self.course,
                site=self.site,
                base=base.digest,
                executor=executor,
                barren=self._barren,
            )
            if step.what == "stop":
                close_course(self.house.store, views, self.site, step.why, "slow")
                return step.why
            if step.what == "plan_sweep" and self.is_turn_over():
                return "the turn is over; the next run resumes from here"
            if step.what != "freeze":  # a sweep without usable rows freezes nothing
                open_course(self.house.store, views, self.site, self.course)
            if step.what == "plan_sweep":
                self._plan(step.weights, executor)
            else:
                self._do(step, require(step.round), base, executor)

    def _do(self, step: SlowNext, last: SlowRound, base: Base, executor: Executor) -> None:
        match step.what:
            case "play_sweep":
                sizes = replace(self.course.sizes, kinds=frozenset())  # lessons in words are the fast loop's
                play_sweep(self.house, self.client, last.sweep, sizes, self.reporter, executor)
                self._refuse_vain(last.sweep)
            case "freeze":
                self._freeze(last)
            case "train":
                self._train(last, base)
            case "renew_benchmark":
                self._renew(step.why)
            case "open_evaluation":
                self._open(last, executor)
            case "play_arms":
                name = require(last.verdict).evaluation
                course = self.course.sizes
                self.reporter.say(play_and_settle(self.house, self.client, name, course, self.reporter, executor))

    def _refuse_vain(self, sweep: SweepPlanned) -> None:
        """Close the course and raise NothingGraded if every run is missing, because the next round would end alike."""
        views = self.house.views()
        if is_in_vain(views, sweep):
            error = nothing_graded(self.house.store, views, sweep.sweep)
            close_course(self.house.store, views, self.site, f"every run of {sweep.sweep} is missing", "slow")
            raise error

    def _base(self) -> Base:
        """The base model: named, or warmed up by hand, or the champion's, or warmed up now. Raises NoBase."""
        views, named = self.house.views(), self.base
        if named is None and (digest := present_base(views)) is not None:
            return base_of(self.house, None, digest)
        if named is None:
            if self.warm_up is None:
                raise NoBase(actual="none was named, and none was warmed up (`flywheel train warmup`)")
            if not rounds_on(
                self.house.store, views, self.site
            ):  # with rounds played, the loop may already be finished
                open_course(self.house.store, views, self.site, self.course)
            named = self.warm_up(self.house)
        return base_of(self.house, named, None)

    def _benchmark(self) -> BenchmarkFrozen:
        """A benchmark of the course's size, at seeds that no run has used and the fast loop has not reserved."""
        templates, views = tasks_of(self.client, self.course, self.suite), self.house.views()
        name, sizes, seeds = benchmark_name(self.site), self.course.sizes, require(self.suite).suite.seeds
        used = unavailable_instances(self.house, views) | kept_to_judge(views, self.site, templates, seeds)
        without, among = judged_tasks(self.house, self.site, templates), seed_ranges(seeds)
        visible, sealed = draw_fresh_seeds(
            name, self.site, without, sizes.amounts(len(without)), used, sizes.rng_seed, among
        )
        return freeze_benchmark(name, self.site, without, visible, sealed, sizes.repeats)

    def _refuse_other_tasks(self) -> None:
        """Raise OtherTasks if the benchmark judges other tasks than the course plays."""
        benchmark = policy_benchmark(self.house.views(), self.site)
        judged = {template.oracle_task_id for template in benchmark.templates}
        played = {template.oracle_task_id for template in tasks_of(self.client, self.course, self.suite)}
        if judged != played:
            actual, expected = ", ".join(sorted(played)), ", ".join(sorted(judged))
            raise OtherTasks(benchmark=benchmark.benchmark, actual=actual, expected=expected)

    def _plan(self, weights: str, executor: Executor) -> None:
        sizes, views = self.course.sizes, self.house.views()
        generator = SeedSweep(
            next_sweep_name(self.house.store, views, self.site),
            tasks_of(self.client, self.course, self.suite),
            fresh_seeds(sweeps_on(views, self.site), sizes, held=benchmark_seeds(views, self.site)),
            sizes.siblings,
            (self.course.temperature_micro,),
        )
        planned = plan(
            self.house,
            views,
            self.site,
            generator,
            rng_seed=sizes.rng_seed,
            executor=executor,
            actor=SLOW_CONTROLLER,
            weights=weights,
            suite=None if self.suite is None else str(self.suite),
        )
        self.reporter.say(f"{planned.sweep} will be played with {planned.artifact}")

    def _freeze(self, last: SlowRound) -> None:
        try:
            made = datasets.refuse_empty(
                datasets.make_rows(self.house.store, self.house.blobs, self.house.views(), last.query)
            )
        except EmptyDataset as error:
            self._barren.add(last.sweep.sweep)
            return self.reporter.say(f"{last.sweep.sweep} gave no training rows: {error}")
        digest = datasets.freeze_dataset(self.house.store, made, SLOW_CONTROLLER)
        rows = f"{made.height} rows of {made.groups} groups"
        return self.reporter.say(f"froze dataset {digest[:8]} for {made.query.kind}: {rows}")

    def _train(self, last: SlowRound, base: Base) -> None:
        views = self.house.views()
        parent = None if last.parent is None else find_weights(views, last.parent)
        stage = Stage(require(last.dataset), base, parent, last.stage)
        with self.reporter.phase(stage.name, last.stage.steps) as advance:
            try:
                saved = train_stage(self.house, stage, watch_progress(advance, self.reporter.say), SLOW_CONTROLLER)
            except TrainingEnded as error:
                if self._left_no_event(stage, last) and not self._may_pass(stage, error):
                    self._barren.add(last.sweep.sweep)
                return self.reporter.say(str(error))
            except (DatasetErased, DatasetWithdrawn, datasets.DatasetDiffers) as error:
                self.reporter.say(f"freezing a new dataset of {last.sweep.sweep}: {error}")
                return self._freeze(last)
        told = describe_measures(self.house.views(), saved)
        return self.reporter.say(f"saved checkpoint {saved.checkpoint[:8]} ({saved.algorithm}); last step: {told}")

    def _left_no_event(self, stage: Stage, last: SlowRound) -> bool:
        """True if a stage ended before it appended an event: then the log does not show that its round is over."""
        return self.house.views().get(TRAININGS, stage.name) == last.training

    def _may_pass(self, stage: Stage, error: TrainingEnded) -> bool:
        """True if a stage whose process died may be retried; the same rule as in decide_slow."""
        self._died.append(stage.name)
        return error.facts["error"] == PROCESS_ENDED and self._died.count(stage.name) < MOST_ATTEMPTS

    def _renew(self, why: str) -> None:
        present, rng_seed = policy_benchmark(self.house.views(), self.site), self.course.sizes.rng_seed
        amounts = self.course.sizes.amounts(len(present.templates))
        fresh = renew(self.house, present, SLOW_CONTROLLER, rng_seed=rng_seed, amounts=amounts)
        self.reporter.say(f"{why}; froze {fresh.benchmark}: {size_in_words(fresh)}")

    def _open(self, last: SlowRound, executor: Executor) -> None:
        """Challenge the champion with the checkpoint and the champion's memory, so that only the weights differ."""
        views = self.house.views()
        challenger = present_champion(views).pointed_artifact().model_copy(update={"weights": require(last.checkpoint)})
        benchmark = policy_benchmark(views, self.site)
        evaluation = challenge(self.house, benchmark, challenger, self.course.sizes.rules, executor, SLOW_CONTROLLER)
        self.reporter.say(f"{evaluation}: challenger {challenger} against champion {present_champion(views).name}")
