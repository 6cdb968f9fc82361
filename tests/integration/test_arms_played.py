"""Arms on a real site and PostgreSQL: the plans they start from, what is begun again, and tests that stop early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Event, Lock
from threading import enumerate as enumerate_threads

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.contract import Instance
from agents.envs.errors import EnvironmentDown
from agents.envs.sites.marketplace.drift import CANONICAL, drift_family
from agents.executors.executor import Assignment, Execution, Watch, no_verification
from agents.executors.policy import PolicyExecutor
from agents.learning.memory import build_memory_artifact
from agents.models.scripted import Scripted
from agents.plans import plan_from
from agents.rollouts.arms import plan_suite
from agents.rollouts.errors import UnknownTemplate
from agents.rollouts.play import PLAN
from agents.suites.bundled import bundled_for
from agents.suites.in_log import register_suite
from agents.suites.micro_suite import build_micro_suite
from agents.suites.tasks import operations_of
from api.course import Course
from api.environments.suites import operations_on, pinned_operations
from api.evaluations.arms import jobs_of_arms
from api.evaluations.benchmarks import benchmark_tasks, freeze_on
from api.evaluations.evaluate import challenge, play_and_settle
from api.evaluations.play import BLOCK, Match
from api.house import House
from api.queries.champion import present_champion
from api.reporter import Advance
from api.sweeps.plan import site_templates
from benchmarks.shipped import PLANS
from eventlog.blobs import Blob
from eventlog.chain import canonical
from eventlog.events import Artifact, BenchmarkFrozen, EvaluationLooked, Rules, RunMissing, RunStarted, TaskPlan
from eventlog.store import Position
from gate.benchmark import freeze_benchmark, specs
from gate.errors import BenchmarkExhausted
from gate.promote import open_evaluation
from gate.units import order_anew
from projections.alpha import ALPHA
from projections.benchmarks import BENCHMARKS
from projections.runs import RUNS
from projections.verdicts import VERDICTS
from tests.admitted import admitted
from tests.golden.make import Quiet
from tests.recomputing import every_verdict_recomputes

TASK = "marketplace.phone_reveal"
LEARNED = Position(395)
"""Where the golden log's memory holds what it promoted."""

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def client(marketplace: EnvClient) -> EnvClient:
    return marketplace


def a_benchmark(
    house: House, client: EnvClient, sealed: int, visible: int = 0, challengers: int = 10
) -> BenchmarkFrozen:
    """A benchmark of one task on the golden log."""
    admitted(house.store, "marketplace")
    seeds = range(9_100, 9_100 + visible), range(20_000, 20_000 + sealed)
    frozen = freeze_benchmark(
        "b-1",
        "marketplace",
        benchmark_tasks([each for each in site_templates(client) if each.template_id == TASK]),
        *seeds,
        1,
        challengers=challengers,
    )
    return freeze_on(house, frozen, "ann")


def learned(house: House) -> Artifact:
    """What the golden log has learned, before it was rolled back."""
    artifact, blob = build_memory_artifact(house.views(LEARNED), "base")
    house.blobs.put([blob])
    return artifact


def started(house: House, evaluation: str) -> list[RunStarted]:
    found = (recorded.event for recorded in house.store.read(types=["RunStarted"]))
    return [event for event in found if isinstance(event, RunStarted) and event.spec.sweep == evaluation]


def test_both_arms_start_from_the_plans_that_were_recorded_when_the_evaluation_was_opened(
    house: House, client: EnvClient
) -> None:
    frozen, present = a_benchmark(house, client, 2), present_champion(house.views()).pointed_artifact()
    other = (*PLANS[TASK][:1], *PLANS[TASK])
    suite = Blob("application/json", canonical(build_micro_suite(other, "marketplace")))
    house.blobs.put([suite])
    rules = Rules(test="bootstrap", min_pairs=1)
    plans = (TaskPlan(template=TASK, plan=suite.digest),)
    open_evaluation(house.store, "eval-9", frozen, present, present, rules, "ann", suite=plans)
    assert play_and_settle(house, client, "eval-9", Course(), Quiet()) == "eval-9 was decided: hold"
    runs = started(house, "eval-9")
    assert Counter(event.arm.arm for event in runs if event.arm) == {"champion": 2, "challenger": 2}
    assert {plan_from(house.blobs.get(event.plan).body) for event in runs} == {other}


