"""Comparison of a run's end in a replay: its end state, its grade and its reward. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eventlog.events import RewardGraded

from ..envs.sites.site import Simulation, SiteKind
from ..executors.executor import Execution
from ..rewards import SHAPING_VERSION, compute_reward
from .errors import CannotGrade, UnknownVerifier
from .recording import Lines, Recording, ReplayCheck
from .regrade import Regraded, Verifier, conduct_recorded, regrade_run, restore_instance, verifier


def end_check(recording: Recording, execution: Execution) -> ReplayCheck:
    """The check of how the run ended, and of how many actions it took."""
    finished = recording.finished
    usage = finished.usage.actions
    return ReplayCheck(
        "end",
        (f"status: {finished.status}", f"actions: {len(execution.taken) if usage is None else usage}"),
        (f"status: {execution.status}", f"actions: {len(execution.taken)}"),
        where="the end",
    )


def outcome_checks(
    recording: Recording, verifiers: Mapping[str, Verifier], sites: Mapping[str, SiteKind]
) -> Iterator[ReplayCheck]:
    """Yield the checks of the run's end state, grade and reward."""
    try:
        instance = _instance(recording, sites)
    except CannotGrade as error:
        yield ReplayCheck("state", (), None, str(error.facts["actual"]))
        yield from _reward(recording, None, verifiers)
        return
    recorded: Lines = (f"fingerprint: {recording.finished.fingerprint}", f"changes: {recording.finished.mutations}")
    found: Lines = (f"fingerprint: {_bare(instance)}", f"changes: {len(instance.mutations)}")
    if recording.reset is not None:
        fresh = sites[recording.started.task_spec.environment].restore(recording.reset.seed, ())
        recorded = (f"at its start: {recording.reset.fingerprint}", *recorded)
        found = (f"at its start: {_bare(fresh)}", *found)
    yield ReplayCheck("state", recorded, found, where="the end state")
    yield from _reward(recording, instance, verifiers)


def _instance(recording: Recording, sites: Mapping[str, SiteKind]) -> Simulation:
    if recording.end_state is None:
        raise CannotGrade(run=recording.started.run, actual="the blob of its end state is missing")
    return restore_instance(recording.started, recording.started.spec.env_seed, recording.end_state, sites)


def _bare(instance: Simulation) -> str:
    return instance.fingerprint().removeprefix("sha256:")


def _reward(
    recording: Recording, instance: Simulation | None, verifiers: Mapping[str, Verifier]
) -> Iterator[ReplayCheck]:
    reward = recording.graded
    if reward is None:
        yield ReplayCheck("reward", (), None, "it was not graded")
        return
    recorded = Regraded(reward.score, reward.passed, reward.reasons)
    if instance is None:
        yield ReplayCheck("grade", (), None, "its end state cannot be restored")
    else:
        try:
            found = regrade_run(recording.started, instance, verifier(reward.version, verifiers))
            yield ReplayCheck("grade", _graded_lines(recorded), _graded_lines(found), where="the grade")
        except (CannotGrade, UnknownVerifier) as error:
            yield ReplayCheck("grade", (), None, str(error))
    if recording.book is None:
        yield ReplayCheck("reward", (), None, f"no price book of version {reward.prices} is in the log")
        return
    conduct = conduct_recorded(recording.started, recording.steps, recording.finished, recording.plan)
    again = compute_reward(
        reward.run,
        reward.group,
        reward.score,
        reward.reasons,
        recording.finished.usage,
        recording.book,
        passed=reward.passed,
        conduct=conduct if reward.shaping == SHAPING_VERSION else None,
        lambda_per_dollar=reward.terms.lambda_per_dollar,
    )
    is_known = reward.shaping in {None, SHAPING_VERSION}
    yield ReplayCheck("reward", _worth(reward, shaped=is_known), _worth(again, shaped=is_known), where="the reward")
    if not is_known:
        yield ReplayCheck("shaped return", (), None, f"the shaping version {reward.shaping!r} is unknown")


def _graded_lines(found: Regraded) -> Lines:
    return (f"score: {found.score}", f"passed: {found.passed}", *(f"reason: {reason}" for reason in found.reasons))


def _worth(reward: RewardGraded, *, shaped: bool) -> Lines:
    terms = reward.terms
    lines = (
        f"cost: {reward.cost}",
        f"score: {terms.score}",
        f"lambda: {terms.lambda_per_dollar}",
        f"penalty: {terms.penalty}",
        f"value: {reward.value}",
    )
    shape = (f"process: {terms.process}", f"progress: {terms.progress}", f"shaped: {reward.shaped}")
    return lines + shape if shaped else lines
