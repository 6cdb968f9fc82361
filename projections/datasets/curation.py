"""Curation: select siblings of a group for a query of a policy's runs, and give the reason for each refusal. Pure.

Each group is judged separately, first by the log, then by the sampled tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

import msgspec

from eventlog.events import DpoQuery, GrpoQuery, Query, RewardName, SftQuery, is_asked_for
from eventlog.events.memory import artifact_name

from ..benchmarks import Instance
from ..engine.rows import EventRow
from ..groups import GroupState, Sibling
from ..runs import DEMONSTRATION, OUTSIDE, token_of_actor
from .sampled import BehaviourPolicy, CallFact, SampledCall, read_sampled, unfit_for_ratio
from .variance import classify_group

ROW_READS: Mapping[str, tuple[str, ...]] = {
    "RunStarted": ("run", "artifact.weights", "artifact.memory.upto", "executor"),
    "ModelCalled": ("run", "index", "role", "model", "sampling", "messages", "completion"),
    "RunFinished": ("run", "status"),
}
"""The event fields read from a run's stream."""


Reading = Callable[[CallFact, bytes], SampledCall | str]
"""Reads a call's tokens from its completion blob, or returns the reason for refusal."""


class RunFacts(msgspec.Struct, frozen=True):
    """A run according to the log: its artifact (name and `weights`), executor, policy calls, and who began it.

    `position` is that of RunFinished; None if the run did not finish.
    """

    run: str
    weights: str
    artifact: str
    executor: str
    position: int | None
    calls: tuple[CallFact, ...]
    actor: str = ""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Context of a query: benchmark instances, oracle tasks by template, and why runs are excluded from learning.

    `opinions` says of runs whether the judge of the query passed them.
    """

    instances: Set[Instance]
    oracles: Mapping[str, Set[str]]
    left_out: Mapping[str, str]
    opinions: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SelectedSibling:
    """A selected sibling with its sampled calls."""

    sibling: Sibling
    facts: RunFacts
    calls: tuple[SampledCall, ...]

    @property
    def policies(self) -> frozenset[BehaviourPolicy]:
        """The behaviour policies that sampled its calls."""
        return frozenset(call.policy(self.facts.weights) for call in self.calls)


def run_facts(rows: Sequence[EventRow]) -> dict[str, RunFacts]:
    """The facts of each run, from the ordered rows of its stream; only model calls with the role "policy" count."""
    found: dict[str, list[EventRow]] = {}
    for row in rows:
        found.setdefault(row.text("run"), []).append(row)
    return {run: _facts(run, own) for run, own in found.items()}


def _facts(run: str, rows: Sequence[EventRow]) -> RunFacts:
    weights, artifact, executor, position, actor = "", "", "", None, ""
    calls: list[CallFact] = []
    for row in rows:
        if row.type == "RunStarted":
            weights, executor, actor = row.text("artifact.weights"), row.text("executor"), row.actor
            artifact = artifact_name(weights, row.number("artifact.memory.upto"))
        elif row.type == "RunFinished":
            position = int(row.position)
        elif row.text("role") == "policy":
            calls.append(
                CallFact(
                    row.number("index"),
                    row.text("model"),
                    row.record("sampling"),
                    row.text("messages"),
                    row.text("completion"),
                )
            )
    return RunFacts(
        run, weights, artifact, executor, position, tuple(sorted(calls, key=lambda call: call.index)), actor
    )


def reward_of(sibling: Sibling, reward: RewardName) -> int | None:
    """The named reward of a run in millionths; None if unknown."""
    found: int | None = getattr(sibling, reward)
    return found


def looked_at(query: SftQuery | DpoQuery | GrpoQuery, group: GroupState) -> bool:
    """True if a query's environment, sweep and group filters admit the group."""
    return is_asked_for(query, group.environment, group.sweep, group.group)


