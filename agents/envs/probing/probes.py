"""The list of probes, and the report over all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from eventlog.chain import digest
from eventlog.events import EnvironmentProbed, ProbeOutcome, ProbeResult, StartFingerprint

from ..addresses import without_instances
from ..contract import TaskText
from ..errors import EnvironmentDown, EnvironmentFailure
from . import access, grading, seeding
from .target import Failed, Skipped, Target

SEEDS: Final = (0, 1, 10_000)
"""Two training seeds and one sealed seed."""
LONGEST: Final = 500


@dataclass(frozen=True, slots=True)
class EnvironmentProbe:
    """One check of an environment: `ask` returns what it found, or raises Failed or Skipped."""

    name: str
    meaning: str
    ask: Callable[[Target], str]


PROBES: Final = (
    EnvironmentProbe("null_agent", "doing nothing earns nothing", grading.null_agent),
    EnvironmentProbe("random_agent", "random walks break no page and pass tasks only by luck", grading.random_agent),
    EnvironmentProbe("oracle_agent", "a known solution passes every task", grading.oracle_agent),
    EnvironmentProbe(
        "grading_only_looks", "the oracle changes nothing and grades the same twice", grading.looking_only
    ),
    EnvironmentProbe(
        "two_seeds", "equal seeds make equal instances, different seeds different ones", seeding.two_seeds
    ),
    EnvironmentProbe(
        "repeat_without_reset", "changes stay until a reset and are gone after it", seeding.repeat_without_reset
    ),
    EnvironmentProbe("side_by_side", "two instances do not see each other", seeding.side_by_side),
    EnvironmentProbe("mutations_by_id", "changes are listed once, in order of their ids", seeding.mutations_by_id),
    EnvironmentProbe("wrong_token", "the admin surface refuses strangers", access.wrong_token),
    EnvironmentProbe("pages_port", "the agent's address has no admin surface", access.pages_port),
    EnvironmentProbe("unknown_task", "an unknown task gets no score", access.unknown_task),
    EnvironmentProbe("killed_process", "a dead process is an outage, not a score", access.killed_process),
)


def tasks_digest(tasks: Sequence[TaskText]) -> str:
    """SHA-256 over task ids, instructions and clusters, independent of their order."""
    ordered = sorted(tasks, key=lambda task: task.task_id.encode())
    return digest([[task.task_id, task.instruction, task.cluster] for task in ordered]).hex()


def report(
    target: Target, probes: Sequence[EnvironmentProbe] = PROBES, advance: Callable[[], None] = lambda: None
) -> EnvironmentProbed:
    """Run every probe. Raises EnvironmentDown if the site stops answering; then there is no report."""
    results = []
    for probe in probes:
        results.append(run_probe(probe, target))
        advance()
    return EnvironmentProbed(
        environment=target.name,
        url=target.url,
        tasks=tuple(task.task_id for task in target.tasks),
        tasks_digest=tasks_digest(target.tasks),
        probes=tuple(results),
        seeds=target.seeds,
        rng_seed=target.rng_seed,
        fingerprints=_fingerprints(target),
        alike=tuple(sorted(target.alike)),
    )


def run_probe(probe: EnvironmentProbe, target: Target) -> ProbeResult:
    """Run one probe. Raises EnvironmentDown if the site stops answering."""
    try:
        return _result(probe, "passed", probe.ask(target))
    except Skipped as skipped:
        return _result(probe, "skipped", str(skipped))
    except Failed as failed:
        return _result(probe, "failed", str(failed))
    except EnvironmentFailure as problem:
        if isinstance(problem, EnvironmentDown):
            target.environment.health()
        return _result(probe, "failed", f"{type(problem).__name__}: {problem}")


def _result(probe: EnvironmentProbe, outcome: ProbeOutcome, detail: str) -> ProbeResult:
    """Probe result as it is stored: one line, without instance ids, which are secrets."""
    return ProbeResult(name=probe.name, outcome=outcome, detail=without_instances(" ".join(detail.split()))[:LONGEST])


def _fingerprints(target: Target) -> tuple[StartFingerprint, ...]:
    found = []
    for seed in target.seeds:
        try:
            with target.new_instance(seed) as instance:
                made = target.fingerprint(instance).removeprefix("sha256:")
        except EnvironmentFailure:
            continue  # the probe results say why this seed failed
        found.append(StartFingerprint(env_seed=seed, fingerprint=made))
    return tuple(found)
