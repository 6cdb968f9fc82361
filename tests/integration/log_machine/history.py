"""The events that the machine appends: a few runs, rewrites and groups, so that they meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from eventlog.events import AnyEvent
from tests.golden.test_golden_samples import sample

NAMES = st.sampled_from(["a", "b", "c"])
GROUPS = st.sampled_from(["a-group", "b-group"])
SUBJECTS = st.sampled_from(["ann", "bob", "eve"])


def run_events(run: str, group: str) -> st.SearchStrategy[AnyEvent]:
    """What may happen in a run once it is started."""
    return st.sampled_from(
        [
            sample("InstanceReset", run=run, group=group),
            sample("StepTaken", run=run, outcome="not_found"),
            sample("RunFinished", run=run),
            sample("RunMissing", run=run, group=group),
            sample("RewardGraded", run=run, group=group, passed=False, score=0, cost=None, value=None),
            sample("RewardGraded", run=run, group=group),
        ]
    )


def started(run: str, group: str, subject: str | None = None) -> Any:
    """The first event of a run."""
    payload = sample("RunStarted", run=run, arm=None).model_dump(mode="json", exclude={"type"})
    whose = {} if subject is None else {"subject": subject}
    return sample("RunStarted", **{**payload, **whose, "spec": {**payload["spec"], "group_id": group}})


def rewrite_event(rewrite: str) -> st.SearchStrategy[AnyEvent]:
    """What may happen to a rewrite."""
    return st.sampled_from(
        [
            *(sample("RewriteProposed", rewrite=rewrite, run=run) for run in ("a", "c")),
            *(sample("RewriteWon", rewrite=rewrite, run=run, control_runs=()) for run in ("a", "b", "c")),
            sample("RewriteLost", rewrite=rewrite, run="b", control_runs=("a", "c")),
            sample("MemoryQuarantined", piece=rewrite),
        ]
    )


def pointed(upto: int, by: str) -> Any:
    """The champion with the memory up to a position."""
    kept = sample("ChampionPointed").model_dump(mode="json")
    artifact = {**kept["artifact"], "memory": {**kept["artifact"]["memory"], "upto": upto}}
    return sample("ChampionPointed", artifact=artifact, by=by)
