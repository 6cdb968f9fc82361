"""Outcomes over REST and as a command: counted as of a position, page by page, and the same archived."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine

from api.house import House
from api.queries.outcomes import OutcomeRow, list_outcomes, read_place, write_place
from eventlog.archive.drop import drop
from eventlog.archive.write import archive
from eventlog.database import open_engine
from eventlog.events import RewardGraded, RunStarted
from eventlog.store import Position
from projections.frames.outcomes import OUTCOMES
from tests.conftest import Database
from tests.golden.test_golden_samples import golden_log, sample

from .test_cli import Flywheel, flywheel, shown
from .test_rest_samples import NO_DIGEST, SampleRun, append

pytestmark = pytest.mark.reads

__all__ = ["flywheel"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test archives."""
    monkeypatch.setenv("FLYWHEEL_ARCHIVE", str(tmp_path))
    return tmp_path


def asked(client: TestClient, **parameters: object) -> Any:
    answer = client.get("/v1/outcomes", params={name: str(value) for name, value in parameters.items()})
    assert answer.status_code == 200, answer.text
    return answer.json()


def counted(upto: int) -> list[dict[str, Any]]:
    """What the golden log says, event by event."""
    events = [item.event for item in golden_log() if item.position <= upto]
    cells = {
        event.run: (event.spec.sweep, event.spec.template, event.spec.candidate is not None)
        for event in events
        if isinstance(event, RunStarted)
    }
    grades = [(cells[event.run], event) for event in events if isinstance(event, RewardGraded)]
    runs = Counter(cells.values())
    return [
        {
            "runs": runs[cell],
            "graded": sum(own == cell for own, _ in grades),
            "passed": sum(own == cell and grade.passed for own, grade in grades),
            "cost": sum(grade.cost or 0 for own, grade in grades if own == cell),
            "value": sum(grade.value or 0 for own, grade in grades if own == cell),
        }
        for cell in sorted(runs)
    ]


@pytest.mark.parametrize("as_of", [0, 3, 100, 401, 652])
def test_outcomes_as_of_a_position_are_the_counts_of_the_log_then(as_of: int, client: TestClient) -> None:
    asked(client)
    rows = asked(client, as_of=as_of)["outcomes"]
    wanted = counted(as_of)
    assert [{name: row[name] for name in expected} for row, expected in zip(rows, wanted, strict=True)] == wanted
    answer = client.get("/v1/outcomes", params={"as_of": as_of})
    assert answer.headers["X-Log-Position"] == str(as_of)


def test_outcomes_come_a_page_at_a_time_and_none_twice(client: TestClient) -> None:
    every = asked(client)["outcomes"]
    pages: list[Any] = []
    found = asked(client, limit=3)
    while found["next"] is not None:
        pages += found["outcomes"]
        assert len(found["outcomes"]) == 3
        found = asked(client, limit=3, after=found["next"])
    assert pages + found["outcomes"] == every
    assert len(every) == 8
    assert asked(client, limit=8)["next"] is None


def test_a_page_makes_no_more_rows_than_it_shows(house: House) -> None:
    upto = house.views().upto
    every, first = house.frames.read(OUTCOMES, upto), house.frames.read(OUTCOMES, upto, limit=3)
    assert (every.height, first.rows()) == (8, every.head(3).rows())
    page = list_outcomes(
        house.frames, house.views(), after=read_place(write_place(OutcomeRow(**every.row(2, named=True))))
    )
    assert [row.template for row in page.outcomes] == every["template"][3:].to_list()


def test_outcomes_are_filtered_by_sweep_and_template(client: TestClient) -> None:
    found = asked(client, sweep="marketplace-2", template="marketplace.phone_reveal", limit=1)
    assert [row["is_treated"] for row in found["outcomes"]] == [False]
    found = asked(client, sweep="marketplace-2", template="marketplace.phone_reveal", after=found["next"])
    assert [(row["is_treated"], row["runs"]) for row in found["outcomes"]] == [(True, 6)]
    assert asked(client, sweep="nothing") == {"outcomes": [], "next": None}