def test_a_task_without_a_plan_and_without_a_model_that_makes_one_is_refused(house: House, client: EnvClient) -> None:
    task = benchmark_tasks([each for each in site_templates(client) if each.template_id == TASK])[0].model_copy(
        update={"oracle_task_id": "theirs"}
    )
    with pytest.raises(UnknownTemplate, match=r"No plan is known for the task 'theirs'.* or a model in FLYWHEEL_MODEL"):
        plan_suite([task], "marketplace", house.store, house.blobs, None, bundled_for("marketplace"))


def test_who_follows_no_plan_is_given_the_instruction_alone(house: House, client: EnvClient) -> None:
    frozen, present = a_benchmark(house, client, 1), present_champion(house.views()).pointed_artifact()
    executor = PolicyExecutor(Scripted([]))
    evaluation = challenge(house, frozen, learned(house), Rules(min_pairs=1), executor)
    state = house.views().find(VERDICTS)[evaluation]
    assert (state.executor, state.suite) == ("policy", ())
    jobs = jobs_of_arms(house, frozen, state, specs(frozen, evaluation))
    assert [job.artifact == present for job in jobs] == [True, False]
    for job in jobs:
        assert job.assignment({}).plan == ()
        assert job.assignment({}).instruction == frozen.templates[0].instruction


@dataclass(frozen=True)
class SlowAtFirst:
    """The plan executor, which waits before it begins the first try of each run until it is released."""

    release: Event = field(default_factory=Event)
    tries: Counter[str] = field(default_factory=Counter)
    lock: Lock = field(default_factory=Lock)
    name: str = PLAN.name
    offers_logprobs: bool = PLAN.offers_logprobs

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        with self.lock:
            self.tries[str(assignment.seed)] += 1
            is_first = self.tries[str(assignment.seed)] == 1
        if is_first:
            assert self.release.wait(300)
        return PLAN.execute(assignment, instance, watch)


def test_an_arms_run_that_takes_too_long_is_begun_again_and_stands_once(house: House, client: EnvClient) -> None:
    frozen, executor = a_benchmark(house, client, 1), SlowAtFirst()
    course = Course(timeout_s=20, rules=Rules(test="bootstrap", min_pairs=1))
    evaluation = challenge(house, frozen, learned(house), course.rules, executor)
    play_and_settle(house, client, evaluation, course, Quiet(), executor)
    assert sorted(executor.tries.values()) == [2, 2]
    verdict = house.views().find(VERDICTS)[evaluation].verdict_reached()
    assert verdict is not None
    assert (verdict.missing, verdict.pairs) == (0, 1)
    head = house.store.head()
    executor.release.set()
    for thread in enumerate_threads():
        if thread.name.startswith("call "):
            thread.join()
    assert house.store.head() == head
    missing = [recorded.event for recorded in house.store.read(types=["RunMissing"])]
    assert not [event for event in missing if isinstance(event, RunMissing)]


@dataclass
class Killed(Quiet):
    """A Reporter that stops the process, as it were, when a phase begins."""

    when: str
    seen: list[str] = field(default_factory=list)

    @contextmanager
    def phase(self, title: str, total: int) -> Iterator[Advance]:
        self.seen.append(f"{title}: {total}")
        if self.when in title:
            raise KeyboardInterrupt
        yield lambda **_: None


