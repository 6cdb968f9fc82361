"""Results of sealed runs stay sealed while their benchmark can judge: over REST, at the command line, in a what-if."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.cli.runs import STATUSES
from api.controllers.summary import summarise
from api.dashboard.overview import MOST_COUNTED, list_work
from api.errors import RunSealed
from api.history.regrade import Regrade, tell_regrades
from api.house import House
from api.mcp.answers import answer_run
from api.queries.costs import show_costs
from api.queries.groups import list_groups, show_group
from api.queries.loops import list_loops, show_loop
from api.queries.overview import show_overview
from api.queries.timelines import read_timeline
from api.tokens import issue
from eventlog.blobs import Blob
from eventlog.events import BenchmarkFrozen, VerdictReached, Visible
from projections.benchmarks import BENCHMARKS
from projections.engine.projection import Fold
from projections.engine.views import PostgresViews
from projections.verdicts import VERDICTS
from tests.golden.test_golden_samples import sample

from .test_cli import Flywheel, flywheel, shown
from .test_gate_ledger import opened
from .test_rest_samples import SampleRun, append, record

__all__ = ["flywheel"]

PASSED, FAILED, PLAIN = "first__a", "first__b", "s1__a"


def sealed_runs(house: House) -> None:
    """An evaluation on a benchmark that can judge, with a sealed run that passed and one that failed."""
    frozen = sample("BenchmarkFrozen", benchmark="second", challengers=2)
    append(house.store, "benchmark/second", frozen, opened("first", 1))
    record(
        house.store,
        house.blobs,
        SampleRun(PASSED, evaluation="first", sweep="first", group="g1"),
        SampleRun(FAILED, evaluation="first", sweep="first", group="g2", score=0, value=0),
        SampleRun(PLAIN, score=0, value=0),
    )


def succeed(house: House) -> None:
    append(house.store, "benchmark/third", sample("BenchmarkFrozen", benchmark="third", successor_of="second"))


def rewards(client: TestClient) -> list[bool | None]:
    runs = client.get("/v1/runs", params={"evaluation": "first"}).json()["runs"]
    return [None if run["reward"] is None else run["reward"]["passed"] for run in runs]


def graded(client: TestClient) -> set[str]:
    found = client.get("/v1/events", params={"type": "RewardGraded", "limit": 1000}).json()["events"]
    return {each["event"]["run"] for each in found} & {PASSED, FAILED, PLAIN}


def clustered(client: TestClient) -> set[str]:
    clusters = client.get("/v1/failure-clusters").json()["clusters"]
    return {run for cluster in clusters for run in cluster["runs"]} & {PASSED, FAILED, PLAIN}


def test_rest_tells_no_result_of_a_sealed_run_until_its_benchmark_has_a_successor(
    client: TestClient, house: House
) -> None:
    sealed_runs(house)
    one = client.get(f"/v1/runs/{PASSED}").json()
    outcome = client.get("/v1/outcomes", params={"sweep": "first"}).json()["outcomes"][0]
    assert (rewards(client), one["reward"], one["run"]["status"]) == ([None, None], None, "ended")
    assert "RewardGraded" not in {each["type"] for each in one["events"]}
    names = ("runs", "graded", "passed", "steps", "score", "valued", "value", "priced", "cost")
    assert ({outcome[name] for name in names}, outcome["missing"]) == ({None}, 0)
    assert (graded(client), clustered(client)) == ({PLAIN}, {PLAIN})

    succeed(house)
    outcome = client.get("/v1/outcomes", params={"sweep": "first"}).json()["outcomes"][0]
    assert (rewards(client), outcome["passed"], outcome["score"]) == ([True, False], 1, 1_000_000)
    assert (graded(client), clustered(client)) == ({PASSED, FAILED, PLAIN}, {FAILED, PLAIN})


def test_raw_events_stay_readable_to_admins(client: TestClient, house: House) -> None:
    sealed_runs(house)
    client.headers["Authorization"] = f"Bearer {issue(house.store, 'root', 'test', 'admin')}"
    one = client.get(f"/v1/runs/{PASSED}").json()
    assert (one["reward"], one["events"][-1]["type"]) == (None, "RewardGraded")
    assert graded(client) == {PASSED, FAILED, PLAIN}
    told = client.get(f"/v1/runs/{PASSED}", params={"raw": "false"}).json()
    assert "RewardGraded" not in {each["type"] for each in told["events"]}


def test_commands_tell_no_result_of_a_sealed_run_while_its_benchmark_can_judge(
    flywheel: Flywheel, house: House, tmp_path: Path
) -> None:
    sealed_runs(house)
    assert [row["passed"] for row in shown(flywheel, "runs", "list", "--sweep", "first")] == [None, None]
    assert shown(flywheel, "runs", "list", "--sweep", "first", "--failed") == []
    code, out, _ = flywheel("outcomes", "--sweep", "first")
    assert (code, "sealed" in out) == (0, True)
    reward = tmp_path / "reward.toml"
    reward.write_text("pass_score = 0\n")
    found = {each["run"] for each in shown(flywheel, "what-if", "--reward", str(reward))["rewards"]}
    assert found & {FAILED, PLAIN} == {PLAIN}
    succeed(house)
    assert [row["passed"] for row in shown(flywheel, "runs", "list", "--sweep", "first")] == [True, False]
    found = {each["run"] for each in shown(flywheel, "what-if", "--reward", str(reward))["rewards"]}
    assert found & {FAILED, PLAIN} == {FAILED, PLAIN}


def test_a_verdict_that_recomputes_otherwise_is_shown_without_figures_while_its_benchmark_can_judge(
    flywheel: Flywheel, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = sample("VerdictReached", evaluation="first")
    assert isinstance(reached, VerdictReached)
    other = reached.verdict.model_copy(update={"mean_delta": 123_457})
    monkeypatch.setattr("api.evaluations.verify.judge_again", lambda *_: other)
    frozen = sample("BenchmarkFrozen", benchmark="second", challengers=2)
    append(house.store, "benchmark/second", frozen, opened("first", 1))
    append(house.store, "champion", reached)
    code, _, err = flywheel("gate", "verify", "first")
    assert (code, "differs from the recorded one" in err, "123457" in err) == (1, True, False)
    succeed(house)
    code, _, err = flywheel("gate", "verify", "first")
    assert (code, "123457" in "".join(err.split())) == (1, True)


def test_a_difference_isolates_no_sealed_run_while_its_benchmark_can_judge(
    client: TestClient, flywheel: Flywheel, house: House
) -> None:
    start = int(house.store.head())
    sealed_runs(house)
    head = int(house.store.head())
    spans = [(place, place + 1) for place in range(start, head)] + [(start, head)]
    for first, last in spans:
        changed = client.get("/v1/diff", params={"from": first, "to": last}).json()["diff"]
        sealed = [row for row in changed["runs"] if row["is_evaluation"]]
        told = {row[name] for row in sealed for name in ("passed", "failed", "regraded", "rate", "rate_before")}
        assert told <= {None}
        costs = changed["costs"]
        assert costs is None or costs["spent"] is None
        assert sum(each["after"] - each["before"] for each in changed["failures"]) <= 1
    _, out, _ = flywheel("diff", "--from", str(start), "--to", str(head))
    assert ("in evaluations: 2 started, 2 ended (results are sealed)" in out, "is sealed" in out) == (True, True)

    succeed(house)
    changed = client.get("/v1/diff", params={"from": start}).json()["diff"]
    assert [(row["passed"], row["failed"]) for row in changed["runs"] if row["is_evaluation"]] == [(1, 1)]
    grown = sum(each["after"] - each["before"] for each in changed["failures"])
    assert (grown, changed["costs"]["spent"] is None) == (2, False)


def test_the_sum_of_costs_is_not_told_while_an_evaluation_plays(client: TestClient, house: House) -> None:
    sealed_runs(house)
    costs = client.get("/v1/costs").json()
    assert (costs["spent"], show_overview(house.views()).spent) == (None, None)
    succeed(house)
    assert (client.get("/v1/costs").json()["spent"] is None, show_overview(house.views()).spent is None) == (
        False,
        False,
    )


def test_the_sum_of_costs_is_told_or_not_without_reading_every_verdict(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed_runs(house)
    append(house.store, "benchmark/second", opened("other", 2))
    views, read = house.views(), list[tuple[str, str]]()
    find = type(views).find

    def noted(self: PostgresViews, fold: Fold[Any], prefix: str = "") -> Any:
        read.append((fold.name, prefix))
        return find(self, fold, prefix)

    monkeypatch.setattr(PostgresViews, "find", noted)
    assert show_costs(views).spent is None
    assert (read.count((VERDICTS.name, "")), read.count((BENCHMARKS.name, ""))) == (0, 1)


def test_the_work_bar_of_an_evaluation_tells_no_look_while_its_benchmark_can_judge(house: House) -> None:
    tasks = sample("BenchmarkFrozen")
    assert isinstance(tasks, BenchmarkFrozen)
    many = tuple(each.model_copy(update={"env_seed": n}) for n in range(MOST_COUNTED) for each in tasks.tasks[:1])
    frozen = tasks.model_copy(update={"benchmark": "second", "challengers": 2, "tasks": many})
    append(house.store, "benchmark/second", frozen, opened("first", 1), sample("EvaluationLooked", evaluation="first"))

    def bar() -> tuple[int | None, int | None]:
        work = next(each for each in list_work(house, house.views()) if each.name == "first")
        return work.done, work.total

    assert bar() == (None, None)
    succeed(house)
    assert None not in bar()


def test_groups_of_an_evaluation_tell_no_scores_while_its_benchmark_can_judge(house: House) -> None:
    sealed_runs(house)
    found = {row.group.group: row for row in list_groups(house.views(), limit=500).groups}
    assert [(found[group].graded, found[group].mean) for group in ("g1", "g2")] == [(1, 0), (0, None)]
    assert [each.sibling.passed for each in show_group(house.views(), "g2").siblings] == [None]
    succeed(house)
    assert [show_group(house.views(), group).graded for group in ("g1", "g2")] == [2, 1]


def with_benchmark(house: House, *runs: SampleRun) -> None:
    """An evaluation on a benchmark of one repeat that can judge, and these runs."""
    frozen = sample("BenchmarkFrozen", benchmark="second", challengers=2, repeats=1)
    append(house.store, "benchmark/second", frozen, opened("first", 1))
    record(house.store, house.blobs, *runs)


HALTED = SampleRun(FAILED, evaluation="first", sweep="first", group="g2", score=0, value=0, outcome="no_such_field")


def test_how_a_sealed_run_ended_is_not_told_while_its_benchmark_can_judge(
    client: TestClient, flywheel: Flywheel, house: House
) -> None:
    lost = SampleRun("first__c", evaluation="first", sweep="first", group="g3", is_missing=True)
    with_benchmark(house, SampleRun(PASSED, evaluation="first", sweep="first"), HALTED, lost)
    listed = client.get("/v1/runs", params={"evaluation": "first"}).json()["runs"]
    assert [each["status"] for each in listed] == ["ended", "ended", "missing"]
    did = ("steps", "mutations", "actions", "wall_microseconds")
    assert {each[name] for each in listed for name in did} == {None}
    asked = {
        status: client.get("/v1/runs", params={"evaluation": "first", "status": status}).json() for status in STATUSES
    }
    assert {status: len(found["runs"]) for status, found in asked.items() if found["runs"]} == {
        "ended": 2,
        "missing": 1,
    }
    one = client.get(f"/v1/runs/{FAILED}").json()
    assert (one["run"]["status"], [each["type"] for each in one["events"]]) == (
        "ended",
        ["RunStarted", "InstanceReset"],
    )
    kinds = ("StepTaken", "RunFinished", "RewardGraded")
    told = [client.get("/v1/events", params={"type": kind, "limit": 1000}).json()["events"] for kind in kinds]
    assert not [each for page in told for each in page if each["event"]["run"] in {PASSED, FAILED}]
    assert shown(flywheel, "runs", "list", "--sweep", "first", "--status", "halted") == []
    assert (shown(flywheel, "runs", "show", FAILED)["status"], answer_run(house, FAILED)["run"]["status"]) == (
        "ended",
        "ended",
    )
    code, _, err = flywheel("runs", "replay", FAILED)
    assert (code, "is sealed while" in err) == (1, True)
    succeed(house)
    assert client.get(f"/v1/runs/{FAILED}").json()["run"]["status"] == "halted"
    assert [each["run"] for each in shown(flywheel, "runs", "list", "--sweep", "first", "--status", "halted")] == [
        FAILED
    ]


def test_a_timeline_has_no_step_of_a_sealed_run_while_its_benchmark_can_judge(house: House) -> None:
    with_benchmark(house, HALTED)
    timeline = read_timeline(house.store, house.views(), FAILED)
    assert (timeline.turns, timeline.end, timeline.grades, timeline.start is None) == ((), None, (), False)
    succeed(house)
    timeline = read_timeline(house.store, house.views(), FAILED)
    assert (len(timeline.turns), timeline.end is None, len(timeline.grades)) == (3, False, 1)


def test_repeats_that_confirm_what_looked_worse_are_not_listed_while_the_benchmark_can_judge(
    client: TestClient, flywheel: Flywheel, house: House
) -> None:
    again = replace(HALTED, run="first__again", repeat=1)
    with_benchmark(house, HALTED, again)
    asked: tuple[dict[str, str], ...] = (
        {"evaluation": "first"},
        {"text": "first__"},
        {"limit": "1"},
        {"since": "0", "after": "0"},
    )
    for params in asked:
        page = client.get("/v1/runs", params={"limit": "1000", "after": "first__a", **params}).json()
        assert again.run not in {each["run"] for each in page["runs"]} | {page["next"]}
    assert [each["run"] for each in shown(flywheel, "runs", "list", "--sweep", "first")] == [FAILED]
    assert client.get(f"/v1/runs/{again.run}").status_code == 404
    events = client.get("/v1/events", params={"limit": 1000, "after": 650}).json()["events"]
    assert again.run not in {each["event"].get("run") for each in events}
    assert FAILED in {each["event"].get("run") for each in events}
    succeed(house)
    assert len(shown(flywheel, "runs", "list", "--sweep", "first")) == 2


def test_groups_have_no_sibling_that_confirms_what_looked_worse_while_the_benchmark_can_judge(house: House) -> None:
    again = replace(HALTED, run="first__again", repeat=1)
    with_benchmark(house, HALTED, again)

    def siblings() -> list[list[str]]:
        listed = {row.group.group: row for row in list_groups(house.views(), limit=500).groups}["g2"]
        return [[each.sibling.run for each in row.siblings] for row in (listed, show_group(house.views(), "g2"))]

    before = siblings()
    assert all(FAILED in each and again.run not in each for each in before)
    succeed(house)
    assert [sorted([*each, again.run]) for each in before] == [sorted(each) for each in siblings()]


def test_a_loop_that_plays_a_sealed_run_is_not_told_while_its_benchmark_can_judge(
    client: TestClient, flywheel: Flywheel, house: House
) -> None:
    long = replace(HALTED, run="first__" + "x" * 160)
    with_benchmark(house, HALTED, long, SampleRun(PLAIN))
    hidden = {f"{FAILED}.loop", f"{FAILED}.loop2", f"{long.run[:150]}.loop", f"{FAILED}.loop.w1"}
    loops = {*hidden, f"{PLAIN}.loop", "by-hand"}
    for loop in sorted(loops):
        kinds = ("LoopOpened", "WorkerReturned", "LoopClosed")
        append(house.store, f"loop/{loop}", *(sample(kind, loop=loop) for kind in kinds))

    def told() -> list[set[str]]:
        listed = {row.loop for row in list_loops(house.views(), limit=1000).loops}
        pages = [
            client.get("/v1/events", params={"type": kind, "limit": 1000}).json()["events"]
            for kind in ("LoopOpened", "WorkerReturned", "LoopClosed")
        ]
        return [found & loops for found in (listed, *({each["event"]["loop"] for each in page} for page in pages))]

    assert told() == [loops - hidden] * 4
    for loop in hidden:
        with pytest.raises(RunSealed):
            show_loop(house.views(), house.blobs, loop)
    for command in ("runs", "delegate"):
        code, _, err = flywheel(command, "replay", FAILED if command == "runs" else f"{FAILED}.loop")
        assert (code, "is sealed while" in err) == (1, True)
    succeed(house)
    assert told() == [loops] * 4


def test_what_a_loop_of_a_sealed_run_wrote_is_not_told_while_its_benchmark_can_judge(
    client: TestClient, flywheel: Flywheel, house: House, tmp_path: Path
) -> None:
    with_benchmark(house, HALTED)
    hidden = f"{FAILED}.loop"
    texts = [f"How to read sales, {number}" for number in range(3)]
    written = house.blobs.put([Blob("application/json", json.dumps({"code": each}).encode()) for each in texts])

    def write(loop: str, content: str, *names: str) -> None:
        for name in names:
            saved = sample("SkillSaved", loop=loop, skill=name, content=content)
            forged = sample("ToolForged", loop=loop, tool=f"dynamic.{name}", content=content, code_hash=content)
            append(house.store, f"loop/{loop}", saved, forged)

    append(house.store, f"loop/{hidden}", sample("LoopOpened", loop=hidden))
    write(hidden, written[0], "shared", "own")
    write("by-hand", written[1], "shared")

    def named(kind: str) -> set[str]:
        rows = client.get(f"/v1/{kind}").json()[kind]
        return {row[kind.removesuffix("s")].removeprefix("dynamic.") for row in rows} & {"shared", "own"}

    answers = [
        client.get(f"/v1/{path}").text
        for path in ("skills", "tools", "skills/shared", "tools/dynamic.shared", "events")
    ]
    assert not [each for each in answers if written[0] in each]
    assert (named("skills"), named("tools")) == ({"shared"}, {"shared"})
    for path in (f"loops/{hidden}", "skills/own", "tools/dynamic.own"):
        refused = client.get(f"/v1/{path}")
        assert (refused.status_code, refused.json()["error"]["type"]) == (409, "RunSealed")
    assert flywheel("skills", "export", str(tmp_path / "out"))[0] == 0
    assert {file.stem for file in (tmp_path / "out").iterdir()} & {"shared", "own"} == {"shared"}
    write(hidden, written[2], "shared")  # a name whose latest version may not be told is left out as a whole
    assert (named("skills"), client.get("/v1/tools/dynamic.shared").status_code) == (set(), 409)
    succeed(house)
    assert (named("skills"), named("tools")) == ({"shared", "own"}, {"shared", "own"})


def test_grading_again_shows_no_result_of_a_sealed_run(house: House) -> None:
    with_benchmark(house, HALTED, replace(HALTED, run="first__again", repeat=1), SampleRun(PLAIN))
    found = [Regrade(run, "graded", True, 1, False, 0) for run in (FAILED, "first__again", PLAIN)]
    told = tell_regrades(house.views(), found)
    assert told == (Regrade(FAILED, "graded"), Regrade(PLAIN, "graded", True, 1, False, 0))
    succeed(house)
    assert tell_regrades(house.views(), found) == tuple(found)


def test_the_closing_summary_counts_no_sealed_run_as_passed(house: House) -> None:
    before = summarise(house, "marketplace", "fast", "", 1.0)
    with_benchmark(house, SampleRun(PASSED, evaluation="first", sweep="first"), HALTED, SampleRun(PLAIN))
    after = summarise(house, "marketplace", "fast", "", 1.0)
    assert after.runs == before.runs + 3
    assert (after.graded, after.passed) == (before.graded + 1, before.passed + 1)


def test_the_closing_summary_tells_visible_means_until_sealed_figures_may_be_told(house: House) -> None:
    seen = Visible(instances=4, champion_mean=250_000, challenger_mean=1_000_000)
    reached = sample("VerdictReached", evaluation="first")
    assert isinstance(reached, VerdictReached)
    reached = reached.model_copy(update={"verdict": reached.verdict.model_copy(update={"visible": seen})})
    with_benchmark(house)
    append(house.store, "champion", reached)
    site = house.views().find(BENCHMARKS)["second"].environment
    shown = summarise(house, site, "fast", "", 1.0)
    assert shown.before.startswith("mean score 0.25 on 4 visible instances with ")
    assert shown.after.startswith("mean score 1 on 4 visible instances with ")
    succeed(house)
    assert "sealed runs passed" in summarise(house, site, "fast", "", 1.0).before
    later = summarise(house, site, "fast", "", 1.0)
    labels = [[label for label, _ in each.rows()][2:4] for each in (shown, later)]
    assert labels[0] == ["visible instances before", "visible instances after"]
    assert labels[1] == ["success rate before", "success rate after"]
