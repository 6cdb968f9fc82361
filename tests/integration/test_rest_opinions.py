"""Opinions over REST: on a channel of their own, one for each judge and run, never on sealed runs."""

from __future__ import annotations

from fastapi.testclient import TestClient

from api.history.disown import forged_events
from api.house import House
from tests.shared import HOLDER

from .test_rest_samples import SampleRun, record

BODY = {"judge": "nightly", "passed": True, "confidence": 0.75, "reason": "the order is there"}


def test_an_opinion_is_kept_beside_the_grade_and_is_no_reward(client: TestClient, house: House) -> None:
    record(house.store, house.blobs, SampleRun("r1", score=None), SampleRun("r2", evaluation="e"))
    first = client.post("/v1/runs/r1/opinion", json=BODY)
    assert first.status_code == 200, first.text
    assert first.json()["judge"] == f"{HOLDER}:nightly/reported-1"
    assert client.post("/v1/runs/r1/opinion", json=BODY).json() == first.json()
    shown = client.get("/v1/runs/r1").json()
    assert (shown["reward"], shown["events"][-1]["type"]) == (None, "JudgeOpined")
    assert (shown["events"][-1]["event"]["score"], shown["events"][-1]["actor"]) == (750_000, f"judge:{HOLDER}")
    assert forged_events(house.views()) == ()
    head = house.store.head()
    for run, body, status, kind in (
        ("r1", {**BODY, "passed": False}, 409, "OpinionReported"),
        ("r2", BODY, 409, "OpinionRefused"),
        ("none", BODY, 404, "Unknown"),
        ("r1", {**BODY, "judge": "a/b"}, 422, "InvalidRequest"),
    ):
        answer = client.post(f"/v1/runs/{run}/opinion", json=body)
        assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)
    assert house.store.head() == head