def test_an_early_stop_leaves_the_rest_unplayed_and_a_killed_evaluation_goes_on_where_it_was(
    house: House, client: EnvClient
) -> None:
    frozen, challenger = a_benchmark(house, client, 60, visible=1), learned(house)
    rules = Rules(test="e_process", min_pairs=BLOCK + 1)
    course = Course(rules=rules)
    evaluation = challenge(house, frozen, challenger, rules)
    with pytest.raises(KeyboardInterrupt):
        play_and_settle(house, client, evaluation, course, Killed("block 2 of 6"))
    begun = [event.run for event in started(house, evaluation)]
    assert len(begun) == 2 * (BLOCK + 1)
    assert challenge(house, frozen, challenger, rules) == evaluation
    reporter = Killed("never")
    assert play_and_settle(house, client, evaluation, course, reporter) == f"{evaluation} was decided: promote"
    assert reporter.seen[0].endswith("block 1 of 6: 0")
    runs = [event.run for event in started(house, evaluation)]
    assert (runs[: len(begun)], len(set(runs))) == (begun, len(runs))
    verdict = house.views().find(VERDICTS)[evaluation].verdict_reached()
    assert verdict is not None
    assert (verdict.missing, verdict.alpha) == (0, 5_000)
    assert verdict.looked_at is not None
    played = {run.env_seed for run in house.views().find(RUNS, f"{evaluation}__").values() if run.is_sealed}
    assert verdict.looked_at <= len(played) < 60
    assert present_champion(house.views()).pointed_artifact() == challenger


def looks_of(house: House, evaluation: str) -> list[EvaluationLooked]:
    found = (recorded.event for recorded in house.store.read(types=["EvaluationLooked"]))
    return [event for event in found if isinstance(event, EvaluationLooked) and event.evaluation == evaluation]


SEQUENTIAL = Rules.default().model_copy(update={"min_pairs": 20})


def test_a_killed_evaluation_goes_on_at_its_look_and_every_look_is_in_the_log(house: House, client: EnvClient) -> None:
    frozen, challenger = a_benchmark(house, client, 20, visible=1), learned(house)
    evaluation = challenge(house, frozen, challenger, SEQUENTIAL)
    with pytest.raises(KeyboardInterrupt):
        play_and_settle(house, client, evaluation, Course(), Killed("look 2 of 5"))
    begun = [event.run for event in started(house, evaluation)]
    assert len(begun) == 2 * (4 + 1)
    assert [(event.look.number, event.look.outcome) for event in looks_of(house, evaluation)] == [(1, "continue")]
    state = house.views().find(VERDICTS)[evaluation]
    assert (len(state.looks_so_far()), state.runs, state.most_runs) == (1, 10, 42)
    assert state.opening_rules() == order_anew(SEQUENTIAL, frozen, 1) != SEQUENTIAL
    reseeded = SEQUENTIAL.model_copy(update={"rng_seed": SEQUENTIAL.rng_seed + 1})
    assert {challenge(house, frozen, challenger, rules) for rules in (SEQUENTIAL, reseeded)} == {evaluation}
    reporter = Killed("never")
    assert play_and_settle(house, client, evaluation, Course(), reporter) == f"{evaluation} was decided: promote"
    runs = [event.run for event in started(house, evaluation)]
    assert (runs[: len(begun)], len(set(runs))) == (begun, len(runs))
    verdict = house.views().find(VERDICTS)[evaluation].verdict_reached()
    assert verdict is not None
    assert tuple(event.look for event in looks_of(house, evaluation)) == verdict.looks
    assert (verdict.looks[-1].outcome, verdict.pairs) == ("reject", verdict.looks[-1].units)
    assert verdict.pairs < 20
    assert every_verdict_recomputes(house) == 2