def judged_by_log(
    query: SftQuery | DpoQuery | GrpoQuery, group: GroupState, facts: Mapping[str, RunFacts], known: Knowledge
) -> tuple[tuple[Sibling, ...], dict[str, str]]:
    """The siblings that pass all checks against the log, and the refusal reasons of the others, by run."""
    is_benchmark, contaminated = _is_benchmark(group, known), group.contaminated_siblings
    refused: dict[str, str] = {}
    for sibling in group.siblings:
        reason = "benchmark" if is_benchmark else known.left_out.get(sibling.run)
        reason = reason or _unfit(query, sibling, facts.get(sibling.run), is_contaminated=sibling.run in contaminated)
        reason = reason or _grade_refusal(query, sibling, known.opinions)
        if reason is not None:
            refused[sibling.run] = reason
    fit = tuple(sibling for sibling in group.siblings if sibling.run not in refused)
    return _by_group(query, group, fit, refused)


def refuses_outside(query: Query, run: str, actor: str) -> bool:
    """True if a run of an agent outside, whose first event has this actor, is none of those that a query takes."""
    if query.outside == "all" or not run.startswith(OUTSIDE):
        return False
    return query.outside == "none" or token_of_actor(actor) not in query.outside


def _is_benchmark(group: GroupState, known: Knowledge) -> bool:
    if group.evaluation is not None:
        return True
    tasks = known.oracles.get(group.template)
    if tasks is None:
        return (group.environment, group.env_seed) in {(where, seed) for where, _, seed in known.instances}
    return any((group.environment, task, group.env_seed) in known.instances for task in tasks)


def _unfit(
    query: SftQuery | DpoQuery | GrpoQuery, sibling: Sibling, facts: RunFacts | None, *, is_contaminated: bool
) -> str | None:
    if sibling.missing:
        return "missing"
    if facts is None or facts.position is None:
        return "not_ended"
    if refuses_outside(query, sibling.run, facts.actor):
        return "outside"
    if not isinstance(query, SftQuery) and not sibling.is_plain:
        return "treated"
    if is_contaminated:
        return "contaminated"
    if not facts.calls:
        return "no_model_calls"
    if isinstance(query, SftQuery) and query.runs == "demonstration" and facts.executor != DEMONSTRATION:
        return "sampled"
    return None


def _grade_refusal(
    query: SftQuery | DpoQuery | GrpoQuery, sibling: Sibling, opinions: Mapping[str, bool]
) -> str | None:
    """Why its grade refuses a run: the oracle's, or a judge's where the query names one; they are never mixed."""
    if isinstance(query, SftQuery) and query.judged_by is not None:
        said = opinions.get(sibling.run)
        if sibling.score is not None or said is None:
            return "unjudged" if sibling.score is None else "graded"
        return None if said else "judged_failed"
    if sibling.score is None:
        return "ungraded"
    return _below(query, sibling) if isinstance(query, SftQuery) else _unknown(sibling, query.reward)


def _unknown(sibling: Sibling, reward: RewardName) -> str | None:
    return "reward_unknown" if reward_of(sibling, reward) is None else None


def _below(query: SftQuery, sibling: Sibling) -> str | None:
    if (sibling.score or 0) < query.min_score:
        return "below_score"
    if query.floor is None:
        return None
    earned = reward_of(sibling, query.floor.reward)
    if earned is None:
        return "reward_unknown"
    return "below_floor" if earned < query.floor.least else None


def _by_group(
    query: SftQuery | DpoQuery | GrpoQuery, group: GroupState, fit: tuple[Sibling, ...], refused: dict[str, str]
) -> tuple[tuple[Sibling, ...], dict[str, str]]:
    """Refuse all remaining siblings of a group without a training signal. The best run is chosen later, by tokens."""
    if isinstance(query, SftQuery):
        return fit, refused
    reason = why_flat(group, fit, query.reward) if isinstance(query, GrpoQuery) else None
    if reason is None and len(fit) < 2:  # noqa: PLR2004 a pair, or a mean of more than one
        reason = "alone"
    if reason is None:
        return fit, refused
    return (), refused | dict.fromkeys((sibling.run for sibling in fit), reason)


