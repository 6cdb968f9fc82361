"""What the slow loop does next, read from logs that stop at every place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agents.executors.by_weights import ByWeights
from agents.learning.memory import build_memory_artifact
from api.controllers.slow_next import (
    MOST_ATTEMPTS,
    SlowCourse,
    SlowNext,
    SlowRound,
    StageOf,
    benchmark_name,
    decide_slow,
    rounds_so_far,
)
from api.course import BASE, SLOW_CONTROLLER, Course
from api.evaluations.benchmarks import without_plans
from api.queries.benchmarks import benchmark_seeds
from api.queries.champion import present_champion
from api.training.stage_process import PROCESS_ENDED
from eventlog.events import (
    AnyEvent,
    BenchmarkFrozen,
    DatasetFrozen,
    DpoConfig,
    DpoQuery,
    GrpoConfig,
    GrpoQuery,
    Rules,
    SftConfig,
    SftQuery,
    SweepPlanned,
    VerdictReached,
)
from eventlog.memory import MemoryStore
from eventlog.store import Append
from gate.alpha import Alpha
from gate.benchmark import freeze_benchmark
from gate.judge import judge
from gate.promote import freeze_into, open_evaluation
from projections.trainings import training_name
from tests.golden.test_golden_samples import sample
from tests.unit.test_agent_samples import EMPTY, a_store, add, spec, template, views
from tests.unit.test_fast_decide import play, point
from tests.unit.test_gate_samples import an_arm

SITE = "marketplace"
BASE_DIGEST, OTHER_BASE = "ba" * 32, "bb" * 32
SFT = SftConfig(steps=3, learning_rate="0.1")
DPO = DpoConfig(steps=3, learning_rate="0.1")
GRPO = GrpoConfig(steps=3, learning_rate="0.1")
RULES = Rules.seeds()
COURSE = SlowCourse(stages=(SFT, GRPO), max_rounds=2, sizes=Course(rules=RULES))
POLICIES = ByWeights({})
FROZEN = freeze_benchmark(benchmark_name(SITE), SITE, without_plans([template()]), [9_000], range(10_000, 10_008), 1)


def a_log() -> MemoryStore:
    store = a_store()
    point(store, EMPTY)
    freeze_into(store, FROZEN, SLOW_CONTROLLER)
    return store


def plan(store: MemoryStore, name: str, weights: str = BASE) -> SweepPlanned:
    """A round's sweep of two runs."""
    event = SweepPlanned(
        sweep=name,
        environment=SITE,
        templates=(template(),),
        specs=tuple(spec(f"{name}__r{index}", sweep=name) for index in range(2)),
        artifact=build_memory_artifact(views(store), weights)[0],
        rng_seed=7,
        executor="policy",
    )
    store.append([Append(f"sweep/{name}", (event,), SLOW_CONTROLLER)])
    return event


def planned(store: MemoryStore) -> list[SweepPlanned]:
    return [recorded.event for recorded in store.read() if isinstance(recorded.event, SweepPlanned)]


def rounds(store: MemoryStore, base: str = BASE_DIGEST, course: SlowCourse = COURSE) -> tuple[SlowRound, ...]:
    return rounds_so_far(views(store), planned(store), course, SITE, base)


def following(store: MemoryStore, *barren: str, course: SlowCourse = COURSE, base: str = BASE_DIGEST) -> SlowNext:
    return decide_slow(
        views(store),
        rounds(store, base, course),
        course=course,
        site=SITE,
        base=base,
        executor=POLICIES,
        barren=barren,
    )


def train(store: MemoryStore, sweep: SweepPlanned, stage: StageOf, *events: AnyEvent, dataset: str = "d1" * 32) -> str:
    """Freeze the sweep's dataset and tell these events of its stage; the checkpoint that would come of it."""
    query = COURSE.query(stage, SITE, sweep.sweep)
    frozen = DatasetFrozen(dataset=dataset, query=query, upto=5, rows=2, groups=1, refused=())
    add(store, f"dataset/{dataset}", frozen)
    parent = None if sweep.artifact.weights == BASE else sweep.artifact.weights
    name = training_name(dataset, BASE_DIGEST, parent, stage)
    checkpoint = dataset.replace("d", "c")
    facts = {"training": name, "dataset": dataset, "base": BASE_DIGEST, "parent": parent}
    for event in events:
        told = {field: value for field, value in facts.items() if field in type(event).model_fields}
        if event.type == "CheckpointSaved":
            told |= {"checkpoint": checkpoint, "algorithm": stage.algorithm}
        add(store, f"training/{name}", event.model_copy(update=told))
    return checkpoint


def open_on(store: MemoryStore, checkpoint: str, name: str = "eval-1", benchmark: BenchmarkFrozen = FROZEN) -> None:
    present = present_champion(views(store)).pointed_artifact()
    challenger = present.model_copy(update={"weights": checkpoint})
    open_evaluation(store, name, benchmark, present, challenger, RULES, SLOW_CONTROLLER, executor="policy")


