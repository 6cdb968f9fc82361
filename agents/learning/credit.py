"""Credit: a treated run's oracle outcome becomes one win or one loss of the one candidate it carried. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from eventlog.events import RewriteLost, RewriteWon, Spec
from eventlog.store import Append
from projections.rewards import RewardState
from projections.runs import RunState


def credits_of(
    specs: Sequence[Spec],
    runs: Mapping[str, RunState],
    rewards: Mapping[str, RewardState],
    actor: str,
    *,
    contaminated: Set[str],
) -> tuple[Append, ...]:
    """One append for each treated and graded run, in the order of the sweep.

    A missing run is no trial, and neither is a contaminated one, an evaluation's, nor one whose plan had no step that
    its candidate belongs to. The key is the run's, so crediting a sweep again changes nothing.
    """
    appends = []
    for spec in specs:
        run, reward = runs.get(spec.spec_id), rewards.get(spec.spec_id)
        if run is None or reward is None or spec.candidate is None or spec.candidate not in run.applied:
            continue
        if run.evaluation is not None or spec.spec_id in contaminated:
            continue
        kind = RewriteWon if reward.passed else RewriteLost
        event = kind(rewrite=spec.candidate, run=spec.spec_id, control_runs=(), control_successes=0)
        appends.append(Append(f"rewrite/{spec.candidate}", (event,), actor, key=f"credit:{spec.spec_id}"))
    return tuple(appends)
