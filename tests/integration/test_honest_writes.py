"""What an honest caller may write over HTTP never counts as forged: over every writing route there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from fastapi.testclient import TestClient

from agents.rollouts.dispatching.queue import RolloutQueue
from api.history.disown import forged_events, refuse_forged
from api.house import House
from api.routes.roles import EVENTS
from tests.admitted import admitted
from tests.golden.test_golden_samples import sample
from tests.traced import chat, request

from .test_rest_samples import SampleRun, append, planned, record, template
from .test_rest_time import EVERY

OUTSIDE: Final = SampleRun("ext-1", group="ext-1", sweep="ext-1")
TASK: Final = {"environment": "marketplace", "task": "marketplace.control_draw", "instruction": "draw", "seed": 3}
PRICES: Final = sample("PriceBookSet").model_dump(mode="json")


@pytest.fixture
def house(empty_house: House) -> House:
    """A house on an empty log."""
    return empty_house


def _put_blob(client: TestClient) -> Any:
    return client.post("/v1/blobs", content=b"bytes")


def _append_events(client: TestClient) -> Any:
    return client.post("/v1/events", json={"stream": "prices", "events": [PRICES]})


def _reward(client: TestClient) -> Any:
    started = OUTSIDE.started(_put_blob(client).json()["address"]).model_dump(mode="json")
    assert client.post("/v1/events", json={"stream": "run/ext-1", "events": [started]}).status_code == 201
    return client.post("/v1/runs/ext-1/reward", json={"score": 1, "passed": True})


def _opinion(client: TestClient) -> Any:
    return client.post("/v1/runs/r1/opinion", json={"judge": "nightly", "passed": True})


def _predict(client: TestClient) -> Any:
    return client.post("/v1/predict", json=TASK)


def _cancel(client: TestClient) -> Any:
    return client.post(f"/v1/predict/{_predict(client).json()['run']}/cancel")


def _resume(client: TestClient) -> Any:
    run, house = _predict(client).json()["run"], client.app.state.house  # type: ignore[attr-defined]  # our own
    with house.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE procrastinate_jobs SET status = 'doing'")
        connection.exec_driver_sql("SELECT procrastinate_finish_job_v1(id, 'failed', false) FROM procrastinate_jobs")
    assert len(RolloutQueue(house.engine, "marketplace").parked_jobs()) >= 1
    return client.post(f"/v1/predict/{run}/resume")


def _register_slice(client: TestClient) -> Any:
    return client.post("/v1/slices", json={"query": {"kind": "sft", "group": "g1"}})


def _send_traces(client: TestClient) -> Any:
    return client.post("/v1/traces", json=request(chat(1)))


WRITES: Final[Mapping[str, Callable[[TestClient], Any]]] = {
    "/v1/blobs": _put_blob,
    "/v1/events": _append_events,
    "/v1/predict": _predict,
    "/v1/predict/{run_id}/cancel": _cancel,
    "/v1/predict/{run_id}/resume": _resume,
    "/v1/runs/{run_id}/opinion": _opinion,
    "/v1/runs/{run_id}/reward": _reward,
    "/v1/slices": _register_slice,
    "/v1/traces": _send_traces,
}
"""An honest request to each route that writes."""


def test_no_honest_write_over_any_route_counts_as_forged(client: TestClient, house: House) -> None:
    store = house.store
    admitted(store, "marketplace")
    append(store, "sweep/s1", planned(template()))
    record(store, house.blobs, SampleRun("r1"))
    assert sorted(WRITES) == sorted(path for method, path in EVERY if method != "GET")
    for path, write in WRITES.items():
        before = store.head()
        answer = write(client)
        assert answer.status_code in {200, 201, 202}, (path, answer.text)
        assert forged_events(house.views()) == (), path
        assert path == "/v1/blobs" or store.head() > before, path
    refuse_forged(house.views())
    from_outside = {each.event.type for each in store.read() if each.actor.startswith("api:")}
    assert from_outside <= EVENTS.keys()
