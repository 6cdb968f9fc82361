from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from api.house import House
from eventlog.events import (
    Anchor,
    ChampionPointed,
    EvaluationOpened,
    PriceBookSet,
    ReplaceUrl,
    RewriteProposed,
    RewriteWon,
    Rules,
    SeedsRule,
)
from tests.golden.test_golden_samples import sample

from .test_rest_samples import BASE, NO_DIGEST, SampleRun, append, frozen, record, template


@pytest.fixture
def house(empty_house: House) -> House:
    """A house on an empty log."""
    return empty_house


def propose(house: House, rewrite: str) -> None:
    proposed = RewriteProposed(
        rewrite=rewrite,
        anchor=Anchor(type="navigate", intent="open", content=NO_DIGEST),
        change=ReplaceUrl(url="/b"),
        rule=SeedsRule(),
        run="r1",
        source="page_links",
        confidence=1,
    )
    won = RewriteWon(rewrite=rewrite, run="r2", control_runs=(), control_successes=0)
    append(house.store, f"rewrite/{rewrite}", proposed, won)


def test_runs_come_with_their_rewards_and_unknown_stays_null(client: TestClient, house: House) -> None:
    record(house.store, house.blobs, SampleRun("r1"), SampleRun("r2", score=None), SampleRun("r3", value=None))
    runs = client.get("/v1/runs").json()["runs"]
    beside = {
        "score": 1_000_000,
        "passed": True,
        "shaped": None,
        "steps": None,
        "version": runs[0]["reward"]["version"],
    }
    assert [run["reward"] for run in runs] == [
        {**beside, "value": 990_000, "cost": 10_000},
        None,
        {**beside, "value": None, "cost": None},
    ]
    assert beside["version"]
    assert runs[0]["status"] == "completed"


def test_runs_are_filtered(client: TestClient, house: House) -> None:
    record(
        house.store,
        house.blobs,
        SampleRun("a", sweep="s2"),
        SampleRun("b", evaluation="e"),
        SampleRun("c", template="other"),
        SampleRun("d", is_missing=True),
        SampleRun("e", is_ended=False),
    )

    def ids(**params: str) -> list[str]:
        return [run["run"] for run in client.get("/v1/runs", params=params).json()["runs"]]

    assert ids(sweep="s2") == ["a"]
    assert ids(prefix="s2") == ids(prefix="a") == []  # these names have no sweep before them
    assert ids(evaluation="e") == ["b"]
    assert ids(template="other") == ["c"]
    assert ids(status="missing") == ["d"]
    assert ids(status="started") == ["e"]
    assert ids(status="completed", template="contact") == ["a", "b"]
    assert client.get("/v1/runs", params={"status": "happy"}).status_code == 422


def test_runs_are_paged_by_the_bytes_of_their_ids(client: TestClient, house: House) -> None:
    names = ["Z", "a", "é", "\uffee", "\U0001f600"]
    record(house.store, house.blobs, *(SampleRun(name) for name in reversed(names)))
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = client.get("/v1/runs", params={"after": after, "limit": 2}).json()
        seen += [run["run"] for run in page["runs"]]
        after = page["next"]
    assert seen == names


def test_one_run_comes_with_its_events_as_of_a_position(client: TestClient, house: House) -> None:
    record(house.store, house.blobs, SampleRun("s1/t7/0"))
    now = client.get("/v1/runs/s1/t7/0")
    assert [event["type"] for event in now.json()["events"]][-2:] == ["RunFinished", "RewardGraded"]
    assert now.json()["reward"]["score"] == 1_000_000
    then = client.get("/v1/runs/s1/t7/0", params={"as_of": 3})
    assert (then.json()["run"]["status"], then.json()["reward"], len(then.json()["events"])) == ("started", None, 2)
    assert then.headers["X-Log-Position"] == "3"
    assert client.get("/v1/runs/s1/t7/0", params={"as_of": 1}).status_code == 404


@pytest.mark.reads
@pytest.mark.parametrize(
    "path", ["runs/x", "rewrites/x", "substrates/x/y", "courses/x", "verdicts/x", "champion", f"datasets/{'a' * 64}"]
)
def test_what_is_not_there_is_404(client: TestClient, path: str) -> None:
    answer = client.get(f"/v1/{path}")
    expected = "NoChampion" if path == "champion" else "Unknown"
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, expected)
    assert answer.headers["X-Log-Position"] == "1"


