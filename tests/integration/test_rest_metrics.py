"""What Prometheus reads, and what a caller is told when too many appends wait."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from fastapi.testclient import TestClient
from httpx2 import Response
from sqlalchemy import text

from agents.envs.unclosed_instances import UNCLOSED
from api.app import create_app
from api.house import House
from api.tokens import issue

PRICES = {"type": "PriceBookSet", "version": 1, "per_action": 1, "per_second": 1} | {
    f"per_thousand_{kind}_tokens": 1 for kind in ("input", "output")
}


def client_of(house: House) -> TestClient:
    token = issue(house.store, "ci", "test", "operate")
    return TestClient(create_app(house), headers={"Authorization": f"Bearer {token}"})


def post(client: TestClient, key: str, **changes: object) -> Response:
    return client.post("/v1/events", json={"stream": "prices", "events": [PRICES], "key": key, **changes})


def figures(client: TestClient) -> dict[str, float]:
    lines = client.get("/metrics").text.splitlines()
    found = (re.fullmatch(r"([a-z_]+)(\{.*\})? ([\d.e+]+)", line) for line in lines)
    return {match[1] + (match[2] or ""): float(match[3]) for match in found if match}


def test_every_append_is_received_and_is_one_of_committed_repeated_and_rejected(empty_house: House) -> None:
    client = client_of(empty_house)
    before = figures(client)
    assert [post(client, key).status_code for key in ("a", "b", "a")] == [201, 201, 200]
    assert [post(client, "c", expect=7).status_code, post(client, "a", events=[PRICES] * 2).status_code] == [409, 409]
    after = figures(client)
    grown = {name: after[f"flywheel_append_{name}_total"] - before[f"flywheel_append_{name}_total"] for name in
             ("received", "committed", "repeated", "rejected", "events", "commits")}  # fmt: skip
    assert grown == {"received": 5, "committed": 2, "repeated": 1, "rejected": 2, "events": 2, "commits": 5}
    assert after["flywheel_append_waiting"] == 0
    assert after["flywheel_log_head"] == empty_house.store.head()


def test_lag_is_positions_behind_the_head_and_a_scrape_does_not_shorten_it(empty_house: House) -> None:
    client = client_of(empty_house)
    empty_house.projector.catch_up()
    post(client, "a")
    post(client, "b")
    name = 'flywheel_projection_lag_events{projection="costs"}'
    assert (figures(client)[name], figures(client)[name]) == (2, 2)
    empty_house.projector.catch_up()
    assert figures(client)[name] == 0


def test_an_instance_that_could_not_be_closed_is_counted(empty_house: House) -> None:
    client, name = client_of(empty_house), "flywheel_instances_unclosed_total"
    before = figures(client)[name]
    UNCLOSED.add()
    assert figures(client)[name] == before + 1


def test_metrics_need_a_token(empty_house: House) -> None:
    assert TestClient(create_app(empty_house)).get("/metrics").status_code == 401


def await_appends(house: House, number: int) -> None:
    """Wait, for 20 seconds at most, until so many appends wait in the store."""
    end = time.monotonic() + 20
    while house.store.group.counts.open_requests < number:
        assert time.monotonic() < end, house.store.group.counts
        time.sleep(0.005)


def test_beyond_the_bound_an_append_is_refused_at_once_and_counted_and_may_come_again(empty_house: House) -> None:
    settings = empty_house.settings.model_copy(update={"append_queue": 2})
    house = replace(empty_house, settings=settings)
    client = client_of(house)
    with ThreadPoolExecutor(2) as pool, house.engine.connect() as connection:
        connection.execute(
            text("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/append', 0))")
        ).scalar()
        waiting = [pool.submit(post, client, key) for key in "ab"]
        await_appends(house, 2)
        refused = post(client, "c")
        assert client.get("/v1/events").status_code == 200  # reading goes on
        connection.rollback()
        assert sorted(future.result(10).status_code for future in waiting) == [201, 201]
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert refused.json()["error"]["type"] == "LogBusy"
    assert post(client, "c").status_code == 201
    counts = house.store.group.counts
    assert counts.received == counts.committed + counts.repeated + counts.rejected
    assert counts.rejected == 1


def test_reads_go_on_while_as_many_appends_wait_as_are_let_in(empty_house: House) -> None:
    client = client_of(empty_house)
    with ThreadPoolExecutor(60) as pool, empty_house.engine.connect() as connection:
        connection.execute(
            text("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/append', 0))")
        ).scalar()
        waiting = [pool.submit(post, client, str(number)) for number in range(60)]
        await_appends(empty_house, 55)
        answers = [client.get(path).status_code for path in ("/healthz", "/metrics", "/v1/runs", "/v1/events")]
        connection.rollback()
        assert {future.result(20).status_code for future in waiting} == {201}
    assert answers == [200] * 4
    assert empty_house.store.group.counts.commits < 20


def test_the_format_says_its_version(empty_house: House) -> None:
    assert client_of(empty_house).get("/metrics").headers["Content-Type"].startswith("text/plain; version=")
