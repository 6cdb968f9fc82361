"""/readyz, and the dashboard of Grafana over what /metrics serves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from api.house import House
from api.routes import health
from eventlog.database import open_engine
from tests.conftest import Database

BOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "flywheel.json"


def test_it_is_ready_where_all_is_folded_and_says_how_far_it_is_behind(client: TestClient, house: House) -> None:
    house.views()
    answer = client.get("/readyz", headers={"Authorization": ""})
    assert (answer.status_code, answer.json()) == (200, {"status": "ready", "head": house.store.head(), "behind": 0})


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE builds SET parked_at = 3 WHERE projection = 'costs'", "parked: costs"),
        ("UPDATE migration SET version_num = '0009'", "flywheel db migrate"),
    ],
)
def test_it_is_not_ready_with_a_parked_projection_or_an_older_schema(
    client: TestClient, house: House, database: Database, statement: str, says: str
) -> None:
    house.views()
    owner = open_engine(database.owner_url)
    with owner.begin() as connection:
        connection.execute(text(statement))
    owner.dispose()
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert says in answer.json()["error"]["message"]
    assert client.get("/healthz").status_code == 200


def test_it_is_not_ready_while_a_projection_is_far_behind(
    client: TestClient, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.views()
    monkeypatch.setattr(health, "MOST_BEHIND", -1)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "events behind" in answer.json()["error"]["message"]


def test_every_figure_is_on_the_board_and_the_board_asks_for_no_other(client: TestClient, house: House) -> None:
    house.views()
    lines = client.get("/metrics").text.splitlines()
    served = {re.split(r"[{ ]", line)[0] for line in lines if line and not line.startswith("#")}
    served = {name for name in served if not name.endswith("_created")}
    board = json.loads(BOARD.read_text("utf-8"))
    asked = {
        name
        for panel in board["panels"]
        for each in panel["targets"]
        for name in re.findall(r"flywheel_\w+", each["expr"])
    }
    assert asked == served
    variables = {each["name"] for each in board["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", BOARD.read_text("utf-8"))) - {"__all"} <= variables
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    cells = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(cells)) == len(cells)