@pytest.mark.reads
@pytest.mark.parametrize("path", ["runs/a%00b", "runs/", f"runs/{'x' * 201}", "datasets/nothing", "datasets/%00/rows"])
def test_a_name_that_cannot_be_is_422(client: TestClient, path: str) -> None:
    assert client.get(f"/v1/{path}").status_code == 422


def test_a_rewrite_comes_with_its_history(client: TestClient, house: House) -> None:
    propose(house, "w1")
    propose(house, "w2")
    assert [item["rewrite"] for item in client.get("/v1/rewrites").json()["rewrites"]] == ["w1", "w2"]
    found = client.get("/v1/rewrites/w1").json()
    assert [(item["since"], item["state"]["wins"]) for item in found["history"]] == [(2, 0), (3, 1)]
    then = client.get("/v1/rewrites/w1", params={"as_of": 2}).json()
    assert (then["rewrite"]["wins"], len(then["history"])) == (0, 1)


def test_substrates_come_by_cluster_with_what_each_was_worth_and_how_that_came_about(
    client: TestClient, house: House
) -> None:
    for cluster in ("knowledge", "navigation", "policy"):
        stream = f"substrates/marketplace/{cluster}"
        append(house.store, stream, sample("SubstrateChosen", environment="marketplace", cluster=cluster))
    credited = sample(
        "SubstrateCredited", environment="marketplace", cluster="policy", applied=True, gain=900_000, cost=400
    )
    append(house.store, "substrates/marketplace/policy", credited)
    first = client.get("/v1/substrates", params={"limit": 2}).json()
    assert [each["cluster"] for each in first["clusters"]] == ["knowledge", "navigation"]
    second = client.get("/v1/substrates", params={"limit": 2, "after": first["next"]}).json()
    assert ([each["cluster"] for each in second["clusters"]], second["next"]) == (["policy"], None)
    found = client.get("/v1/substrates/marketplace/policy").json()
    (before, after), (standing,) = found["history"], found["cluster"]["substrates"]
    assert (before["since"], before["state"]["substrates"][0]["value"]) == (4, None)
    assert after == {"since": 5, "state": found["cluster"]}
    assert {key: standing[key] for key in ("chosen", "pulls", "gain", "cost", "value", "mean_cost")} == {
        "chosen": 1,
        "pulls": 1,
        "gain": 900_000,
        "cost": 400,
        "value": 900_000,
        "mean_cost": 400,
    }
    then = client.get("/v1/substrates/marketplace/policy", params={"as_of": 4}).json()
    assert (then["cluster"]["pulls"], then["history"]) == (0, [before])


def test_the_last_course_of_each_environment_comes_with_its_budget_and_those_before_it(
    client: TestClient, house: House
) -> None:
    for site in ("helpdesk", "marketplace"):
        opened = sample("CourseOpened", course=f"{site}-1", environment=site)
        append(house.store, f"course/{site}", opened)
    closed = sample("CourseClosed", course="marketplace-1", environment="marketplace", why="done")
    again = sample("CourseOpened", course="marketplace-2", environment="marketplace")
    append(house.store, "course/marketplace", closed, again)
    first = client.get("/v1/courses", params={"limit": 1}).json()
    assert ([each["course"] for each in first["courses"]], first["next"]) == (["helpdesk-1"], "fast/helpdesk")
    second = client.get("/v1/courses", params={"after": first["next"]}).json()
    assert ([each["course"] for each in second["courses"]], second["next"]) == (["marketplace-2"], None)
    found = client.get("/v1/courses/marketplace").json()
    assert found["course"] == second["courses"][0] == found["history"][-1]["state"]
    assert [(each["since"], each["state"]["closed"]) for each in found["history"]] == [
        (3, None),
        (4, "done"),
        (5, None),
    ]
    then = client.get("/v1/courses/marketplace", params={"as_of": 4})
    assert (then.json()["course"]["closed"], then.headers["X-Log-Position"]) == ("done", "4")