def _rank(sibling: Sibling) -> tuple[int, bool, int, bytes]:
    """Sort key: the highest score, then the highest known value, then the first id."""
    return -(sibling.score or 0), sibling.value is None, -(sibling.value or 0), sibling.run.encode()


def why_flat(group: GroupState, siblings: Sequence[Sibling], reward: RewardName) -> str | None:
    """Why these siblings give no advantage (too few, two shaping formulas, or flat by the variance gate), or None."""
    if len(siblings) < 2:  # noqa: PLR2004 the mean of one is that one
        return "alone"
    if reward == "shaped" and len({sibling.shaping for sibling in siblings}) > 1:
        return "mixed_shaping"
    found = classify_group(msgspec.structs.replace(group, siblings=tuple(siblings)), reward)
    return None if found.grpo_usable and found.reward_std_micro else "flat"


def judged_by_tokens(
    query: SftQuery | DpoQuery | GrpoQuery,
    group: GroupState,
    siblings: Sequence[Sibling],
    facts: Mapping[str, RunFacts],
    bodies: Mapping[str, bytes],
    read: Reading = read_sampled,
) -> tuple[tuple[SelectedSibling, ...], dict[str, str]]:
    """The siblings with usable tokens, and the refusal reasons of the others. `bodies` are the completions' blobs."""
    taken: list[SelectedSibling] = []
    refused: dict[str, str] = {}
    for sibling in siblings:
        own = facts[sibling.run]
        found = calls_of(query, own, bodies, read)
        if isinstance(found, str):
            refused[sibling.run] = found
        else:
            taken.append(SelectedSibling(sibling, own, found))
    if isinstance(query, SftQuery) and query.best_of_group and taken:
        best = min(taken, key=lambda each: _rank(each.sibling))
        refused |= {each.sibling.run: "not_best_of_group" for each in taken if each is not best}
        taken = [best]
    reason = _refuse_mixed(query, group, taken) if taken else None
    if reason is None:
        return tuple(taken), refused
    return (), refused | dict.fromkeys((each.sibling.run for each in taken), reason)


def calls_of(
    query: SftQuery | DpoQuery | GrpoQuery, facts: RunFacts, bodies: Mapping[str, bytes], read: Reading = read_sampled
) -> tuple[SampledCall, ...] | str:
    """The calls of a run with their tokens, or the first reason to refuse them."""
    calls: list[SampledCall] = []
    for fact in facts.calls:
        found = read(fact, bodies[fact.completion])
        if isinstance(found, str):
            return found
        reason = _unfit_tokens(query, found)
        if reason is not None:
            return reason
        calls.append(found)
    if len({call.policy(facts.weights) for call in calls}) > 1:
        return "mixed_policies"
    return tuple(calls)


def _unfit_tokens(query: SftQuery | DpoQuery | GrpoQuery, call: SampledCall) -> str | None:
    if isinstance(query, GrpoQuery):
        return unfit_for_ratio(call)
    return "cut_off" if isinstance(query, SftQuery) and call.is_cut else None  # imitating it would teach not to end


def _refuse_mixed(
    query: SftQuery | DpoQuery | GrpoQuery, group: GroupState, taken: Sequence[SelectedSibling]
) -> str | None:
    if not isinstance(query, GrpoQuery):
        return None
    if len(frozenset[BehaviourPolicy]().union(*(each.policies for each in taken))) > 1:
        return "mixed_policies"
    if len({tuple(each.calls[0].prompt_ids) for each in taken}) > 1:
        return "mixed_policies"  # a different prompt means a different distribution
    return why_flat(group, [each.sibling for each in taken], query.reward)
