"""The controller: says what is next, and has it done, until there is nothing more to do.

What is next is read from the log alone, so a killed process resumes where the log stands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from agents.envs.admission import check_admitted
from agents.envs.client import EnvClient
from agents.envs.errors import NotAdmitted
from agents.learning.credit import credits_of
from agents.learning.memory import forget_everything, piece_of, remember
from agents.rewards import DEFAULT_PRICES
from agents.rollouts.play import Job
from agents.rollouts.sweep import SeedSweep, planned
from agents.rollouts.tasks import CLUSTER, templates
from eventlog.events import (
    BenchmarkFrozen,
    ChampionPointed,
    SweepPlanned,
    Template,
)
from eventlog.store import Append
from gate.benchmark import freeze
from projections.benchmarks import BENCHMARKS, benchmark_instances
from projections.failures import FAILURES, clusters
from projections.rewards import REWARDS
from projections.rewrites import REWRITES
from projections.runs import RUNS
from projections.views import PostgresViews

from .decide import ACTOR, BASE, Course, benchmark_name, champion, decide, describe, fresh_seeds, known, unended
from .evaluate import challenge, play_and_settle
from .exclusive import only_controller
from .house import House
from .playing import Reporter, pieces_of, play_jobs


@dataclass(frozen=True)
class Controller:
    """The fast loop over one site; `admit` probes and admits it where nobody has yet (None: somebody has to, first)."""

    house: House
    client: EnvClient
    site: str
    course: Course
    reporter: Reporter
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
            self._credit(sweep)
        rounds = 0
        while True:
            views = self.house.views()
            step = decide(views, self._sweeps(), rounds=rounds, course=self.course, site=self.site)
            match step.what:
                case "plan_sweep":
                    self._plan(views)
                    rounds += 1
                case "play_sweep":
                    self._play_sweep(views, known(step.sweep))
                case "open_evaluation":
                    self._open(views)
                case "play_arms":
                    return play_and_settle(self.house, self.client, known(step.evaluation), self.course, self.reporter)
                case "stop":
                    return step.why

    def _begin(self) -> None:
        """The facts without which nothing can run: prices, a first champion, an admitted site, a frozen benchmark."""
        artifact, blob = forget_everything(BASE)
        self.house.blobs.put([blob])
        first = ChampionPointed(artifact=artifact, by="genesis", reason="the bare plans", evaluation=None)
        self.house.store.append(
            [
                Append("prices", (DEFAULT_PRICES,), ACTOR, expect=0, key="prices:1"),
                Append("champion", (first,), ACTOR, expect=0, key="champion:genesis"),
            ]
        )
        self._see_admission()
        frozen = self._benchmark()
        key = f"freeze:{frozen.benchmark}"
        self.house.store.append([Append(f"benchmark/{frozen.benchmark}", (frozen,), ACTOR, expect=0, key=key)])

    def _see_admission(self) -> None:
        """Only an admitted site is swept or frozen into a benchmark. Raises NotAdmitted."""
        try:
            self._check_admission()
        except NotAdmitted:
            if self.admit is None:
                raise
            self.admit()
            self._check_admission()

    def _check_admission(self) -> None:
        check_admitted(self.house.views(), self.site, self.client.health().tasks)

    def _benchmark(self) -> BenchmarkFrozen:
        course = self.course
        return freeze(
            benchmark_name(self.site),
            self.site,
            self._templates(),
            course.visible_seeds,
            course.sealed_seeds,
            course.repeats,
        )

    def _templates(self) -> tuple[Template, ...]:
        """The site's tasks that rewrites can cure: of those whose address drifts."""
        found = templates({task.task_id: task.instruction for task in self.client.health().tasks})
        return tuple(template for template in found if template.cluster == CLUSTER)

    def _sweeps(self) -> tuple[SweepPlanned, ...]:
        found = (recorded.event for recorded in self.house.store.read(types=["SweepPlanned"]))
        return tuple(event for event in found if isinstance(event, SweepPlanned) and event.environment == self.site)

    def _plan(self, views: PostgresViews) -> None:
        self._check_admission()
        before = self._sweeps()
        number = len(before) + 1
        artifact, blob = remember(views, champion(views).pointed().weights)
        self.house.blobs.put([blob])
        seeds = fresh_seeds(before, self.course)
        candidates = sorted(key for key, state in views.find(REWRITES).items() if state.status == "candidate")
        event = planned(
            SeedSweep(f"{self.site}-{number}", self._templates(), seeds, self.course.siblings),
            self.site,
            artifact,
            rng_seed=self.course.rng_seed,
            candidates=candidates,
            frozen=benchmark_instances(views.find(BENCHMARKS).values()),
        )
        self.house.store.append([Append(f"sweep/{event.sweep}", (event,), ACTOR, expect=0, key=f"sweep:{event.sweep}")])

    def _play_sweep(self, views: PostgresViews, sweep: SweepPlanned) -> None:
        waiting = unended(views, sweep.specs, f"{sweep.sweep}__")
        by_id = {template.template_id: template for template in sweep.templates}
        pieces = pieces_of(self.house, sweep.artifact)
        rewrites = views.find(REWRITES)
        jobs = [
            Job(
                spec=spec,
                template=by_id[spec.template],
                environment=self.site,
                artifact=sweep.artifact,
                pieces=pieces,
                candidate=None if spec.candidate is None else piece_of(rewrites[spec.candidate]),
                arm=None,
                learns=True,
            )
            for spec in waiting
        ]
        play_jobs(
            self.house, self.client, f"sweep {sweep.sweep} with {sweep.artifact}", jobs, self.course, self.reporter
        )
        self._credit(sweep)
        self._tell(sweep, before=rewrites.keys())

    def _credit(self, sweep: SweepPlanned) -> None:
        """Wins and losses of a sweep that has ended, in its order; one that goes on would be credited out of order."""
        views, prefix = self.house.views(), f"{sweep.sweep}__"
        if unended(views, sweep.specs, prefix):
            return
        runs, rewards = views.find(RUNS, prefix), views.find(REWARDS, prefix)
        self.house.store.append(credits_of(sweep.specs, runs, rewards, ACTOR))

    def _tell(self, sweep: SweepPlanned, before: Collection[str]) -> None:
        views = self.house.views()
        for cluster in clusters(views.find(FAILURES, f"{sweep.sweep}__").values()):
            where = f" at “{cluster.step_intent}”" if cluster.step_intent else ""
            self.reporter.say(f"{len(cluster.runs)} runs of {cluster.template} failed: {cluster.failure_class}{where}")
        for key, state in views.find(REWRITES).items():
            if key not in before:
                self.reporter.say(f"proposed {key}: {describe(state.change)}, found in {state.proposed_by}")
            elif state.status == "promoted" and (state.promoted_since or 0) > sweep.artifact.memory.upto:
                self.reporter.say(f"promoted {key} after {state.wins} wins and {state.losses} losses")

    def _open(self, views: PostgresViews) -> None:
        challenger, blob = remember(views, champion(views).pointed().weights)
        self.house.blobs.put([blob])
        evaluation = challenge(self.house, self.site, challenger, self.course.rules)
        self.reporter.say(f"{evaluation}: challenger {challenger} against champion {champion(views).name}")
