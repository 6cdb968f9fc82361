"""Learning on training seeds, task by task with shared memory: sweep, propose after failures, try, promote."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agents.envs.miniwob.environment import MiniWob
from agents.executors.executor import Executor
from agents.rollouts.sweep import SeedSweep
from api.course import Course
from api.house import House
from api.reporter import Reporter
from api.sweeps.plan import next_sweep_name, plan, site_templates
from api.sweeps.play import play_sweep
from eventlog.events import SweepPlanned, Template, Trials
from projections.memories import candidacies
from projections.rewards import REWARDS

ALL_GROUPS = Trials(treated_micro=1_000_000, withheld_micro=0)
_LOOKED_AT = 2


@dataclass(frozen=True, slots=True)
class Learner:
    """Learning of all tasks. A round plays the current memory, then runs trials of the proposals from its failures.

    The first sweep of a round uses two new seeds. The trials use `seeds` new seeds, each with a control run and a run
    with the candidate.
    """

    house: House
    executor: Executor
    course: Course
    reporter: Reporter
    seeds: int
    rounds: int

    def learn(self, environment: MiniWob) -> int:
        """Learn until no run fails, no candidate is left to try, or rounds are used up; return the number of runs."""
        template, runs, first = site_templates(environment)[0], 0, 0
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
        """Play a sweep. Recovery proposes only in sweeps without trials, to examine each failure once."""
        house, site = self.house, environment.name
        sweep = plan(
            house,
            house.views(),
            site,
            replace(drawn, sweep=next_sweep_name(house.store, house.views(), site)),
            rng_seed=self.course.rng_seed,
            trials=trials,
            learns=trials is None,
            executor=self.executor,
        )
        play_sweep(house, environment, sweep, self.course, self.reporter, self.executor)
        return sweep

    def _has_failed(self, sweep: SweepPlanned) -> bool:
        """True if a run failed; missing runs are ignored."""
        return any(not reward.passed for reward in self.house.views().find(REWARDS, f"{sweep.sweep}__").values())

    def _is_open(self, template: Template) -> bool:
        """True if a proposal from a run of this task is on trial."""
        states = candidacies(self.house.views()).values()
        return any(f"__{template.template_id}__" in state.proposed_by for state in states if state.is_on_trial)
