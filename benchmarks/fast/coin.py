"""The one thing that is not real: a site where a run passes when a seeded coin falls well, and who tosses it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

from agents.envs.contract import Graded, Health, Instance, InstanceState, Mutation
from agents.envs.environment import instance_id
from agents.executors.executor import Assignment, Execution, Watch, no_verification
from agents.learning.occasions import occasion_at
from agents.learning.recovery.proposal import Proposal
from agents.plans import anchor_of
from eventlog.events import ReplaceUrl, Step, Template

WHOLE = 1_000_000
SITE = "coin"
CURED = "/cured"
Kind = Literal["rewrite", "hint"]
"""What a planted candidate is: anchored to the step itself, or matched by its occasion."""


@dataclass
class CoinSite:
    """An environment whose oracle says how the coin of an instance fell. Every seed starts from a state of its own."""

    passed: dict[str, bool] = field(default_factory=dict)
    admin_url: str = "http://coin.invalid/"
    page_headers: Mapping[str, str] = field(default_factory=dict)
    opened: int = 0
    has_record: bool = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """There is no connection."""

    def health(self) -> Health:
        """It serves, and grades whatever it is asked."""
        return Health(site=SITE, instances=len(self.passed), tasks=())

    def reset(self, seed: int, *, instance: Instance | str | None = None, repeat: int = 0) -> Instance:
        """A fresh instance."""
        self.opened += 1
        name = f"coin-{self.opened}" if instance is None else instance_id(instance)
        return Instance(seed=seed, repeat=repeat, instance=name, url=f"http://coin.invalid/{seed}/{name}/")

    def oracle(self, instance: Instance | str, task_id: str) -> Graded:
        """Whether the coin fell well."""
        passed = self.passed[instance_id(instance)]
        return Graded(task_id=task_id, passed=passed, score_micro=WHOLE if passed else 0, reasons=(), diff={})

    def mutations(self, instance: Instance | str, since_id: int = 0) -> tuple[Mutation, ...]:  # noqa: ARG002 an Environment's
        """Nothing is ever changed."""
        return ()

    def state(self, instance: Instance | str) -> InstanceState:
        """The same for every run of a seed."""
        seed = instance.seed if isinstance(instance, Instance) else 0
        return InstanceState(seed=seed, counts={}, fingerprint=f"sha256:{seed:064x}")

    def close(self, instance: Instance | str) -> None:
        """Forget an instance."""
        self.passed.pop(instance_id(instance), None)


@dataclass(frozen=True)
class Coin:
    """Tosses a coin for each run: it passes with `base`, or with `cured` where its plan holds a candidate (micro).

    The toss is drawn by the run's own seed and nothing else.
    """

    site: CoinSite
    base: int
    cured: int
    rng_seed: int
    name: str = "plan"
    offers_logprobs: bool = False

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:  # noqa: ARG002 an Executor's
        """Toss."""
        chance = self.cured if any(step.url == CURED for step in assignment.plan) else self.base
        toss = random.Random(f"{self.rng_seed}/{assignment.seed}").randrange(WHOLE)  # noqa: S311 a coin, not a secret
        self.site.passed[instance.instance] = toss < chance
        return Execution((), "completed")


def template_of(number: int) -> Template:
    """A task with one step, that no other task has and that shares no word with theirs: a hint for it fits none."""
    step = Step(type="navigate", intent=f"page{number}", url=f"/page/{number}")
    return Template(
        template_id=f"t{number:04d}", cluster="c", oracle_task_id=f"t{number:04d}", instruction="go", plan_steps=(step,)
    )


def proposal_of(template: Template, kind: Kind = "rewrite") -> Proposal:
    """A candidate for that step: it does what the coin makes of it."""
    plan, change = template.plan_steps, ReplaceUrl(url=CURED)
    occasion = occasion_at(SITE, plan, 0) if kind == "hint" else None
    return Proposal(anchor_of(plan[0]), change, source="page_links", confidence=500_000, occasion=occasion)