def test_the_courses_of_the_slow_loop_are_listed_beside_and_read_by_their_loop(
    client: TestClient, house: House
) -> None:
    for site, loop in (("helpdesk", "slow"), ("helpdesk", "fast"), ("helpdesk-2", "fast")):
        append(
            house.store, f"course/{site}", sample("CourseOpened", course=f"{site}-{loop}", environment=site, loop=loop)
        )
    closed = sample("CourseClosed", course="helpdesk-slow", environment="helpdesk", loop="slow", why="done")
    append(house.store, "course/helpdesk", closed)
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = client.get("/v1/courses", params={"limit": 1, "after": after}).json()
        seen += [each["course"] for each in page["courses"]]
        after = page["next"]
    assert seen == ["helpdesk-fast", "helpdesk-2-fast", "helpdesk-slow"]
    fast, slow = (client.get("/v1/courses/helpdesk", params={"loop": loop}).json() for loop in ("fast", "slow"))
    assert fast == client.get("/v1/courses/helpdesk").json()
    assert (fast["course"]["course"], fast["course"]["closed"]) == ("helpdesk-fast", None)
    assert [(each["since"], each["state"]["closed_since"]) for each in slow["history"]] == [(2, None), (5, 5)]
    assert client.get("/v1/courses/helpdesk-2", params={"loop": "slow"}).status_code == 404
    assert client.get("/v1/courses/helpdesk", params={"loop": "both"}).status_code == 422


@pytest.mark.reads
@pytest.mark.parametrize("path", ["substrates", "courses", "substrates/a/b", "courses/a"])
def test_who_has_no_token_is_told_nothing_of_substrates_and_courses(client: TestClient, path: str) -> None:
    answer = client.get(f"/v1/{path}", headers={"Authorization": ""})
    assert (answer.status_code, answer.json()["error"]["type"]) == (401, "NotAuthorized")


def test_benchmarks_verdicts_and_costs(client: TestClient, house: House) -> None:
    append(house.store, "benchmark/b", frozen(template(), 7))
    assert client.get("/v1/costs").json() == {
        "book": None,
        "spent": 0,
        "runs": 0,
        "unknown": 0,
        "recovery": {"spent": 0, "calls": 0, "unknown": 0},
    }
    prices = PriceBookSet(
        version=1, per_action=5, per_second=1, per_thousand_input_tokens=0, per_thousand_output_tokens=0
    )
    append(house.store, "prices", prices)
    record(house.store, house.blobs, SampleRun("r1"), SampleRun("r2", value=None))
    costs = client.get("/v1/costs").json()
    assert (costs["book"]["per_action"], costs["spent"], costs["runs"], costs["unknown"]) == (5, 10_000, 2, 1)
    opened = EvaluationOpened(
        evaluation="e1",
        benchmark="b",
        benchmark_digest=NO_DIGEST,
        champion=BASE,
        challenger=BASE,
        rules=Rules.seeds(),
        challenge=1,
        alpha=5_000,
        suite=(),
    )
    append(house.store, "benchmark/b", opened)
    assert [item["benchmark"] for item in client.get("/v1/benchmarks").json()["benchmarks"]] == ["b"]
    assert [item["decision"] for item in client.get("/v1/verdicts").json()["verdicts"]] == [None]
    assert client.get("/v1/verdicts/e1").json()["verdict"]["rules"]["bootstrap_samples"] == 2000


def test_failed_runs_are_clustered(client: TestClient, house: House) -> None:
    failed = [SampleRun(run, score=0, outcome="no_such_field") for run in ("r1", "r2")]
    record(house.store, house.blobs, *failed, SampleRun("r3"))
    assert client.get("/v1/failure-clusters").json()["clusters"] == [
        {
            "environment": "marketplace",
            "template": "contact",
            "failure_class": "missing_control",
            "step_intent": "send",
            "runs": ["r1", "r2"],
        }
    ]


def test_the_champion_is_a_read_as_of_any_position(client: TestClient, house: House) -> None:
    for reason in ("first", "second"):
        pointed = ChampionPointed(artifact=BASE, by="operator", reason=reason, evaluation=None)
        append(house.store, "champion", pointed)
    assert client.get("/v1/champion").json()["champion"]["reason"] == "second"
    assert client.get("/v1/champion", params={"as_of": 2}).json()["champion"]["reason"] == "first"
    assert client.get("/v1/champion", params={"as_of": 1}).status_code == 404
    history = client.get("/v1/champion/history").json()["history"]
    assert [(item["since"], item["state"]["name"]) for item in history] == [(2, "base@0"), (3, "base@0")]
