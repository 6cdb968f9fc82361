"""Which evaluations a fast loop goes on with: an agent of one's own is judged apart from others, and from plans."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from api.controllers import fast_next
from api.controllers.fast_next import fast_evaluations
from eventlog.memory import MemoryStore
from eventlog.store import START
from projections.engine.views import ReplayedViews
from projections.evaluations import EvaluationEntry

FOUND = tuple(
    EvaluationEntry(
        evaluation=f"eval-{number}",
        benchmark="b",
        executor=executor,
        opened_since=number,
        opened_by="controller",
        weights="base",
        memory="m",
    )
    for number, executor in enumerate((None, "browser", "policy", "agent:one", "agent:two", "miniwob-script"), start=1)
)


@pytest.mark.parametrize(
    ("executor", "expected"),
    [
        ("plan", ["eval-1", "eval-2"]),
        ("browser", ["eval-1", "eval-2"]),
        ("policy", ["eval-3"]),
        ("agent:one", ["eval-4"]),
        ("agent:two", ["eval-5"]),
        ("agent:three", []),
    ],
)
def test_each_executor_goes_on_with_its_own_evaluations(
    monkeypatch: pytest.MonkeyPatch, executor: str, expected: list[str]
) -> None:
    monkeypatch.setattr(fast_next, "evaluations_of", lambda _views, _site: FOUND)
    monkeypatch.setattr(fast_next, "slow_benchmarks", lambda _views, _site: frozenset())
    found = fast_evaluations(ReplayedViews(MemoryStore(lambda: datetime.now(UTC)), START), "shop", executor)
    assert [each.evaluation for each in found] == expected