@dataclass(frozen=True)
class Losing:
    """The plan executor, to which the site is lost at these seeds as often as said."""

    left: Counter[int]
    lock: Lock = field(default_factory=Lock)
    name: str = PLAN.name
    offers_logprobs: bool = PLAN.offers_logprobs

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        with self.lock:
            is_lost = self.left[instance.seed] > 0 and assignment.plan != PLANS[TASK]
            self.left[instance.seed] -= is_lost
        if is_lost:
            raise EnvironmentDown(url="http://site", operation="POST", actual="refused", timeout_s=1)
        return PLAN.execute(assignment, instance, watch)


def test_lost_runs_are_played_again_under_names_of_their_own_and_only_so_often(house: House, client: EnvClient) -> None:
    frozen, challenger = a_benchmark(house, client, 24), learned(house)
    rules = Rules.default("sign_flip").model_copy(update={"min_pairs": 20})
    drifted = [task.env_seed for task in frozen.tasks if drift_family(task.env_seed) is not CANONICAL]
    executor = Losing(Counter({drifted[0]: 1, drifted[1]: 9}))
    evaluation = challenge(house, frozen, challenger, rules, executor)
    play_and_settle(house, client, evaluation, Course(), Quiet(), executor)
    names = [event.run.rpartition("__")[2] for event in started(house, evaluation) if "again" in event.run]
    assert sorted(names) == ["again1", "again1", "again2"]
    verdict = house.views().find(VERDICTS)[evaluation].verdict_reached()
    assert verdict is not None
    assert (verdict.lost, verdict.missing, verdict.pairs) == ((0, 4), 1, 23)
    assert verdict.decision == "promote"
    assert every_verdict_recomputes(house) == 2


@dataclass(frozen=True)
class Dying:
    """The plan executor, which dies with the process, as it were, at the first try of these seeds."""

    left: set[int]
    name: str = PLAN.name
    offers_logprobs: bool = PLAN.offers_logprobs

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        if instance.seed in self.left:
            self.left.remove(instance.seed)
            raise KeyboardInterrupt
        return PLAN.execute(assignment, instance, watch)


def test_a_run_whose_process_ended_before_it_is_seen_and_costs_nothing(house: House, client: EnvClient) -> None:
    frozen = a_benchmark(house, client, 24)
    rules = Rules.default("sign_flip").model_copy(update={"min_pairs": 20})
    executor = Dying({task.env_seed for task in frozen.tasks[:2]})
    evaluation = challenge(house, frozen, learned(house), rules, executor)
    with pytest.raises(KeyboardInterrupt):
        play_and_settle(house, client, evaluation, Course(max_parallel=1), Quiet(), executor)
    play_and_settle(house, client, evaluation, Course(), Quiet(), executor)
    missing = [recorded.event for recorded in house.store.read(types=["RunMissing"])]
    assert {event.reason for event in missing if isinstance(event, RunMissing)} == {"interrupted"}
    names = [event.run.rpartition("__")[2] for event in started(house, evaluation) if "again" in event.run]
    assert names == ["again1"] * len(missing)
    verdict = house.views().find(VERDICTS)[evaluation].verdict_reached()
    assert verdict is not None
    assert (verdict.decision, verdict.lost, verdict.missing) == ("promote", (0, 0), 0)
    assert sum(verdict.interrupted or ()) == len(missing) == 2
    assert every_verdict_recomputes(house) == 2


