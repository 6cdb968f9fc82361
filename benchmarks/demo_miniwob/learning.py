"""Learning on training seeds: sweep, fail, propose, try, promote; task by task, with what all have learned so far."""

from __future__ import annotations

from dataclasses import dataclass

from agents.envs.miniwob.environment import MiniWob
from agents.executors.executor import Executor
from agents.rollouts.sweep import SeedSweep
from api.decide import Course
from api.house import House
from api.playing import Reporter
from api.sweeping import next_name, plan, play_sweep
from eventlog.events import SweepPlanned, Template, Trials
from projections.memories import candidacies
from projections.rewards import REWARDS

ALL_GROUPS = Trials(treated_micro=1_000_000, withheld_micro=0)
_FIRST_SEEDS = 3


@dataclass(frozen=True, slots=True)
class Learner:
    """What all tasks learn with. A round takes `seeds` fresh seeds a task, each with a plain and a treated sibling."""

    house: House
    executor: Executor
    course: Course
    reporter: Reporter
    seeds: int
    rounds: int

    def learn(self, environment: MiniWob) -> int:
        """Go on until no plain run fails, nothing is left to try, or the rounds are over; says how many runs."""
        template, runs, first = environment.task.template(), 0, 0
        for number in range(self.rounds):
            seeds = range(first, first + (self.seeds if number else _FIRST_SEEDS))
            sweep = self._swept(environment, template, seeds, siblings=2 if number else 1)
            runs, first = runs + len(sweep.specs), seeds.stop
            if not self._has_failed(sweep) or not self._is_open(template):
                break
        return runs

    def _swept(self, environment: MiniWob, template: Template, seeds: range, *, siblings: int) -> SweepPlanned:
        house, site = self.house, environment.name
        generator = SeedSweep(next_name(house.store, site), [template], seeds, siblings)
        rng_seed = self.course.rng_seed
        sweep = plan(
            house, house.views(), site, generator, rng_seed=rng_seed, trials=ALL_GROUPS, executor=self.executor
        )
        play_sweep(house, environment, sweep, self.course, self.reporter, self.executor)
        return sweep

    def _has_failed(self, sweep: SweepPlanned) -> bool:
        """Whether a run failed that played its artifact as it is."""
        rewards = self.house.views().find(REWARDS, f"{sweep.sweep}__")
        plain = [rewards.get(spec.spec_id) for spec in sweep.specs if spec.is_plain]
        return any(reward is not None and not reward.passed for reward in plain)

    def _is_open(self, template: Template) -> bool:
        """Whether something that a run of this task proposed is on trial, or was promoted and not yet played."""
        states = candidacies(self.house.views()).values()
        return any(f"__{template.template_id}__" in state.proposed_by for state in states if state.status != "retired")
