"""Learning on training seeds: sweep, fail, propose, try, promote; task by task, with what all have learned so far."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agents.envs.miniwob.environment import MiniWob
from agents.executors.executor import Executor
from agents.rollouts.sweep import SeedSweep
from api.course import Course
from api.house import House
from api.sweeps.jobs import Reporter
from api.sweeps.plan import next_sweep_name, plan, play_sweep
from eventlog.events import SweepPlanned, Template, Trials
from projections.memories import candidacies
from projections.rewards import REWARDS

ALL_GROUPS = Trials(treated_micro=1_000_000, withheld_micro=0)
_LOOKED_AT = 2


@dataclass(frozen=True, slots=True)
class Learner:
    """What all tasks learn with. A round looks at runs that play memory as it is, then tries what they proposed.

    It takes two fresh seeds to look, and `seeds` to try, each with a plain and a treated sibling.
    """

    house: House
    executor: Executor
    course: Course
    reporter: Reporter
    seeds: int
    rounds: int

    def learn(self, environment: MiniWob) -> int:
        """Go on until no run fails, nothing is left to try, or the rounds are over; says how many runs it took."""
        template, runs, first = environment.task.template(), 0, 0
        for _ in range(self.rounds):
            look = self._swept(environment, SeedSweep("", [template], range(first, first + _LOOKED_AT)))
            runs, first = runs + len(look.specs), first + _LOOKED_AT
            if not self._has_failed(look) or not self._is_open(template):
                break
            seeds = range(first, first + self.seeds)
            tried = self._swept(environment, SeedSweep("", [template], seeds, 2), trials=ALL_GROUPS)
            runs, first = runs + len(tried.specs), seeds.stop
        return runs

    def _swept(self, environment: MiniWob, drawn: SeedSweep, trials: Trials | None = None) -> SweepPlanned:
        """Play a sweep. Recovery proposes where nothing is tried: it need not look at the same failure twice."""
        house, site = self.house, environment.name
        sweep = plan(
            house,
            house.views(),
            site,
            replace(drawn, sweep=next_sweep_name(house.store, site)),
            rng_seed=self.course.rng_seed,
            trials=trials,
            learns=trials is None,
            executor=self.executor,
        )
        play_sweep(house, environment, sweep, self.course, self.reporter, self.executor)
        return sweep

    def _has_failed(self, sweep: SweepPlanned) -> bool:
        """Whether a run failed; one that is missing says nothing."""
        return any(not reward.passed for reward in self.house.views().find(REWARDS, f"{sweep.sweep}__").values())

    def _is_open(self, template: Template) -> bool:
        """Whether something that a run of this task proposed is on trial."""
        states = candidacies(self.house.views()).values()
        return any(f"__{template.template_id}__" in state.proposed_by for state in states if state.is_on_trial)
