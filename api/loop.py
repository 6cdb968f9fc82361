"""The controller: says what is next, and has it done, until there is nothing more to do.

What is next is read from the log alone, so a killed process resumes where the log stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agents.envs.environment import Environment
from agents.executors.executor import Executor
from agents.learning.memory import remember
from agents.rollouts.play import PLAN
from agents.rollouts.sweep import Generator, SeedSweep
from agents.rollouts.tasks import CLUSTER
from eventlog.events import (
    BenchmarkFrozen,
    SweepPlanned,
    Template,
)
from gate.benchmark import freeze
from gate.renewal import Amounts
from projections.benchmarks import BENCHMARKS
from projections.contamination import contaminated_runs
from projections.failures import FAILURES, clusters
from projections.rewrites import REWRITES
from projections.views import PostgresViews

from .admitting import see_admission
from .benchmarks import freeze_on, renew, size_in_words, without_plans
from .decide import (
    ACTOR,
    Course,
    benchmark_name,
    champion,
    decide,
    describe,
    fresh_seeds,
    known,
    present_benchmark,
    too_small,
    unended,
)
from .errors import TooSmall
from .evaluate import challenge, play_and_settle
from .exclusive import only_controller
from .executing import in_words, plays
from .house import House
from .playing import Reporter
from .sweeping import (
    Draw,
    biased,
    cold_now,
    credit,
    first_facts,
    next_name,
    plan,
    play_sweep,
    rounds_of,
    siblings_for_trials,
    site_templates,
    sweeps_of,
)


@dataclass(frozen=True)
class Controller:
    """The fast loop over one site. Sweeps and both arms of an evaluation are played by the same executor.

    `admit` probes and admits the site where nobody has yet (None: somebody has to, first).
    """

    house: House
    client: Environment
    site: str
    course: Course
    reporter: Reporter
    executor: Executor = PLAN
    admit: Callable[[], None] | None = None

    def run(self) -> str:
        """Go on until a verdict was reached or nothing is left to try; says why it stopped.

        Raises ControllerBusy, NotAdmitted.
        """
        with only_controller(self.house.engine, self.site):
            return self._run()

    def _run(self) -> str:
        self._begin()
        for sweep in self._sweeps():
            credit(self.house, sweep)
        self._tell_what_is_left_to_others()
        rounds = 0
        while True:
            views = self.house.views()
            step = decide(
                views,
                self._sweeps(),
                rounds=rounds,
                course=self.course,
                site=self.site,
                last=self._last(),
                executor=self.executor,
                without=cold_now(views),
            )
            match step.what:
                case "plan_sweep":
                    self._plan(views)
                    rounds += 1
                case "play_sweep":
                    self._play_sweep(views, known(step.sweep))
                case "renew_benchmark":
                    self._renew(views, step.why)
                case "open_evaluation":
                    self._open(views)
                case "play_arms":
                    name = known(step.evaluation)
                    return play_and_settle(self.house, self.client, name, self.course, self.reporter, self.executor)
                case "stop":
                    return step.why

    def _tell_what_is_left_to_others(self) -> None:
        views = self.house.views()
        for sweep in self._sweeps():
            if not plays(self.executor, sweep) and (left := unended(views, sweep.specs, f"{sweep.sweep}__")):
                who = in_words(sweep.executor, sweep.model)
                self.reporter.say(f"{sweep.sweep} is left alone: its {len(left)} open runs were planned for {who}")

    def _begin(self) -> None:
        """The facts without which nothing can be judged: prices, a first champion, an admitted site, a benchmark."""
        first_facts(self.house)
        see_admission(self.house, self.client, self.site, self.admit)
        if benchmark_name(self.site) not in self.house.views().find(BENCHMARKS):
            freeze_on(self.house, self._benchmark(), ACTOR)

    def _benchmark(self) -> BenchmarkFrozen:
        course = self.course
        return freeze(
            benchmark_name(self.site),
            self.site,
            without_plans(self._templates()),
            course.visible_seeds,
            course.sealed_seeds,
            course.repeats,
        )

    def _renew(self, views: PostgresViews, why: str) -> None:
        """Another benchmark of the same tasks, as large as the course says."""
        course = self.course
        amounts = Amounts(len(course.visible_seeds), len(course.sealed_seeds), course.repeats)
        present = present_benchmark(views, self.site)
        if amounts.sealed * len(present.templates) < course.rules.min_pairs:
            raise TooSmall(benchmark=present.benchmark, actual=too_small(present, course.rules))
        fresh = renew(self.house, present, ACTOR, rng_seed=course.rng_seed, amounts=amounts)
        self.reporter.say(f"{why}; froze {fresh.benchmark}: {size_in_words(fresh)}")

    def _templates(self) -> tuple[Template, ...]:
        """The site's tasks that rewrites can cure: of those whose address drifts."""
        return tuple(template for template in site_templates(self.client) if template.cluster == CLUSTER)

    def _sweeps(self) -> tuple[SweepPlanned, ...]:
        return sweeps_of(self.house.store, self.site)

    def _last(self) -> SweepPlanned | None:
        rounds = rounds_of(self.house.store, self.site)
        return rounds[-1] if rounds else None

    def _plan(self, views: PostgresViews) -> None:
        see_admission(self.house, self.client, self.site, None)
        before = self._sweeps()
        generator = self._generator(views, before)
        plan(
            self.house,
            views,
            self.site,
            generator,
            rng_seed=self.course.rng_seed,
            trials=self.course.trials,
            executor=self.executor,
            kinds=self.course.kinds,
        )

    def _generator(self, views: PostgresViews, before: Sequence[SweepPlanned]) -> Generator:
        """More instances where the last round failed; all tasks alike in a first one, or where nothing failed."""
        course, found, name = self.course, self._templates(), next_name(self.house.store, self.site)
        siblings = siblings_for_trials(views, course.siblings)
        last = self._last()
        if last is not None:
            instances = course.seeds_per_round * len(found)
            draw = Draw(fresh_seeds(before, course, instances), instances, siblings, course.rng_seed)
            towards_failures = biased(views, self.site, name, found, "template", draw, of=last.sweep)
            if towards_failures.allocation() and len(draw.seeds) == instances:
                return towards_failures
        return SeedSweep(name, found, fresh_seeds(before, course), siblings)

    def _play_sweep(self, views: PostgresViews, sweep: SweepPlanned) -> None:
        before = {key: state.status for key, state in views.find(REWRITES).items()}
        play_sweep(self.house, self.client, sweep, self.course, self.reporter, self.executor)
        self._tell(sweep, before=before)

    def _tell(self, sweep: SweepPlanned, before: Mapping[str, str]) -> None:
        views = self.house.views()
        prefix = f"{sweep.sweep}__"
        for cluster in clusters(views.find(FAILURES, prefix).values(), contaminated_runs(views, prefix)):
            where = f" at “{cluster.step_intent}”" if cluster.step_intent else ""
            self.reporter.say(f"{len(cluster.runs)} runs of {cluster.template} failed: {cluster.failure_class}{where}")
        for key, state in views.find(REWRITES).items():
            if key not in before:
                self.reporter.say(f"proposed {key}: {describe(state.change)}, found in {state.proposed_by}")
            elif state.status != before[key]:
                self.reporter.say(f"{state.status} {key} after {state.wins} wins and {state.losses} losses")

    def _open(self, views: PostgresViews) -> None:
        challenger, blob = remember(
            views, champion(views).pointed().weights, without=cold_now(views), kinds=self.course.kinds
        )
        self.house.blobs.put([blob])
        benchmark = present_benchmark(views, self.site)
        evaluation = challenge(self.house, benchmark, challenger, self.course.rules, self.executor)
        self.reporter.say(f"{evaluation}: challenger {challenger} against champion {champion(views).name}")