def settle(
    store: MemoryStore, checkpoint: str, scores: Sequence[int | None], name: str = "eval-1", *, waits: bool = False
) -> str:
    """A verdict over a champion that passed one sealed run of eight; the decision. One that `waits` is no champion."""
    present = present_champion(views(store)).pointed_artifact()
    challenger = present.model_copy(update={"weights": checkpoint})
    first = an_arm(FROZEN, "champion", [1_000_000] + [0] * 7, pinned=present)
    second = an_arm(FROZEN, "challenger", list(scores), pinned=challenger)
    verdict = judge(first, second, FROZEN, RULES, Alpha(1, 5_000, 5_000))
    add(store, "champion", VerdictReached(evaluation=name, verdict=verdict))
    if verdict.decision == "promote" and not waits:
        point(store, challenger)
    return verdict.decision


STARTED, FAILED, SAVED = sample("TrainingStarted"), sample("TrainingFailed"), sample("CheckpointSaved")


def test_a_round_goes_from_sweep_to_verdict_and_the_champion_plays_the_next_one() -> None:
    store = a_log()
    assert (following(store).what, following(store).weights) == ("plan_sweep", BASE)
    sweep = plan(store, "s1")
    assert following(store).what == "play_sweep"
    play(store, sweep.specs, True, False)
    assert following(store).what == "freeze"
    checkpoint = train(store, sweep, SFT)
    assert following(store).what == "train"
    train(store, sweep, SFT, STARTED)
    assert following(store).what == "train"  # it was killed, and is begun again
    train(store, sweep, SFT, SAVED)
    assert following(store).what == "open_evaluation"
    open_on(store, checkpoint)
    assert following(store).what == "play_arms"
    assert settle(store, checkpoint, [1_000_000] * 8) == "promote"
    found = following(store)
    assert (found.what, found.weights) == ("plan_sweep", checkpoint)

    second = plan(store, "s2", checkpoint)
    play(store, second.specs, True, False)
    (_, last) = rounds(store)
    assert (last.parent, last.stage, last.query) == (checkpoint, GRPO, COURSE.query(GRPO, SITE, "s2"))
    train(store, second, GRPO, STARTED, FAILED, dataset="d2" * 32)
    assert following(store).what == "stop"  # what failed is over, and there were two rounds


def test_a_stage_whose_process_died_is_begun_again_a_few_times() -> None:
    store = a_log()
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, False)
    died = FAILED.model_copy(update={"error": PROCESS_ENDED})
    seen = []
    for attempt in range(1, MOST_ATTEMPTS + 1):
        train(store, sweep, SFT, STARTED.model_copy(update={"attempt": attempt}), died)
        seen.append(following(store).what)
    assert seen == ["train"] * (MOST_ATTEMPTS - 1) + ["plan_sweep"]


@pytest.mark.parametrize(
    ("scores", "decision"),
    [([1_000_000] * 2 + [0] * 6, "hold"), ([0] * 8, "hold"), ([None] * 8, "void")],
)
def test_of_a_verdict_that_held_a_checkpoint_its_figures_choose_nothing(
    scores: list[int | None], decision: str
) -> None:
    store = a_log()
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, False)
    checkpoint = train(store, sweep, SFT, STARTED, SAVED)
    open_on(store, checkpoint)
    assert settle(store, checkpoint, scores) == decision
    assert following(store).weights == BASE


def promoted_and_waiting(store: MemoryStore) -> str:
    """A first round whose checkpoint a verdict promotes, and which waits for other sites; the checkpoint."""
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, False)
    checkpoint = train(store, sweep, SFT, STARTED, SAVED)
    open_on(store, checkpoint)
    assert settle(store, checkpoint, [1_000_000] * 8, waits=True) == "promote"
    return checkpoint


THREE = replace(COURSE, max_rounds=3)


def test_a_round_that_gives_nothing_takes_nothing_from_a_checkpoint_that_waits() -> None:
    store = a_log()
    checkpoint = promoted_and_waiting(store)
    second = plan(store, "s2", checkpoint)
    play(store, second.specs, False, None)
    found = following(store, "s2", course=THREE)
    assert (found.what, found.weights) == ("plan_sweep", checkpoint)
    train(store, second, GRPO, STARTED, FAILED, dataset="d2" * 32)
    assert following(store, course=THREE).weights == checkpoint

    other = "c9" * 32
    add(store, f"training/{other}", SAVED.model_copy(update={"checkpoint": other, "base": BASE_DIGEST}))
    point(store, present_champion(views(store)).pointed_artifact().model_copy(update={"weights": other}))
    assert following(store, "s2", course=THREE).weights == other  # it was promoted over another champion


