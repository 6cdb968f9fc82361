"""Every verdict of the golden log and of the released ones, judged again from what was recorded before it."""

from __future__ import annotations

import pytest

from eventlog.chain import canonical
from eventlog.codec import decode
from eventlog.events import VerdictReached
from eventlog.store import Recorded
from gate.alpha import alpha_of
from gate.arms import arm
from gate.judge import judge
from projections.alpha import ALPHA
from projections.benchmarks import BENCHMARKS
from projections.engine.projection import newest_states, replay
from projections.rewards import REWARDS
from projections.runs import RUNS
from projections.verdicts import VERDICTS
from tests.golden.test_golden_releases import NAMES, released_rows
from tests.golden.test_golden_samples import golden_log

LOGS = ["golden", *NAMES]


def log_named(name: str) -> tuple[Recorded, ...]:
    return golden_log() if name == "golden" else tuple(decode(row) for row in released_rows(name))


@pytest.mark.parametrize("name", LOGS)
def test_every_recorded_verdict_is_recomputed_byte_for_byte(name: str) -> None:
    log = log_named(name)
    reached = [item for item in log if isinstance(item.event, VerdictReached)]
    assert reached
    for item in reached:
        assert isinstance(item.event, VerdictReached)
        evaluation = item.event.evaluation
        before = log[: item.position - 1]
        state = newest_states(replay(VERDICTS, before))[evaluation]
        benchmark = newest_states(replay(BENCHMARKS, before))[state.benchmark].frozen_event()
        runs, rewards = newest_states(replay(RUNS, before)), newest_states(replay(REWARDS, before))
        champion, challenger = state.artifacts()
        rules = state.opening_rules()
        verdict = judge(
            arm(benchmark, evaluation, "champion", champion, runs, rewards, rules),
            arm(benchmark, evaluation, "challenger", challenger, runs, rewards, rules),
            benchmark,
            rules,
            alpha_of(newest_states(replay(ALPHA, before))[state.benchmark], evaluation),
        )
        recorded = item.event.verdict
        assert canonical(verdict.model_dump(mode="json")) == canonical(recorded.model_dump(mode="json"))