@pytest.mark.parametrize(
    "after",
    ["x", "é", "", "W10", base64.urlsafe_b64encode(b'["a",1,true]').decode(), base64.b64encode(b'{"a":1}').decode()],
)
def test_a_page_after_nothing_that_was_answered_is_refused(after: str, client: TestClient) -> None:
    answer = client.get("/v1/outcomes", params={"after": after})
    assert (answer.status_code, answer.json()["error"]["type"]) == (422, "Unprocessable")
    assert "`next` of a page before" in answer.json()["error"]["message"]


@pytest.mark.parametrize("parameters", [{"limit": 0}, {"limit": "x"}, {"sweep": ""}, {"as_of": "soon"}])
def test_what_cannot_be_asked_is_refused(parameters: dict[str, object], client: TestClient) -> None:
    assert client.get("/v1/outcomes", params=parameters).status_code == 422  # type: ignore[arg-type]


@pytest.mark.writes
def test_runs_that_never_started_are_counted_apart_and_paged_over(client: TestClient, house: House) -> None:
    append(house.store, "run/ghost", sample("StepTaken", run="ghost"))
    append(house.store, "run/odd", SampleRun("odd", sweep="ü / ? &", template="a").started(NO_DIGEST))
    first = asked(client, limit=1)
    assert [(row["sweep"], row["is_treated"], row["steps"]) for row in first["outcomes"]] == [(None, None, 1)]
    rest = asked(client, after=first["next"])["outcomes"]
    assert (len(rest), rest[-1]["sweep"]) == (9, "ü / ? &")
    last = asked(client, limit=9)
    assert asked(client, after=last["next"])["outcomes"] == rest[-1:]


@pytest.mark.writes
def test_archived_positions_count_as_before(
    client: TestClient, house: House, owner_engine: Engine, folder: Path
) -> None:
    before = [asked(client, as_of=as_of) for as_of in (652, 300, 100)]
    archive(owner_engine, folder, Position(400), size=150)
    drop(owner_engine, folder, Position(400))
    house.frames.remembered.clear()
    assert [asked(client, as_of=as_of) for as_of in (652, 300, 100)] == before


@pytest.fixture
def archived(database: Database, folder: Path) -> None:
    """The golden log with its first 400 positions out of the table."""
    engine = open_engine(database.owner_url)
    archive(engine, folder, Position(400), size=100)
    drop(engine, folder, Position(400))
    engine.dispose()


@pytest.mark.writes
@pytest.mark.usefixtures("archived")
def test_the_command_says_what_rest_says(flywheel: Flywheel) -> None:
    every = counted(652)
    rows = shown(flywheel, "outcomes")
    assert [{name: row[name] for name in every[0]} for row in rows] == every
    assert [row["runs"] for row in shown(flywheel, "outcomes", "--as-of", "3")] == [row["runs"] for row in counted(3)]
    assert len(shown(flywheel, "outcomes", "--sweep", "eval-1", "--template", "marketplace.phone_reveal")) == 1
    code, out, _ = flywheel("outcomes", "--sweep", "marketplace-2")
    assert code == 0
    assert "│ yes     │ 6    │ 0       │ 6      │ 3      │ 39    │ 2.99922 │ $0.0078" in out
    assert flywheel("outcomes", "--sweep", "nothing")[:2] == (0, "no such runs\n")
    code, _, err = flywheel("outcomes", "--as-of", "9999")
    assert (code, "Position 9999 " in err) == (1, True)


@pytest.mark.writes
@pytest.mark.usefixtures("archived")
def test_frames_are_verified_on_processes_and_an_engine_there_is_not_is_a_usage_error(flywheel: Flywheel) -> None:
    words = ("replay", "--verify", "--projection", "outcomes", "--projection", "step_outcomes")
    code, out, _ = flywheel(*words, "--frames-on", "processes:1", "--json")
    assert (code, [row["identical"] for row in json.loads(out)]) == (0, [True, True])
    for wrong in ("threads", "processes:0", "processes:x", "here:2", "", "processes:1000"):
        code, _, err = flywheel(*words, "--frames-on", wrong)
        assert (code, "expected here, processes" in err) == (64, True)
    code, _, err = flywheel(*words, "--frames-on", "ray:127.0.0.1:1")
    assert (code, "127.0.0.1:1 does not answer" in err) == (1, True)