@pytest.mark.parametrize(("passed", "is_newer"), [(3, False), (8, True)])
def test_of_checkpoints_that_wait_the_newest_is_gone_on_with(passed: int, *, is_newer: bool) -> None:
    store = a_log()
    first = promoted_and_waiting(store)
    sweep = plan(store, "s2", first)
    play(store, sweep.specs, True, False)
    second = train(store, sweep, GRPO, STARTED, SAVED, dataset="d2" * 32)
    open_on(store, second, "eval-2")
    settle(store, second, [1_000_000] * passed + [0] * (8 - passed), "eval-2", waits=True)
    assert following(store, course=THREE).weights == (second if is_newer else first)


def test_a_sweep_that_gave_no_rows_ends_its_round() -> None:
    store = a_log()
    sweep = plan(store, "s1")
    play(store, sweep.specs, False, None)
    assert following(store).what == "freeze"
    assert following(store, "s1").what == "plan_sweep"


def test_a_checkpoint_on_another_base_is_not_gone_on_with() -> None:
    store = a_log()
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, False)
    checkpoint = train(store, sweep, SFT, STARTED, SAVED)
    point(store, present_champion(views(store)).pointed_artifact().model_copy(update={"weights": checkpoint}))
    assert following(store, "s1").weights == checkpoint
    assert following(store, "s1", base=OTHER_BASE).weights == BASE


def test_a_sweep_of_another_executor_is_that_ones_round() -> None:
    store = a_log()
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, False)
    train(store, sweep, SFT, STARTED)
    other = ByWeights({}, name="another")
    found = decide_slow(views(store), rounds(store), course=COURSE, site=SITE, base=BASE_DIGEST, executor=other)
    assert (following(store).what, found.what) == ("train", "plan_sweep")


def test_a_verdict_on_another_benchmark_is_none_of_the_round() -> None:
    store = a_log()
    other = freeze_benchmark("others", SITE, without_plans([template()]), [9_001], range(20_000, 20_008), 1)
    after = freeze_benchmark(
        "m-policies-2",
        SITE,
        without_plans([template()]),
        [9_002],
        range(30_000, 30_008),
        1,
        successor_of=FROZEN.benchmark,
    )
    for benchmark in (other, after):
        freeze_into(store, benchmark, SLOW_CONTROLLER)
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, False)
    checkpoint = train(store, sweep, SFT, STARTED, SAVED)
    open_on(store, checkpoint, benchmark=other)
    assert following(store).what == "open_evaluation"
    open_on(store, checkpoint, "eval-2", after)
    assert following(store).what == "play_arms"


def test_a_round_that_led_to_a_verdict_is_over_whatever_the_stages_are_now() -> None:
    store = a_log()
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, False)
    checkpoint = train(store, sweep, SFT, STARTED, SAVED)
    changed = replace(COURSE, stages=(DPO,))
    assert following(store, course=changed).what == "freeze"
    open_on(store, checkpoint)
    assert following(store, course=changed).what == "freeze"
    settle(store, checkpoint, [1_000_000] * 2 + [0] * 6)
    found = following(store, course=changed)
    assert (found.what, found.weights) == ("plan_sweep", BASE)


def test_a_benchmark_that_cannot_promote_is_renewed_first() -> None:
    store = a_log()
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, False)
    train(store, sweep, SFT, STARTED, SAVED)
    large = replace(COURSE, sizes=replace(COURSE.sizes, rules=RULES.model_copy(update={"min_pairs": 9})))
    assert following(store, course=large).what == "renew_benchmark"


def test_seeds_run_out() -> None:
    used_up = replace(COURSE, sizes=replace(COURSE.sizes, training_seeds=0))
    assert following(a_log(), course=used_up).what == "stop"


def test_seeds_that_a_benchmark_of_the_site_holds_are_none_to_train_on() -> None:
    store = a_log()
    for each, visible, sealed in (("elsewhere", [0, 1], [2, 3]), (SITE, [0], [2, 3])):
        freeze_into(
            store, freeze_benchmark(f"low-{each}", each, without_plans([template()]), visible, sealed, 1), "ann"
        )
    assert benchmark_seeds(views(store), SITE) == {0, 2, 3, 9_000, *range(10_000, 10_008)}
    few = [replace(COURSE, sizes=replace(COURSE.sizes, training_seeds=seeds)) for seeds in (1, 2)]
    assert [following(store, course=course).what for course in few] == ["stop", "plan_sweep"]


def test_the_last_stage_is_repeated_and_each_reads_its_own_sweep() -> None:
    course = SlowCourse(stages=(SFT, DPO, GRPO), reward="shaped", best_of_group=True)
    assert [course.stage(number) for number in range(5)] == [SFT, DPO, GRPO, GRPO, GRPO]
    queries = [course.query(stage, SITE, "s1") for stage in course.stages]
    assert queries == [
        SftQuery(runs="policy", best_of_group=True, environment=SITE, sweep="s1"),
        DpoQuery(reward="shaped", environment=SITE, sweep="s1"),
        GrpoQuery(reward="shaped", environment=SITE, sweep="s1"),
    ]
