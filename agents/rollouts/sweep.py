"""Sweeps: templates x seeds x siblings. Pure, the sweep id is an input."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from eventlog.events import Artifact, Bias, Spec, SweepPlanned, Template, Trials
from projections.benchmarks import Instance
from projections.runs import OUTSIDE

from ..learning.advice import Audience
from .errors import BadSweep, BenchmarkInstance
from .trials import TrialPiece, treat

_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]+")
_OUTSIDE: Final = "ext-"
HOTTEST: Final = 2_000_000
"""Highest temperature that models accept, in millionths."""


class Generator(Protocol):
    """Generator of a sweep's specs (the seeds' RolloutGenerator). Pure: the same fields give the same specs."""

    @property
    def sweep(self) -> str:
        """Name of the sweep, which distinguishes re-runs."""
        ...

    @property
    def templates(self) -> Sequence[Template]:
        """Templates that may be drawn."""
        ...

    def specs(self) -> tuple[Spec, ...]:
        """Every rollout, in order. Raises BadSweep."""
        ...


@dataclass(frozen=True, slots=True)
class SeedSweep:
    """The seeds' SeedSweepGenerator: template, then seed, then sibling; two or more siblings share a group.

    `temperatures` (millionths) are assigned to the siblings in turn; if empty, the executor's default applies. With a
    `state_key` the whole sweep is one session.
    """

    sweep: str
    templates: Sequence[Template]
    seeds: Sequence[int]
    siblings_per_instance: int = 1
    temperatures: Sequence[int] = ()
    state_key: str | None = None

    def specs(self) -> tuple[Spec, ...]:
        """See Generator."""
        check_distinct(self.sweep, self.templates, self.seeds)
        check_siblings(self.sweep, self.siblings_per_instance, self.temperatures)
        return tuple(
            spec
            for template in self.templates
            for seed in self.seeds
            for spec in siblings_of(
                self.sweep, template, seed, range(self.siblings_per_instance), self.temperatures, self.state_key
            )
        )


def siblings_of(
    sweep: str,
    template: Template,
    seed: int,
    indices: Iterable[int],
    temperatures: Sequence[int] = (),
    state_key: str | None = None,
) -> tuple[Spec, ...]:
    """Siblings of one instance with these indices; they form one group."""
    group = f"{sweep}__{template.template_id}__seed{seed}"
    return tuple(
        Spec(
            spec_id=f"{group}__s{index}",
            template=template.template_id,
            env_seed=seed,
            group_id=group,
            sibling_index=index,
            sweep=sweep,
            state_key=state_key,
            temperature_micro=temperatures[index % len(temperatures)] if temperatures else None,
        )
        for index in indices
    )


def check_distinct(sweep: str, templates: Sequence[Template], seeds: Sequence[int]) -> None:
    """Raise BadSweep unless the name is not reserved, and templates with steps, and seeds, are given, each once.

    A template whose plan text is its instruction has no plan, and is for executors that follow none.
    """
    if sweep.startswith(OUTSIDE):
        raise BadSweep(sweep=sweep, actual="a name of runs from outside", expected=f"one without prefix {OUTSIDE!r}")
    ids = [template.template_id for template in templates]
    for what, found in (("templates", ids), ("seeds", list(seeds))):
        if not found:
            raise BadSweep(sweep=sweep, actual=f"no {what}", expected="at least one")
        if len(set(found)) < len(found):
            raise BadSweep(sweep=sweep, actual=f"{what} twice: {found}", expected="each only once")
    for template in templates:
        if not template.plan_steps and template.plan_text != template.instruction:
            actual = f"the template {template.template_id} with a plan in free text"
            raise BadSweep(sweep=sweep, actual=actual, expected="plan_steps: decompose it first")


def check_sweep_name(sweep: str) -> None:
    """Raise BadSweep if the name contains `__`, which ends it in run ids, or the prefix `ext-` of runs from outside."""
    if not _PLAIN.fullmatch(sweep) or "__" in sweep or sweep.startswith(_OUTSIDE):
        expected = f"letters, digits, `.`, `_` and `-`, no `__`, and no prefix {_OUTSIDE!r}"
        raise BadSweep(sweep=sweep, actual=f"the name {sweep!r}", expected=expected)


def check_siblings(sweep: str, siblings: int, temperatures: Sequence[int]) -> None:
    """Raise BadSweep unless an instance has at least one sibling, and all temperatures are in range."""
    if siblings < 1:
        raise BadSweep(sweep=sweep, actual=f"{siblings} siblings", expected="at least one per instance")
    if any(not 0 <= micro <= HOTTEST for micro in temperatures):
        raise BadSweep(sweep=sweep, actual=f"temperatures {list(temperatures)}", expected=f"0 to {HOTTEST} millionths")


def plan_sweep(
    generator: Generator,
    environment: str,
    artifact: Artifact,
    *,
    rng_seed: int,
    candidates: Collection[TrialPiece] = (),
    promoted: Collection[TrialPiece] = (),
    trials: Trials | None = None,
    frozen: Collection[Instance] = (),
    bias: Bias | None = None,
    learns: bool = True,
    executor: str | None = None,
    model: str | None = None,
    suite: str | None = None,
    audience: Audience | None = None,
    tells: bool = False,
) -> SweepPlanned:
    """Event that plans the sweep; with `trials`, some siblings try a piece that fits, applied or told (see `treat`).

    Raises BadSweep, and BenchmarkInstance if a seed belongs to a benchmark.
    """
    check_sweep_name(generator.sweep)
    specs = generator.specs()
    if trials is not None:
        specs = treat(specs, generator.templates, candidates, promoted, trials, rng_seed, environment, audience)
    drawn = {spec.template for spec in specs}
    templates = tuple(template for template in generator.templates if template.template_id in drawn)
    refuse_frozen(generator.sweep, environment, templates, specs, frozen)
    return SweepPlanned(
        sweep=generator.sweep,
        environment=environment,
        templates=templates,
        specs=specs,
        artifact=artifact,
        rng_seed=rng_seed,
        bias=bias,
        learns=learns,
        executor=executor,
        model=model,
        trials=trials,
        suite=suite,
        tells=tells,
    )


def refuse_frozen(
    sweep: str, environment: str, templates: Iterable[Template], specs: Iterable[Spec], frozen: Collection[Instance]
) -> None:
    """Raise BenchmarkInstance if a spec would play an instance of a benchmark."""
    oracle = {template.template_id: template.oracle_task_id for template in templates}
    for spec in specs:
        if (environment, oracle[spec.template], spec.env_seed) in frozen:
            raise BenchmarkInstance(
                sweep=sweep, task=oracle[spec.template], environment=environment, actual=spec.env_seed
            )


def extend_group(sweep: str, templates: Iterable[Template], known: Sequence[Spec], to: int) -> tuple[Spec, ...]:
    """New siblings that extend a group to `to` siblings, at the temperatures of the others. Raises BadSweep.

    `known` are the siblings so far. The new ones carry no candidate; they add outcomes to the group.
    """
    if not known or len(known) >= to:
        expected = f"at least one and fewer than {to}"
        raise BadSweep(sweep=sweep, actual=f"a group of {len(known)} siblings", expected=expected)
    by_id = {template.template_id: template for template in templates}
    last = max(known, key=lambda spec: spec.sibling_index)
    indices = range(last.sibling_index + 1, last.sibling_index + 1 + to - len(known))
    temperatures = [spec.temperature_micro for spec in sorted(known, key=lambda spec: spec.sibling_index)]
    given = tuple(micro for micro in temperatures if micro is not None)
    return siblings_of(sweep, by_id[last.template], last.env_seed, indices, given, last.state_key)
