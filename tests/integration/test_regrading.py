"""Ended runs graded again, over a real site, a real log and the command; and runs that began from another state."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.contract import Instance
from agents.envs.sites.site import OracleGrade, Simulation
from agents.rollouts.errors import UnknownVerifier
from agents.rollouts.regrade import VERIFIERS
from api.cli.main import run_command
from api.controllers.fast import Controller
from api.course import Course
from api.datasets import freeze
from api.errors import Unknown
from api.history.regrade import ended_runs_of, regrade_runs
from api.history.whatif.definitions import RewardDefinition
from api.history.whatif.revalue import revalue
from api.house import House
from eventlog.blobs import Blob
from eventlog.events import AnyEvent, RewardGraded, SeedsRule, SftQuery
from eventlog.keys import FolderKeys
from eventlog.store import Append
from projections.contamination import contaminated_runs
from projections.costs import COSTS, SPENT
from projections.failures import FAILURES, clusters
from projections.groups import find_groups
from projections.rewards import REWARDS
from projections.rewrites import REWRITES
from projections.runs import RUNS
from tests.admitted import admitted
from tests.golden.make import Quiet
from tests.golden.test_golden_samples import sample
from tests.integration.test_judging_runs import jobs, sweep
from tests.integration.test_rest_samples import client_of
from tests.sites import HouseFrom, Record, SharedSite
from tests.unit.test_folds_runs import ARM, finished, missing, reset
from tests.unit.test_folds_samples import changed, graded, started

MICRO = 1_000_000
SEEDS = 6
SWEPT = [job.run for job in jobs(SEEDS)]


def rewards_of(house: House, run: str) -> list[RewardGraded]:
    """Every grade of a run, in order."""
    events = (item.event for item in house.store.read(stream=f"run/{run}"))
    return [event for event in events if isinstance(event, RewardGraded)]


def told(house: House, run: str, *events: AnyEvent) -> None:
    house.store.append([Append(f"run/{run}", events, "test")])


@pytest.fixture
def swept_house(record: Record, house_from: HouseFrom, marketplace: EnvClient) -> House:
    """A house whose log holds the runs of `SWEPT`."""

    def play(house: House) -> None:
        sweep(house, marketplace, SEEDS)

    return house_from(record("swept", "empty", play))


def test_a_grade_by_another_verifier_stands_beside_the_first_and_is_in_force(swept_house: House) -> None:
    def halved(instance: Simulation, task: str) -> OracleGrade:
        grade = instance.grade(task)
        return replace(grade, score_e4=grade.score_e4 // 2)

    house, runs = swept_house, SWEPT
    before, spent = house.views().find(REWARDS), house.views().get(COSTS, SPENT)
    assert {reward.score for reward in before.values()} >= {0, MICRO}
    found = regrade_runs(house, "halved-1", runs, known={**VERIFIERS, "halved-1": halved})
    assert [(each.run, each.outcome) for each in found] == [(run, "graded") for run in runs]
    views = house.views()
    for run in runs:
        first, second = rewards_of(house, run)
        now = views.find(REWARDS)[run]
        assert (second.score, second.passed) == (first.score // 2, first.passed)
        assert (second.cost, second.prices, second.terms.penalty) == (first.cost, first.prices, first.terms.penalty)
        assert first.terms.penalty is not None
        assert first.shaped is not None
        assert second.value == second.score - first.terms.penalty
        assert second.shaped == first.shaped - first.score + second.score
        assert (second.terms.process, second.terms.progress) == (first.terms.process, first.terms.progress)
        assert (now.version, now.score) == ("halved-1", second.score)
        assert [(each.version, each.score) for each in now.others] == [("oracle-1", first.score)]
    assert views.get(COSTS, SPENT) == spent
    siblings = [sibling for group in find_groups(views).values() for sibling in group.siblings]
    assert {each.run: each.score for each in siblings} == {run: before[run].score // 2 for run in runs}


@pytest.mark.parametrize(("passed", "score"), [(False, 0), (True, 10_000)])
def test_the_verifier_of_outcomes_gives_no_partial_credit(passed: bool, score: int) -> None:
    class Partial:
        def grade(self, task: str) -> OracleGrade:
            return OracleGrade(passed, 6_667, (task,), {})

    found = VERIFIERS["outcome-1"](cast("Simulation", Partial()), "t")
    assert (found.passed, found.score_e4, found.reasons) == (passed, score, ("t",))


def test_grading_again_changes_nothing_twice_and_leads_back(swept_house: House) -> None:
    house, run = swept_house, SWEPT[0]
    for version, outcome in (
        ("oracle-1", "already"),
        ("outcome-1", "graded"),
        ("outcome-1", "already"),
        ("oracle-1", "graded"),
        ("oracle-1", "already"),
        ("outcome-1", "graded"),
    ):
        (found,) = regrade_runs(house, version, [run, run])
        assert found.outcome == outcome
    assert [reward.version for reward in rewards_of(house, run)] == ["oracle-1", "outcome-1", "oracle-1", "outcome-1"]
    first, _, third, _ = rewards_of(house, run)
    assert third == first.model_copy(update={"again": True})


def test_a_verifier_that_turns_an_outcome_turns_what_follows_from_it(swept_house: House) -> None:
    def turned(instance: Simulation, task: str) -> OracleGrade:
        grade = instance.grade(task)
        return replace(grade, passed=not grade.passed, score_e4=10_000 - grade.score_e4)

    house, runs = swept_house, SWEPT
    before = house.views().find(REWARDS)
    found = regrade_runs(house, "turned-1", runs, known={**VERIFIERS, "turned-1": turned})
    assert [(each.before_passed, each.passed) for each in found] == [
        (before[run].passed, not before[run].passed) for run in runs
    ]
    views = house.views()
    failed = {run for cluster in clusters(views.find(FAILURES).values(), frozenset()) for run in cluster.runs}
    assert failed == {run for run in runs if before[run].passed} != set()
    for run in failed:
        assert views.find(REWARDS)[run].progress == MICRO  # every step of its plan went well
    again = regrade_runs(house, "oracle-1", runs)
    assert [each.passed for each in again] == [before[run].passed for run in runs]


def test_every_run_that_cannot_be_graded_again_says_why(swept_house: House) -> None:
    house, good = swept_house, SWEPT[0]
    told(house, "x__going", started("x__going", "x__1"))
    told(house, "x__gone", started("x__gone", "x__2"), missing("x__gone", "x__2"))
    for index, start in enumerate("ab"):
        run = f"x__s{index}"
        told(house, run, started(run, "x__3", index), reset(start, run, "x__3"), finished(run=run), graded(run, "x__3"))
    told(house, "x__bare", started("x__bare", "x__4"), finished(run="x__bare"))
    told(house, "x__lost", started("x__lost", "x__5"), finished(run="x__lost", end_state="e" * 64), graded("x__lost"))
    hers = Blob("application/json", b"[]")
    address = house.blobs.put([hers], subject="her")[0]
    told(
        house,
        "x__hers",
        started("x__hers", "x__6", subject="her"),
        finished(run="x__hers", end_state=address),
        graded("x__hers"),
    )
    FolderKeys(house.settings.key_folder).destroy("her")
    arm = changed(started("x__arm", "x__7"), "arm", {**ARM, "evaluation": "x"})
    told(house, "x__arm", arm, finished(run="x__arm"), graded("x__arm"))
    house.store.append([Append("evaluation/x", (sample("EvaluationOpened", evaluation="x"),), "test")])
    names = ["going", "gone", "s0", "s1", "bare", "lost", "hers", "arm"]
    head = house.store.head()
    found = regrade_runs(house, "outcome-1", [f"x__{name}" for name in names])
    assert [each.outcome for each in found] == [
        "not_ended", "missing", "contaminated", "contaminated", "failed", "failed", "erased", "undecided",
    ]  # fmt: skip
    assert all(each.reason for each in found)
    assert house.store.head() == head
    assert regrade_runs(house, "outcome-1", [good])[0].outcome == "graded"
    with pytest.raises(UnknownVerifier, match="expected one of oracle-1, outcome-1"):
        regrade_runs(house, "oracle-9", [good])
    with pytest.raises(Unknown, match="No run is called 'nowhere'"):
        regrade_runs(house, "outcome-1", [good, "nowhere"])


@pytest.mark.parametrize("passed", [True, False])
def test_in_an_environment_that_is_not_built_in_what_its_oracle_said_is_weighed_again(
    empty_house: House, passed: bool
) -> None:
    house, run, fine = empty_house, "x__far", 666_654
    start = started(run, "x__8")
    task = start.task_spec.model_copy(update={"environment": "elsewhere", "success_conditions": ("oracle:far",)})
    reward = graded(run, "x__8").model_copy(update={"score": fine, "passed": passed, "version": "oracle-1"})
    end = house.blobs.put([Blob("application/json", b"[]")])[0]
    told(house, run, start.model_copy(update={"task_spec": task}), finished(run=run, end_state=end), reward)
    (found,) = regrade_runs(house, "outcome-1", [run])
    assert (found.outcome, found.passed, found.score, found.before_score) == ("graded", passed, MICRO * passed, fine)
    (again,) = regrade_runs(house, "oracle-1", [run])
    assert (again.outcome, again.passed, again.score) == ("graded", passed, fine)


@pytest.mark.parametrize("is_own", [True, False])
def test_steps_that_only_an_agent_of_ones_own_reports_earn_nothing_when_its_run_is_graded_again(
    empty_house: House, is_own: bool
) -> None:
    house, run, shaping = empty_house, "x__own", None if is_own else "shaped-1"
    start = started(run, "x__9", executor="agent" if is_own else "policy")
    task = start.task_spec.model_copy(update={"environment": "elsewhere", "success_conditions": ("oracle:own",)})
    plan, end = house.blobs.put([Blob("application/json", b"[]"), Blob("application/json", b"[ ]")])
    begun = start.model_copy(update={"task_spec": task, "plan": plan})
    step = sample("StepTaken", run=run, index=0, outcome="ok")
    terms = {"score": 0, "lambda_per_dollar": 1, "penalty": None, "process": None, "progress": None}
    unknown = {"cost": None, "value": None, "shaping": None, "shaped": None}
    reward = graded(run, "x__9", passed=False, version="oracle-1", terms=terms, **unknown)
    told(house, run, begun, step, finished(run=run, end_state=end), reward)
    (found,) = regrade_runs(house, "outcome-1", [run])
    assert found.outcome == "graded"
    again = rewards_of(house, run)[-1]
    assert (again.shaping, again.terms.process is None, again.terms.progress is None) == (shaping, is_own, is_own)
    told(house, run, again.model_copy(update={"shaping": "shaped-1"}))  # as a log of before has it
    would = revalue(house.store, house.blobs, RewardDefinition(pass_score=0), house.store.head()).rewards
    assert [each.shaping for _, each in sorted(would.items())] == [None, shaping, shaping]


class Astray(EnvClient):
    """A client that gives every third sibling an instance of another seed."""

    def reset(self, seed: int, *, instance: Instance | str | None = None, repeat: int = 0) -> Instance:
        """See EnvClient.reset."""
        return super().reset(seed + 1_000 if repeat == 2 else seed, instance=instance, repeat=repeat)


@pytest.fixture
def contaminated_house(record: Record, house_from: HouseFrom, shared_site: SharedSite) -> House:
    """Two rounds of three siblings each, whose third, the treated one, began from another seed's state."""

    def play(house: House) -> None:
        admitted(house.store, "marketplace")
        course = Course(seeds_per_round=2, siblings=3, max_rounds=2, max_parallel=2, rule=SeedsRule())
        site = shared_site("marketplace")
        with Astray(site.admin_url, site.admin_token) as client:
            Controller(house, client, site.name, course, Quiet()).run()

    return house_from(record("contaminated", "empty", play))


