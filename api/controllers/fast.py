"""The controller of the fast loop: decides the next step, executes it, and repeats until nothing is left to do.

The next step is read from the log alone, so a killed process resumes where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial

from agents.envs.environment import Environment
from agents.executors.by_weights import refuse_unserved
from agents.executors.executor import Executor
from agents.learning.memory import content_reader
from agents.rollouts.play import PLAN
from agents.rollouts.sweep import Generator
from agents.suites.in_log import VersionedSuite
from agents.suites.tasks import refuse_planless
from eventlog.events import BenchmarkFrozen, SweepPlanned, Template
from gate.benchmark import deal_seeds, freeze_benchmark, specs
from gate.figures import count_noun, decimal
from gate.renewal import missing_tasks
from projections.benchmarks import BENCHMARKS
from projections.engine.views import PostgresViews
from projections.memories import candidacies
from projections.runs import PLANLESS

from ..course import CONTROLLER, Course
from ..environments.admission import see_admission
from ..environments.suites import course_within, pin_suite
from ..errors import TooSmall
from ..evaluations.benchmarks import freeze_on, judged_tasks, renew, size_in_words, without_plans
from ..evaluations.evaluate import challenge, challenger_on, concerns, play_and_settle
from ..history.disown import refuse_forged
from ..house import House
from ..locks import only_controller
from ..queries.benchmarks import first_benchmark_name, present_benchmark
from ..queries.champion import present_champion
from ..queries.courses import present_course
from ..queries.facts import require
from ..queries.runs import pending_specs
from ..queries.sweeps import last_round, open_sweeps, rounds_of
from ..reporter import Reporter
from ..sweeps.candidates import TrialPool, seeds_for_trials, siblings_for_one, siblings_for_trials, trial_pool
from ..sweeps.executors import audience_of, describe_executor, plays, recorded_as, recorded_name
from ..sweeps.missing import nothing_graded
from ..sweeps.plan import first_facts, plan, site_templates
from ..sweeps.play import make_up, play_sweep
from .budgets import CourseBooks, Spent, close_course, compute_spent, dollars_left, open_course, seeds_within, used_up
from .fast_next import FRUITLESS, Next, cover_tasks, decide
from .fast_round import RoundSize, round_generator
from .rounds import Watch, never, news, rounds_played, site_status, unseen

Pool = Callable[[], TrialPool]
"""Reads what can be tried, once: the more pieces there are, the longer it takes."""


@dataclass(frozen=True)
class Controller:
    """The fast loop over one site. Sweeps and both arms of an evaluation are played by the same executor.

    `admit` probes and admits a site that is not admitted yet (None: it must be admitted already). `watch` is called
    with the rounds and the site's status after every step. When `is_told_to_stop` returns True, the course stays open
    and the next run resumes it; so it does before a further round where `is_turn_over`. `suite` has the tasks (None:
    `run` takes the suite of the site and brings it in).
    """

    house: House
    client: Environment
    site: str
    course: Course
    reporter: Reporter
    executor: Executor = PLAN
    admit: Callable[[House], None] | None = None
    watch: Watch = unseen
    is_told_to_stop: Callable[[], bool] = never
    is_turn_over: Callable[[], bool] = never
    suite: VersionedSuite | None = None
    books: CourseBooks = field(default_factory=CourseBooks)

    def run(self) -> str:
        """Repeat rounds until the budget is spent or nothing is left to try. Returns the reason for stopping.

        Raises ControllerBusy, ForgedEvents, NotServed, NotAdmitted, NoPlan, NothingGraded, LockLost, and as pin_suite.
        """
        with only_controller(self.house, self.site) as house:
            refuse_forged(house.views())
            return replace(self, house=house)._begin()._run()

    def _run(self) -> str:
        make_up(self.house, self._open_sweeps(), self.course)
        self._tell_what_is_left_to_others()
        said: str | None = None
        while not self.is_told_to_stop():
            views = self.house.views()
            step, used = self.next_step(views)
            if step.what == "stop":
                why = said if said is not None and self._has_every_verdict(used) else step.why
                close_course(self.house.store, views, self.site, why)
                if step.is_in_vain:
                    raise nothing_graded(self.house.store, views, require(step.sweep).sweep)
                return why
            if step.what == "plan_sweep" and self.is_turn_over():
                break
            open_course(self.house.store, views, self.site, self.course)
            said = self._do(views, step, used) or said
            self._show()
        return "stopped on request; the next run resumes from here"

    def next_step(self, views: PostgresViews) -> tuple[Next, Spent]:
        """The next step that the log asks for and the budget allows, and what the course has used so far."""
        pool = cache(partial(self._candidates, views))
        store, name = self.house.store, recorded_name(self.executor)
        used = compute_spent(store, views, self.site, datetime.now(UTC), name, self.books)
        return self._within_budget(views, self._next(views, used, pool), used, pool), used

    def _next(self, views: PostgresViews, used: Spent, pool: Pool) -> Next:
        deciding = partial(
            decide,
            views,
            open_sweeps(self.house.store, views, self.site),
            rounds=used.rounds,
            course=self.course,
            site=self.site,
            on_trial=pool().names if used.rounds >= FRUITLESS else (),  # `decide` asks from there on
            last=last_round(self.house.store, views, self.site, self._templates(), recorded_as(self.executor)),
            executor=self.executor,
            now=datetime.now(UTC),
            void=used.void,
            scoped=lambda: challenger_on(self.house, views, self.course.kinds, self.site)[0],
        )
        step = deciding()
        if step.what not in {"open_evaluation", "renew_benchmark"}:
            return step
        if not self._is_concerned(views):
            return deciding(is_concerned=False)
        return cover_tasks(views, self.site, step, [each.oracle_task_id for each in self._templates()])

    def _is_concerned(self, views: PostgresViews) -> bool:
        """True if memory would change a run of any task of the course or of the benchmark."""
        own, held = self._templates(), {each.oracle_task_id for each in present_benchmark(views, self.site).templates}
        tasks = [each for each in self._every_template() if each in own or each.oracle_task_id in held]
        return concerns(self.house, views, self.course.kinds, self.site, tasks, self.executor)

    def _do(self, views: PostgresViews, step: Next, used: Spent) -> str | None:
        """Execute one step. Returns the gate's decision if the step led to one."""
        match step.what:
            case "plan_sweep":
                self._plan(views, used)
            case "play_sweep":
                self._play_sweep(views, require(step.sweep))
            case "renew_benchmark":
                self._renew(views, step.why)
            case "open_evaluation":
                self._open(views)
            case "play_arms":
                name = require(step.evaluation)
                said = play_and_settle(self.house, self.client, name, self.course, self.reporter, self.executor)
                self.reporter.say(said)
                return said
            case "stop":
                pass
        return None

    def _within_budget(self, views: PostgresViews, step: Next, used: Spent, pool: Pool) -> Next:
        """The step, or a stop if the budget does not allow it. Sweeps and evaluations already begun are finished."""
        if step.what in {"stop", "play_sweep", "play_arms"}:
            return step
        why = used_up(self.course, used)
        if why is None and step.what == "plan_sweep" and not self._seeds(used, pool):
            why = f"what is left of {self.course.max_runs} runs is not enough for a round"
        if why is None and step.what == "open_evaluation" and self.course.max_runs is not None:
            asked, left = len(specs(present_benchmark(views, self.site), "")), self.course.max_runs - used.runs
            why = f"the gate asks for {asked:,} runs, and {left:,} are left" if asked > left else None
        return step if why is None else Next("stop", why)

    def _has_every_verdict(self, used: Spent) -> bool:
        """True if the gate has reached the requested number of verdicts."""
        return self.course.max_verdicts is not None and used.verdicts >= self.course.max_verdicts

    def _show(self) -> None:
        views = self.house.views()
        since = 0 if (state := present_course(views, self.site)) is None else state.since
        rounds = rounds_of(self.house.store, self.site, since)
        self.watch(rounds_played(views, rounds), site_status(views, self.site))

    def _tell_what_is_left_to_others(self) -> None:
        views = self.house.views()
        for sweep in self._open_sweeps():
            if not plays(self.executor, sweep) and (left := pending_specs(views, sweep.specs, f"{sweep.sweep}__")):
                who = describe_executor(sweep.executor, sweep.model)
                self.reporter.say(f"{sweep.sweep} skipped: its {len(left)} pending runs need {who}")

    def _begin(self) -> Controller:
        """The controller with its suite. Appends what is missing for the gate: prices, champion, admission, benchmark.

        A benchmark is frozen last, when every task of it is known to be playable.
        """
        first_facts(self.house)
        refuse_unserved(self.executor, (present_champion(self.house.views()).pointed_artifact(),))
        see_admission(self.house, self.client, self.site, self.admit)
        follows_plan = self.executor.name not in PLANLESS
        suite = self.suite or pin_suite(self.house, self.client, self.site, follows_plan=follows_plan)
        own = replace(self, suite=suite, course=course_within(self.course, suite.suite))
        if follows_plan:
            refuse_planless(own._templates())
        if first_benchmark_name(self.site) not in self.house.views().find(BENCHMARKS):
            freeze_on(self.house, own._benchmark(), CONTROLLER)
        return own

    def _benchmark(self) -> BenchmarkFrozen:
        course, templates = self.course, judged_tasks(self.house, self.site, self._templates())
        names = [template.template_id for template in templates]
        visible, sealed = (deal_seeds(names, seeds) for seeds in (course.visible_seeds, course.sealed_seeds))
        return freeze_benchmark(first_benchmark_name(self.site), self.site, templates, visible, sealed, course.repeats)

    def _renew(self, views: PostgresViews, why: str) -> None:
        """Freeze a benchmark of the course's size with the same tasks, or the course's if the present one lacks any."""
        course, own, present = self.course, self._templates(), present_benchmark(views, self.site)
        is_short = missing_tasks(present, [each.oracle_task_id for each in own])
        templates = without_plans(own) if is_short else present.templates
        amounts = course.amounts(len(templates))
        if (size := amounts.sealed * len(templates)) < (least := course.rules.min_pairs):
            raise TooSmall(
                benchmark=present.benchmark, actual=f"{size} sealed instances, and the rules ask for {least}"
            )
        fresh = renew(self.house, present, CONTROLLER, rng_seed=course.rng_seed, amounts=amounts, templates=templates)
        alpha = f"with a new alpha of {decimal(fresh.alpha)} for {count_noun(fresh.challengers, 'challenger')}"
        self.reporter.say(f"{why}; froze {fresh.benchmark}: {size_in_words(fresh)}, {alpha}")

    def _templates(self) -> tuple[Template, ...]:
        """Templates of the site's tasks in the clusters of the course; all of them if it names no cluster."""
        wanted = self.course.clusters
        return tuple(each for each in self._every_template() if not wanted or each.cluster in wanted)

    def _every_template(self) -> tuple[Template, ...]:
        return site_templates(self.client, None if self.suite is None else self.suite.suite)

    def _open_sweeps(self) -> tuple[SweepPlanned, ...]:
        return open_sweeps(self.house.store, self.house.views(), self.site)

    def _candidates(self, views: PostgresViews) -> TrialPool:
        found = trial_pool(views, content_reader(self.house.blobs), self.course.kinds, self.house.embeddings)
        return found.among(self._templates(), self.site, audience_of(self.executor))

    def _seeds(self, used: Spent, pool: Pool) -> int:
        """Maximum number of seeds per task in the next round, given the runs that are left."""
        return seeds_within(
            self.course, used, lambda: siblings_for_trials(pool(), self.course.siblings) * len(self._templates())
        )

    def _plan(self, views: PostgresViews, used: Spent) -> None:
        see_admission(self.house, self.client, self.site, None)
        number, pool = used.rounds + 1, cache(partial(self._candidates, views))
        with self.reporter.phase(f"round {number}: choosing task instances", 2) as advance:
            generator = self._generator(views, self._seeds(used, pool), pool)
            advance()
            plan(
                self.house,
                views,
                self.site,
                generator,
                rng_seed=self.course.rng_seed,
                trials=self.course.trials,
                executor=self.executor,
                kinds=self.course.kinds,
                forgetting=self.course.forgetting,
                budget_left=dollars_left(self.course, used),
                suite=None if self.suite is None else str(self.suite),
                least=siblings_for_one(pool(), self.course.siblings),
            )
            advance()

    def _generator(self, views: PostgresViews, seeds: int, pool: Pool) -> Generator:
        siblings = siblings_for_trials(pool(), self.course.siblings)
        seeds = min(seeds, seeds_for_trials(pool(), self.course.siblings, self.course.seeds_per_round))
        temperatures = () if audience_of(self.executor) is None else (self.course.temperature_micro,)
        size = RoundSize(seeds, siblings, temperatures)
        return round_generator(self.house.store, views, self.site, self.course, self._templates(), size, self.executor)

    def _play_sweep(self, views: PostgresViews, sweep: SweepPlanned) -> None:
        before = {key: state.status for key, state in candidacies(views).items()}
        play_sweep(self.house, self.client, sweep, self.course, self.reporter, self.executor)
        for line in news(self.house.views(), sweep, before):
            self.reporter.say(line)

    def _open(self, views: PostgresViews) -> None:
        with self.reporter.phase("building the challenger from current memory", 2) as advance:
            challenger, blob = challenger_on(self.house, views, self.course.kinds, self.site)
            self.house.blobs.put([blob])
            advance()
            benchmark = present_benchmark(views, self.site)
            evaluation = challenge(
                self.house, benchmark, challenger, self.course.rules, self.executor, suite=self.suite
            )
            advance()
        self.reporter.say(f"{evaluation}: challenger {challenger} against champion {present_champion(views).name}")
