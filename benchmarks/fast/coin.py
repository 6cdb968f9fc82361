"""A simulated site and executor: a run passes if a seeded coin toss succeeds. All other parts are real."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agents.envs.contract import Graded, Health, Instance, InstanceState, Mutation
from agents.envs.environment import Connected, instance_id
from agents.executors.executor import Assignment, Execution, Watch, no_verification
from agents.learning.occasions import occasion_at
from agents.learning.recovery.proposal import Proposal
from agents.plans import anchor_of
from eventlog.events import ReplaceUrl, Step, Template

WHOLE = 1_000_000
SITE = "coin"
CURED = "/cured"
Kind = Literal["rewrite", "hint"]
"""Kind of a planted candidate: anchored to a step, or matched by its occasion."""


@dataclass
class CoinSite(Connected):
    """An environment whose oracle returns the coin toss of an instance. Every seed has a distinct start state."""

    passed: dict[str, bool] = field(default_factory=dict)
    admin_url: str = "http://coin.invalid/"
    page_headers: Mapping[str, str] = field(default_factory=dict)
    opened: int = 0
    has_record: bool = True

    def disconnect(self) -> None:
        """Do nothing: there is no connection."""

    def health(self) -> Health:
        """Report that the site serves, and grades any task."""
        return Health(site=SITE, instances=len(self.passed), tasks=())

    def reset(self, seed: int, *, instance: Instance | str | None = None, repeat: int = 0) -> Instance:
        """Create an instance."""
        self.opened += 1
        name = f"coin-{self.opened}" if instance is None else instance_id(instance)
        return Instance(seed=seed, repeat=repeat, instance=name, url=f"http://coin.invalid/{seed}/{name}/")

    def oracle(self, instance: Instance | str, task_id: str) -> Graded:
        """Grade by the coin toss."""
        passed = self.passed[instance_id(instance)]
        return Graded(task_id=task_id, passed=passed, score_micro=WHOLE if passed else 0, reasons=(), diff={})

    def mutations(self, instance: Instance | str, since_id: int = 0) -> tuple[Mutation, ...]:  # noqa: ARG002 an Environment's
        """Return no mutations."""
        return ()

    def state(self, instance: Instance | str) -> InstanceState:
        """Return a state that is equal for all runs of a seed."""
        seed = instance.seed if isinstance(instance, Instance) else 0
        return InstanceState(seed=seed, counts={}, fingerprint=f"sha256:{seed:064x}")

    def close(self, instance: Instance | str) -> None:
        """Forget an instance."""
        self.passed.pop(instance_id(instance), None)


@dataclass(frozen=True)
class Coin:
    """Tosses a coin for each run: it passes with chance `base`, or `cured` if its plan holds a candidate (millionths).

    The toss depends only on the run's seed.
    """

    site: CoinSite
    base: int
    cured: int
    rng_seed: int
    name: str = "plan"
    offers_logprobs: bool = False

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:  # noqa: ARG002 an Executor's
        """Toss the coin of a run."""
        chance = self.cured if any(step.url == CURED for step in assignment.plan) else self.base
        toss = random.Random(f"{self.rng_seed}/{assignment.seed}").randrange(WHOLE)  # noqa: S311 a coin, not a secret
        self.site.passed[instance.instance] = toss < chance
        return Execution((), "completed")


def template_of(number: int) -> Template:
    """A task with one unique step that shares no word with other tasks, so its hints fit no other task."""
    step = Step(type="navigate", intent=f"page{number}", url=f"/page/{number}")
    return Template(
        template_id=f"t{number:04d}", cluster="c", oracle_task_id=f"t{number:04d}", instruction="go", plan_steps=(step,)
    )


def proposal_of(template: Template, kind: Kind = "rewrite") -> Proposal:
    """A candidate for the task's step; its effect is determined by the coin."""
    plan, change = template.plan_steps, ReplaceUrl(url=CURED)
    occasion = occasion_at(SITE, plan, 0) if kind == "hint" else None
    return Proposal(anchor_of(plan[0]), change, source="page_links", confidence=500_000, occasion=occasion)