def test_a_sibling_that_began_from_another_state_counts_for_nothing(contaminated_house: House) -> None:
    house, views = contaminated_house, contaminated_house.views()
    runs = views.find(RUNS)
    astray = {run for run, state in runs.items() if state.sibling_index == 2}
    assert contaminated_runs(views) == astray
    assert len(astray) * 3 == len(runs) > 20
    carried = {run for run, state in runs.items() if state.applied}
    assert carried
    assert carried <= astray
    assert views.find(REWRITES)
    assert all((state.wins, state.losses) == (0, 0) for state in views.find(REWRITES).values())
    failed = clusters(views.find(FAILURES).values(), contaminated_runs(views))
    assert failed
    assert astray.isdisjoint(run for cluster in failed for run in cluster.runs)
    built = freeze.build_dataset(house.store, house.blobs, views, SftQuery(min_score=0))
    assert astray.isdisjoint(built.rows["run"])
    assert {refused.reason: refused.runs for refused in built.refused} == {"contaminated": len(astray)}
    found = regrade_runs(house, "outcome-1", sorted(astray))
    assert {each.outcome for each in found} == {"contaminated"}


def test_what_is_contaminated_is_shown(contaminated_house: House, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    with client_of(contaminated_house) as client:
        rows = client.get("/v1/runs").json()["runs"]
        assert all(row["contaminated"] == (row["sibling_index"] == 2) for row in rows)
        one = client.get(f"/v1/runs/{rows[2]['run']}").json()
        assert one["run"]["contaminated"] is True
        assert one["reward"]["shaping"] == "shaped-1"
        assert client.get(f"/v1/runs/{rows[0]['run']}").json()["run"]["contaminated"] is False
    flywheel = commands(contaminated_house, monkeypatch, capsys)
    assert "contaminated" in flywheel("list")[1]
    listed = json.loads(flywheel("list", "--json")[1])
    assert all(row["contaminated"] == (row["sibling_index"] == 2) for row in listed)
    assert "it began from another state" in flywheel("show", rows[2]["run"])[1]
    assert "it began from another state" not in flywheel("show", rows[0]["run"])[1]


def commands(
    house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """`flywheel runs ...` on this house's database: its code, what it printed, and what it said of errors."""
    address = house.settings.database_url
    assert address is not None
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", address.get_secret_value())

    def flywheel(*arguments: str) -> tuple[int, str, str]:
        code = run_command(["runs", *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return flywheel


def test_the_command(swept_house: House, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    house, runs = swept_house, SWEPT
    told(house, "s__bare", started("s__bare"), finished(run="s__bare"))
    told(house, "s__gone", started("s__gone"), missing("s__gone"))
    assert ended_runs_of(house.views(), "s") == ended_runs_of(house.views(), None) == ["s__bare", *sorted(runs)]
    flywheel = commands(house, monkeypatch, capsys)
    code, _, err = flywheel("regrade")
    assert (code, "--sweep" in err) == (64, True)
    code, _, err = flywheel("regrade", runs[0], "--verifier", "oracle-9")
    assert (code, "expected one of oracle-1, outcome-1" in err) == (1, True)
    code, out, _ = flywheel("regrade", runs[0], "s__gone", "--verifier", "outcome-1")
    assert (code, "2 received = 1 graded + 1 missing" in out) == (0, True)
    code, out, _ = flywheel("regrade", "--sweep", "s", "--verifier", "outcome-1", "--json")
    assert code == 1
    said = json.loads(out)
    assert said["verifier"] == "outcome-1"
    assert Counter(row["outcome"] for row in said["runs"]) == {"failed": 1, "already": 1, "graded": len(runs) - 1}
    code, out, _ = flywheel("regrade", "--all")
    assert (code, f"{len(runs) + 1} received = 1 failed + {len(runs)} graded" in out) == (1, True)
    shown = flywheel("show", runs[0])[1]
    assert "graded by outcome-1" in shown
    assert "oracle-1" in shown
