"""Withdrawals side by side in the log are taken out in one reading, and every position between them is as it was."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from sqlalchemy import Engine

from eventlog.postgres import PostgresStore
from eventlog.store import Append, Position
from projections import ALL
from projections.engine import folding, reader, withdrawal
from projections.engine.projection import digest_changes, replay
from projections.engine.projector import Projector
from projections.failures import FAILURES
from tests.golden.test_golden_samples import golden_log, sample

from .test_builds import END, NAMES, digest, failed_runs


@pytest.mark.parametrize("together", [2, 50])
@pytest.mark.parametrize("is_rebuilt", [True, False], ids=["rebuilt", "caught up"])
def test_neighbouring_withdrawals_read_the_log_once_and_every_position_is_exact(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, together: int, is_rebuilt: bool
) -> None:
    monkeypatch.setattr(folding, "_TOGETHER", together)
    store, failed = PostgresStore(engine), failed_runs()
    parts = [failed[:2], failed[1:4], failed[:1], failed[4:5], failed[5:9]]
    markers = [Append("withdrawals", (sample("RunsWithdrawn", runs=tuple(part)),), "test") for part in parts]
    graded = Append(f"run/{failed[2]}", (sample("RewardGraded", run=failed[2], passed=False),), "test")
    store.append([*markers[:3], graded, *markers[3:]])
    reads: Counter[str] = Counter()
    resting = reader.rows_left_out

    def counted(connection: Any, store: Any, fold: Any, *rest: Any) -> Any:
        reads[fold.name] += 1
        return resting(connection, store, fold, *rest)

    monkeypatch.setattr(withdrawal, "rows_left_out", counted)
    projecting = Projector(engine)
    if is_rebuilt:
        projecting.rebuild(NAMES)
    else:
        projecting.catch_up()
    log = [*golden_log(), *store.read(after=Position(END))]
    for fold in (fold for fold in ALL if fold.stream_of is None):
        for upto in range(END, len(log) + 1):
            assert digest(engine, fold, upto) == digest_changes(replay(fold, log[:upto])), (fold.name, upto)
    for fold in (fold for fold in ALL if fold.stream_of is not None):
        assert digest(engine, fold, len(log)) == digest_changes(replay(fold, log)), fold.name
    assert set(reads) == {fold.name for fold in ALL if fold.rests_on is not None}
    assert reads[FAILURES.name] == (2 if together == 50 else 3)
