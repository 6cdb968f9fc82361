"""What the REST interface answers on the golden log."""

from __future__ import annotations

from io import BytesIO

import polars as pl
import pytest
from fastapi.testclient import TestClient

from api.house import House
from projections.frozen_datasets import CHECKPOINTS

pytestmark = pytest.mark.reads


@pytest.mark.parametrize(
    "path",
    ["events", "runs", "rewrites", "benchmarks", "verdicts", "failure-clusters", "datasets", "champion/history"],
)
def test_every_list_shows_what_the_golden_log_holds(client: TestClient, house: House, path: str) -> None:
    now, before = client.get(f"/v1/{path}"), client.get(f"/v1/{path}", params={"as_of": 0})
    assert (now.status_code, now.headers["X-Log-Position"]) == (200, str(house.store.head()))
    assert next(iter(now.json().values()))
    assert (next(iter(before.json().values())), before.headers["X-Log-Position"]) == ([], "0")


def test_the_datasets_of_the_golden_log_give_the_same_rows_today(client: TestClient, house: House) -> None:
    frozen = house.views().find(CHECKPOINTS, "dataset/").values()
    answers = [(state, client.get(f"/v1/datasets/{state.dataset}/rows")) for state in frozen]
    assert answers
    for state, answer in answers:
        assert answer.status_code == 200, answer.text
        assert pl.read_ipc_stream(BytesIO(answer.content)).height == state.rows