def test_steps_are_checked_by_the_suite_that_the_evaluation_was_opened_with(
    house: House, client: EnvClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen, seen = a_benchmark(house, client, 2), list[Match]()
    bundled = bundled_for("marketplace")
    assert bundled is not None
    first = register_suite(house.store, house.views(), bundled, "ann")
    rules = Rules(test="bootstrap", min_pairs=1)
    evaluation = challenge(house, frozen, learned(house), rules, suite=first)
    opened = house.views().find(VERDICTS)[evaluation].opened_since
    register_suite(house.store, house.views(), bundled.model_copy(update={"operations": ()}), "ann")
    monkeypatch.setattr("api.evaluations.evaluate.play_arms", seen.append)
    play_and_settle(house, client, evaluation, Course(verify_steps=True), Quiet())
    assert seen[0].operations == operations_of(bundled.operations) != operations_on(house, "marketplace")
    assert pinned_operations(house, "marketplace", None, Position(opened)) == seen[0].operations


def test_an_evaluation_that_is_void_before_anybody_looked_spends_no_alpha(house: House, client: EnvClient) -> None:
    frozen, challenger = a_benchmark(house, client, 20, challengers=1), learned(house)
    executor = Losing(Counter({task.env_seed: 9 for task in frozen.tasks}))
    for number in (1, 2):
        evaluation = challenge(house, frozen, challenger, SEQUENTIAL, executor)
        said = play_and_settle(house, client, evaluation, Course(), Quiet(), executor)
        assert said == f"{evaluation} was decided: void"
        ledger = house.views().find(ALPHA)["b-1"]
        assert (ledger.challenges, ledger.spent_total, ledger.last_number) == (0, 0, number)
    assert looks_of(house, evaluation) == []
    assert every_verdict_recomputes(house) == 3


def test_a_benchmark_that_has_judged_all_it_may_opens_nothing_more(house: House, client: EnvClient) -> None:
    frozen, challenger = a_benchmark(house, client, 2, challengers=1), learned(house)
    rules = Rules(test="bootstrap", min_pairs=1)
    assert challenge(house, frozen, challenger, rules) == "eval-2"
    head = house.store.head()
    with pytest.raises(BenchmarkExhausted, match="flywheel benchmark refresh b-1"):
        challenge(house, frozen, challenger, Rules(min_pairs=1))
    assert (challenge(house, frozen, challenger, rules), house.store.head()) == ("eval-2", head)
    assert house.views().find(BENCHMARKS)["b-1"].challengers == 1


@dataclass(frozen=True)
class Forgetful:
    """The plan executor, which does one step alone where a plan was rewritten and the seed is this one."""

    seed: int
    name: str = PLAN.name
    offers_logprobs: bool = PLAN.offers_logprobs

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        is_lost = instance.seed == self.seed and assignment.plan != PLANS[TASK]
        return PLAN.execute(replace(assignment, plan=assignment.plan[:1]) if is_lost else assignment, instance, watch)


def test_what_looked_worse_is_played_again_once_and_a_confirmed_regression_holds(
    house: House, client: EnvClient
) -> None:
    frozen = a_benchmark(house, client, 24)
    worse = next(task.env_seed for task in frozen.tasks if drift_family(task.env_seed) is CANONICAL)
    rules = Rules(min_pairs=20, confirm_repeats=4)
    course, executor = Course(rules=rules), Forgetful(worse)
    evaluation = challenge(house, frozen, learned(house), rules, executor)
    with pytest.raises(KeyboardInterrupt):
        play_and_settle(house, client, evaluation, course, Killed("1 instance that looked worse"), executor)
    assert len(started(house, evaluation)) == 48
    reporter = Killed("never")
    assert play_and_settle(house, client, evaluation, course, reporter, executor) == f"{evaluation} was decided: hold"
    assert reporter.seen == [
        f"{evaluation}: both arms on b-1: 0",
        f"{evaluation}: 1 instance that looked worse, again in both arms: 8",
    ]
    runs = [event.run for event in started(house, evaluation)]
    assert (len(runs), len(set(runs))) == (56, 56)
    verdict = house.views().find(VERDICTS)[evaluation].verdict_reached()
    assert verdict is not None
    assert verdict.screened == verdict.regressions == (f"{TASK}__seed{worse}",)
    assert [(each.champion_passed, each.challenger_passed) for each in verdict.confirmations] == [(4, 0)]
    assert (verdict.pairs, verdict.missing) == (24, 0)
    assert every_verdict_recomputes(house) == 2  # with the one that the golden log ends with
