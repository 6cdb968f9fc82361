"""Evaluations on a real site and PostgreSQL: a champion moved meanwhile, one judged again, and replay of all runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from agents.envs.clients.client import EnvClient
from agents.executors import recorded_pages
from agents.executors.policy import PolicyExecutor
from agents.learning.memory import build_memory_artifact, forget_everything
from agents.models.scripted import Scripted
from agents.rollouts.arms import plan_suite
from agents.suites.bundled import bundled_for
from api.controllers.fast import Controller
from api.controllers.fast_next import decide
from api.course import Course
from api.errors import OtherExecutor
from api.evaluations.benchmarks import benchmark_tasks, freeze_on, without_plans
from api.evaluations.evaluate import challenge, play_and_settle
from api.history.replay import replay_run
from api.history.whatif.compose import if_reward, if_rule
from api.history.whatif.definitions import reward_in_force, rule_in_force
from api.house import House
from api.queries.benchmarks import first_benchmark_name
from api.queries.champion import present_champion
from api.reporter import Advance
from api.sweeps.plan import site_templates
from eventlog.errors import BlobMissing
from eventlog.events import (
    Artifact,
    ChampionPointed,
    PromotionRule,
    RewriteProposed,
    Rules,
    RunStarted,
    SeedsRule,
    SweepPlanned,
    VerdictReached,
)
from gate.benchmark import freeze_benchmark, sealed_instances
from gate.promote import freeze_into, open_evaluation, point
from projections.benchmarks import BENCHMARKS, benchmark_instances, instances_of
from projections.champions import CHAMPION, CHAMPIONS
from projections.difference import difference
from projections.runs import RUNS
from projections.verdicts import VERDICTS
from tests.admitted import admitted
from tests.recomputing import every_verdict_recomputes
from tests.sites import HouseFrom, Record
from tests.unit.test_agent_samples import template

COURSE = Course(
    seeds_per_round=6,
    visible_seeds=(9_000, 9_001),
    sealed_seeds=tuple(range(10_000, 10_010)),
    max_rounds=6,
    max_verdicts=1,
    clusters=("navigation",),
    max_parallel=4,
    rule=SeedsRule(),
    rules=Rules(test="bootstrap", min_pairs=1),
)
NAVIGATION = ("marketplace.lead_filtered_search", "marketplace.phone_reveal")
PRESENT = forget_everything("base")[0]
BY_HAND = Artifact(weights="base", memory=PRESENT.memory.model_copy(update={"upto": 1}))


@dataclass
class Watching:
    """A Reporter that does something when both arms begin to play."""

    meanwhile: Callable[[], None] = lambda: None
    said: list[str] = field(default_factory=list)

    @contextmanager
    def phase(self, title: str, total: int) -> Iterator[Advance]:
        if "both arms" in title:
            self.meanwhile()
        yield lambda **_: None

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(scope="module")
def client(marketplace: EnvClient) -> EnvClient:
    return marketplace


class Stopped(Exception):
    """The controller was killed before its arms played."""


def stop() -> None:
    raise Stopped


@pytest.fixture(scope="module")
def opened(record: Record, client: EnvClient) -> str:
    """A log whose controller was killed when its first evaluation was open and nothing of it was played."""

    def play(house: House) -> None:
        admitted(house.store, "marketplace")
        with pytest.raises(Stopped):
            Controller(house, client, "marketplace", COURSE, Watching(stop)).run()

    return record("opened", "empty", play)


@pytest.fixture
def opened_house(opened: str, house_from: HouseFrom) -> House:
    return house_from(opened)


@pytest.mark.costly("two evaluations are played")
def test_a_champion_moved_during_an_evaluation_stays_and_the_challenger_is_judged_against_it_next(
    client: EnvClient, opened_house: House
) -> None:
    house = opened_house

    def meanwhile() -> None:
        point(house.store, house.views(), BY_HAND, "a trial", "ann")

    said = Controller(house, client, "marketplace", COURSE, Watching(meanwhile)).run()
    assert said == "eval-1 was decided: void"
    pointed = present_champion(house.views())
    assert (pointed.pointed_artifact(), pointed.by) == (BY_HAND, "operator")
    void = house.views().find(VERDICTS)["eval-1"].verdict_reached()
    assert void is not None
    assert void.decision == "void"
    assert void.reasons[0].startswith("base@0 was judged, but base@1 is champion since position")
    assert every_verdict_recomputes(house) == 1
    assert (void.champion.artifact, void.missing) == (PRESENT, 0)
    assert void.mean_delta is not None

    assert Controller(house, client, "marketplace", COURSE, Watching()).run() == "eval-2 was decided: promote"
    after = house.views().find(VERDICTS)["eval-2"].verdict_reached()
    assert after is not None
    assert after.champion.artifact == BY_HAND
    assert after.challenger.artifact.memory.digest == void.challenger.artifact.memory.digest
    assert present_champion(house.views()).pointed_artifact() == after.challenger.artifact
    assert every_verdict_recomputes(house) == 2

    check_what_the_log_holds(house)


def check_what_the_log_holds(house: House) -> None:
    """No arm proposed, no sweep met a benchmark, and each pointing of the gate stands beside its verdict."""
    events = [each.event for each in house.store.read()]
    arms = {event.run for event in events if isinstance(event, RunStarted) and event.arm is not None}
    assert len(arms) == 2 * 2 * 2 * 6
    assert not arms & {event.run for event in events if isinstance(event, RewriteProposed)}
    sweeps = [event for event in events if isinstance(event, SweepPlanned)]
    oracle = {each.template_id: each.oracle_task_id for event in sweeps for each in event.templates}
    swept = [(event.environment, oracle[spec.template], spec.env_seed) for event in sweeps for spec in event.specs]
    assert sweeps
    assert not set(swept) & benchmark_instances(house.views().find(BENCHMARKS).values())
    seeds = [{spec.env_seed for spec in event.specs} for event in sweeps]
    assert sum(map(len, seeds)) == len(set[int]().union(*seeds))
    moved = [each.event for each in house.store.read(stream="champion")]
    assert [type(event) for event in moved] == [
        ChampionPointed,
        ChampionPointed,
        VerdictReached,
        VerdictReached,
        ChampionPointed,
    ]


def test_an_evaluation_against_one_who_was_champion_no_more_when_it_was_opened_is_void(
    client: EnvClient, opened_house: House
) -> None:
    """The champion is pointed between reading it and opening the evaluation."""
    house = opened_house
    challenger = house.views().find(VERDICTS)["eval-1"].artifacts()[1]
    frozen = house.views().find(BENCHMARKS)[first_benchmark_name("marketplace")].frozen_event()
    point(house.store, house.views(), BY_HAND, "a trial", "ann")
    assert play_and_settle(house, client, "eval-1", COURSE, Watching()) == "eval-1 was decided: void"
    suite = plan_suite(frozen.templates, "marketplace", house.store, house.blobs, None, bundled_for("marketplace"))
    open_evaluation(house.store, "eval-2", frozen, PRESENT, challenger, COURSE.rules, "controller", suite=suite)
    assert play_and_settle(house, client, "eval-2", COURSE, Watching()) == "eval-2 was decided: void"
    pointed = house.views().get(CHAMPIONS, CHAMPION)
    assert pointed is not None
    assert pointed.pointed_artifact() == BY_HAND
    assert challenge(house, frozen, challenger, COURSE.rules) == "eval-3"
    assert house.views().find(VERDICTS)["eval-3"].artifacts()[0] == BY_HAND


@pytest.mark.parametrize(
    ("tasks", "min_pairs", "why"),
    [
        (NAVIGATION, 10, "is too small: 2 sealed instances, and the rules ask for 10"),
        (NAVIGATION[:1], 1, f"lacks the tasks {NAVIGATION[1]}"),
    ],
)
def test_a_benchmark_that_can_only_void_or_lacks_tasks_is_succeeded_at_fresh_seeds_before_anything_is_judged(
    client: EnvClient, empty_house: House, tasks: tuple[str, ...], min_pairs: int, why: str
) -> None:
    house = empty_house
    admitted(house.store, "marketplace")
    held = benchmark_tasks([each for each in site_templates(client) if each.template_id in tasks])
    small = freeze_on(house, freeze_benchmark("marketplace-1", "marketplace", held, [9_000], [10_000], 1), "ann")
    freeze_on(house, freeze_benchmark("by-hand", "marketplace", held, [0], [1], 1), "ann")  # where sweeps would begin
    reporter = Watching(stop)
    course = replace(COURSE, seeds_per_round=3, rules=Rules(min_pairs=min_pairs))
    with pytest.raises(Stopped):
        Controller(house, client, "marketplace", course, reporter).run()
    said = next(line for line in reporter.said if "froze" in line)
    assert said.startswith(f"marketplace-1 {why}; froze marketplace-2: 10 sealed instances, 2 visible ones")
    assert said.endswith("0.05 for 10 challengers")
    benchmarks = {key: state.frozen_event() for key, state in house.views().find(BENCHMARKS).items()}
    fresh = benchmarks["marketplace-2"]
    assert (fresh.successor_of, len(fresh.tasks), sealed_instances(fresh)) == ("marketplace-1", 12, 10)
    assert not {*instances_of(fresh)} & {*instances_of(small)}
    opened = house.views().find(VERDICTS)["eval-1"]
    assert (opened.benchmark, opened.challenge, opened.alpha) == ("marketplace-2", 1, 5_000)


@pytest.mark.parametrize(
    ("executor", "weights", "options"),
    [
        ("browser", "base", "--executor browser"),
        ("policy", "base", "--executor policy"),
        ("policy", "c" * 64, "--loop slow"),
        ("agent:0123", "base", "--agent AGENT"),
        ("agent:0123", "c" * 64, "--loop slow --agent AGENT --base FOLDER"),
    ],
)
def test_an_evaluation_of_another_executor_is_refused_and_the_loop_that_opened_it_is_named(
    client: EnvClient, empty_house: House, executor: str, weights: str, options: str
) -> None:
    frozen = freeze_benchmark(
        first_benchmark_name("marketplace"), "marketplace", without_plans([template()]), [9_000], [10_000], 1
    )
    freeze_into(empty_house.store, frozen, "controller")
    judged = BY_HAND.model_copy(update={"weights": weights})
    open_evaluation(empty_house.store, "eval-1", frozen, PRESENT, judged, COURSE.rules, "controller", executor=executor)
    with pytest.raises(OtherExecutor, match=f"`flywheel run {options}`"):
        play_and_settle(empty_house, client, "eval-1", COURSE, Watching())


@pytest.mark.parametrize(
    ("opened", "said"),
    [
        ("scripted:small", "policy (scripted:small)"),
        ("transformers:0123456789ab", "FLYWHEEL_MODEL=transformers:FOLDER flywheel run --executor policy"),
        ("scripted:large", None),
        (None, None),
    ],
)
def test_an_evaluation_of_the_same_executor_with_another_model_is_refused_where_its_model_is_recorded(
    client: EnvClient, empty_house: House, opened: str | None, said: str | None
) -> None:
    frozen = freeze_benchmark(
        first_benchmark_name("marketplace"), "marketplace", without_plans([template()]), [9_000], [10_000], 1
    )
    freeze_into(empty_house.store, frozen, "controller")
    named = {"executor": "policy", "model": opened}
    open_evaluation(empty_house.store, "eval-1", frozen, PRESENT, BY_HAND, COURSE.rules, "controller", **named)  # type: ignore[arg-type]
    policy = PolicyExecutor(Scripted(["no action"] * 100, name="large"))
    with pytest.raises(BlobMissing if said is None else OtherExecutor) as refused:  # not refused, it reads the memories
        play_and_settle(empty_house, client, "eval-1", COURSE, Watching(), policy)
    assert (said or "") in str(refused.value)


def test_a_log_that_was_begun_says_what_is_next_on_postgres_as_in_memory(client: EnvClient, house: House) -> None:
    """The golden log ends with a rollback: what it learned is quarantined, and nothing is left to judge."""
    views = house.views()
    sweeps = [each.event for each in house.store.read(types=["SweepPlanned"])]
    found = decide(
        views,
        [event for event in sweeps if isinstance(event, SweepPlanned)],
        rounds=0,
        course=Course(),
        site="marketplace",
        on_trial=(),
    )
    assert found.what == "plan_sweep"
    assert build_memory_artifact(views, "base")[0].memory.digest == PRESENT.memory.digest
    assert first_benchmark_name("marketplace") in views.find(BENCHMARKS)


def test_a_history_played_now_replays_run_by_run_and_differs_under_another_rule_alone(
    client: EnvClient, opened_house: House
) -> None:
    """Nothing is asked of a site again."""
    house = opened_house
    Controller(house, client, "marketplace", COURSE, Watching()).run()
    views, head = house.views(), house.store.head()

    runs = views.find(RUNS)
    assert {run.status for run in runs.values()} == {"completed", "halted"}
    assert recorded_pages.ROOT.startswith("http://recorded.invalid/")
    found = [replay_run(house.store, house.blobs, house.views, run) for run in runs]
    assert {(each.outcome, each.not_compared) for each in found} == {("identical", ())}
    assert house.store.head() == head

    def is_same_by(rule: PromotionRule) -> bool:
        return if_rule(house.store, house.views, rule, head).is_empty

    assert is_same_by(rule_in_force(house.store, head))
    assert not is_same_by(SeedsRule(wins_to_promote=1_000))
    assert if_reward(house.store, house.blobs, house.views, reward_in_force(house.store, head), head).is_empty
    changed = difference(house.views(views.upto), views)
    assert changed.is_empty
    assert house.store.head() == head
