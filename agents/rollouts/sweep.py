"""Sweeps: templates x seeds x siblings, and which sibling carries which candidate. Pure, the sweep id is an input."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from eventlog.events import Artifact, Spec, SweepPlanned, Template
from projections.benchmarks import Instance

from .errors import BadSweep, BenchmarkInstance


@dataclass(frozen=True, slots=True)
class SeedSweep:
    """The seeds' SeedSweepGenerator: template, then seed, then sibling; two or more siblings share a group."""

    sweep: str
    templates: Sequence[Template]
    seeds: Sequence[int]
    siblings_per_instance: int = 1

    def specs(self) -> tuple[Spec, ...]:
        """Every rollout of the sweep, in order. Raises BadSweep."""
        self._check()
        return tuple(
            Spec(
                spec_id=f"{group}__s{sibling}",
                template=template.template_id,
                env_seed=seed,
                group_id=group,
                sibling_index=sibling,
                sweep=self.sweep,
            )
            for template in self.templates
            for seed in self.seeds
            for group in [f"{self.sweep}__{template.template_id}__seed{seed}"]
            for sibling in range(self.siblings_per_instance)
        )

    def _check(self) -> None:
        ids = [template.template_id for template in self.templates]
        for what, found in (("templates", ids), ("seeds", list(self.seeds))):
            if not found:
                raise BadSweep(sweep=self.sweep, actual=f"no {what}", expected="at least one")
            if len(set(found)) < len(found):
                raise BadSweep(sweep=self.sweep, actual=f"{what} twice: {found}", expected="each one once")
        for template in self.templates:
            if not template.plan_steps:
                actual = f"the template {template.template_id} with a plan in free text"
                raise BadSweep(sweep=self.sweep, actual=actual, expected="plan_steps: decompose it first")
        if self.siblings_per_instance < 1:
            raise BadSweep(
                sweep=self.sweep, actual=f"{self.siblings_per_instance} siblings", expected="at least one an instance"
            )


def treat(specs: Sequence[Spec], candidates: Collection[str], rng_seed: int) -> tuple[Spec, ...]:
    """Give the last sibling of each group of two or more exactly one candidate, drawn by seed and group."""
    if not candidates:
        return tuple(specs)
    last = {spec.group_id: spec.sibling_index for spec in specs}
    ordered = sorted(candidates)

    def drawn(spec: Spec) -> Spec:
        if spec.sibling_index == 0 or spec.sibling_index != last[spec.group_id]:
            return spec
        candidate = random.Random(f"{rng_seed}/{spec.group_id}").choice(ordered)  # noqa: S311 a draw, not a secret
        return spec.model_copy(update={"candidate": candidate})

    return tuple(drawn(spec) for spec in specs)


def planned(
    generator: SeedSweep,
    environment: str,
    artifact: Artifact,
    *,
    rng_seed: int,
    candidates: Collection[str] = (),
    frozen: Collection[Instance] = (),
) -> SweepPlanned:
    """The sweep as a fact. Raises BadSweep, and BenchmarkInstance where a seed belongs to a benchmark."""
    oracle = {template.template_id: template.oracle_task_id for template in generator.templates}
    specs = treat(generator.specs(), candidates, rng_seed)
    for spec in specs:
        if (environment, oracle[spec.template], spec.env_seed) in frozen:
            raise BenchmarkInstance(
                sweep=generator.sweep, task=oracle[spec.template], environment=environment, actual=spec.env_seed
            )
    return SweepPlanned(
        sweep=generator.sweep,
        environment=environment,
        templates=tuple(generator.templates),
        specs=specs,
        artifact=artifact,
        rng_seed=rng_seed,
    )
