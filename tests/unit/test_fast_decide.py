from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from agents.executors.by_weights import ByWeights
from agents.executors.executor import Executor
from agents.executors.outside.agent_spec import read_agent
from agents.executors.outside.executor import AgentExecutor
from agents.learning.memory import EVERY_KIND, build_memory_artifact, forget_everything
from agents.learning.piece_content import content_bytes
from agents.rewards import compute_reward
from agents.rollouts.play import PLAN
from api.controllers.fast_next import Next, cover_tasks, decide
from api.course import Course
from api.errors import FactMissing
from api.evaluations.benchmarks import without_plans
from api.queries.benchmarks import first_benchmark_name, present_benchmark
from api.queries.champion import present_champion
from api.queries.costs import present_prices
from api.queries.facts import require
from api.queries.runs import ended_runs, pending_specs
from api.queries.sweeps import last_round, rounds_of
from api.sweeps.candidates import TrialPool, siblings_for_trials, trial_pool
from api.sweeps.executors import recorded_as
from eventlog.events import (
    Artifact,
    ChampionPointed,
    HintRecorded,
    InstanceReset,
    MemoryQuarantined,
    Occasion,
    PairedRule,
    PieceKind,
    PreferTarget,
    PromotionRule,
    Rules,
    SeedsRule,
    Spec,
    Step,
    SweepPlanned,
    Usage,
    VerdictReached,
)
from eventlog.memory import MemoryStore
from eventlog.store import Append
from gate.alpha import Alpha
from gate.benchmark import freeze_benchmark
from gate.judge import judge
from gate.promote import freeze_into, open_evaluation
from projections.engine.projection import Fold
from projections.engine.views import ReplayedViews
from projections.memories import FOLDS
from projections.rewrites import REWRITES
from tests.unit.test_agent_samples import (
    BOOK,
    EMPTY,
    OPEN,
    a_store,
    add,
    decide_rewrite,
    finished,
    missing,
    propose,
    spec,
    started,
    template,
    tryables,
    views,
)
from tests.unit.test_gate_samples import an_arm

SITE = "marketplace"
WON = (True,) * 3
THERE, ERASED = "a" * 64, "b" * 64
READ = {THERE: content_bytes("", PreferTarget(label="Boats"))}.get
"""Reads the content of pieces, as far as it was not erased."""
LOOK = Step(type="click", intent="look", label="Search")
FROZEN = freeze_benchmark(
    first_benchmark_name(SITE), SITE, without_plans([template()]), [9_000], range(10_000, 10_008), 1
)
COURSE = Course(rules=Rules.seeds())
S = TypeVar("S", bound=msgspec.Struct)


def a_log() -> MemoryStore:
    store = a_store()
    point(store, EMPTY)
    freeze_into(store, FROZEN, "controller")
    return store


def point(store: MemoryStore, artifact: Artifact) -> None:
    add(store, "champion", ChampionPointed(artifact=artifact, by="genesis", reason="start", evaluation=None))


def plan(
    store: MemoryStore,
    name: str,
    runs: int = 2,
    *,
    candidate: str | None = None,
    by: str = "controller",
    executor: Executor = PLAN,
) -> SweepPlanned:
    """A sweep with today's memory for an executor; the last of its runs carries the candidate."""
    carried = [None] * (runs - 1) + [candidate]
    specs = tuple(spec(f"r{index}", sweep=name, candidate=each) for index, each in enumerate(carried))
    artifact = build_memory_artifact(views(store), "base")[0]
    recorded, model = recorded_as(executor)
    event = SweepPlanned(
        sweep=name,
        environment=SITE,
        templates=(template(),),
        specs=specs,
        artifact=artifact,
        rng_seed=7,
        executor=recorded,
        model=model,
    )
    store.append([Append(f"sweep/{name}", (event,), by)])
    return event


def play(store: MemoryStore, specs: Sequence[Spec], *passed: bool | None) -> None:
    """Runs as they ended: passed, failed, or missing (None)."""
    usage = Usage(actions=1, wall_microseconds=1, input_tokens=0, output_tokens=0)
    for each, won in zip(specs, passed, strict=True):
        end = missing(each)
        if won is None:
            add(store, f"run/{each.spec_id}", started(each), end)
        else:
            reward = compute_reward(
                each.spec_id, each.group_id, 1_000_000 * won, (), usage, BOOK, passed=won, conduct=None
            )
            add(store, f"run/{each.spec_id}", started(each), finished(each), reward)


def open_one(
    store: MemoryStore,
    name: str,
    challenger: Artifact,
    benchmark: str = FROZEN.benchmark,
    executor: str | None = None,
    by: str = "controller",
) -> None:
    present = present_champion(views(store)).pointed_artifact()
    frozen = FROZEN.model_copy(update={"benchmark": benchmark, "environment": benchmark.removesuffix("-1")})
    freeze_into(store, frozen, "controller")
    open_evaluation(store, name, frozen, present, challenger, COURSE.rules, by, executor=executor)


def settle(store: MemoryStore, name: str, challenger: Artifact, decision: str = "hold", *, by: str = "test") -> None:
    scores: dict[str, list[int | None]] = {"promote": [1_000_000] * 8, "hold": [0] * 8, "void": [None] * 8}
    first = an_arm(FROZEN, "champion", [0] * 8, pinned=present_champion(views(store)).pointed_artifact())
    second = an_arm(FROZEN, "challenger", scores[decision], pinned=challenger)
    verdict = judge(first, second, FROZEN, COURSE.rules, Alpha(1, 5_000, 5_000))
    assert verdict.decision == decision
    store.append([Append("champion", (VerdictReached(evaluation=name, verdict=verdict),), by)])


def decided(
    store: MemoryStore,
    *sweeps: SweepPlanned,
    rounds: int = 0,
    course: Course | None = None,
    executor: Executor = PLAN,
    now: datetime | None = None,
    void: str | None = None,
) -> Next:
    last = (rounds_of(store, SITE) or [None])[-1]
    return decide(
        views(store),
        sweeps,
        rounds=rounds,
        course=course or COURSE,
        site=SITE,
        on_trial=trial_pool(views(store), READ).names,
        last=last,
        executor=executor,
        now=now,
        void=void,
    )


def test_an_empty_log_has_failures_to_look_for() -> None:
    assert decided(a_log()).what == "plan_sweep"


def test_where_benchmarks_hold_every_training_seed_it_stops() -> None:
    store = a_log()
    freeze_into(store, freeze_benchmark("low", SITE, without_plans([template()]), [0], [1], 1), "ann")
    found = [decided(store, course=replace(COURSE, training_seeds=seeds)).what for seeds in (2, 3)]
    assert found == ["stop", "plan_sweep"]


def test_a_sweep_that_has_not_ended_is_played_before_anything_else() -> None:
    store = a_log()
    propose(store, "rw-a")
    decide_rewrite(store, "rw-a", *WON)
    open_one(store, "eval-1", build_memory_artifact(views(store), "base")[0])
    first, second = plan(store, "s1"), plan(store, "s2")
    play(store, first.specs, True, None)
    play(store, second.specs[:1], False)
    found = decided(store, first, second, rounds=9)
    assert (found.what, found.sweep) == ("play_sweep", second)
    assert pending_specs(views(store), second.specs, "s2__") == second.specs[1:]


def test_a_sweep_that_was_planned_for_another_executor_is_left_to_it() -> None:
    store = a_log()
    other = plan(store, "s1").model_copy(update={"executor": "browser"})
    assert decided(store, other).what == "plan_sweep"
    assert decided(store, other, executor=replace(PLAN, name="browser")).sweep == other


def test_a_run_that_only_started_has_not_ended() -> None:
    store = a_log()
    sweep = plan(store, "s1")
    play(store, sweep.specs[:1], None)
    add(store, f"run/{sweep.specs[1].spec_id}", started(sweep.specs[1]))
    assert decided(store, sweep).what == "play_sweep"
    assert ended_runs(views(store), "s1__") == {"s1__r0"}


def test_runs_of_a_sweep_whose_name_begins_the_same_are_not_its_own() -> None:
    store = a_log()
    one, ten = plan(store, "s1"), plan(store, "s10")
    play(store, ten.specs, True, True)
    assert decided(store, one, ten).sweep == one


def test_an_open_evaluation_is_played_before_a_sweep_is_planned() -> None:
    store = a_log()
    propose(store, "rw-a")
    decide_rewrite(store, "rw-a", *WON)
    open_one(store, "eval-1", build_memory_artifact(views(store), "base")[0])
    found = decided(store)
    assert (found.what, found.evaluation) == ("play_arms", "eval-1")


def test_an_open_evaluation_of_policies_is_left_to_the_slow_loop() -> None:
    store = a_log()
    open_one(store, "eval-1", build_memory_artifact(views(store), "base")[0], executor="policy")
    assert decided(store).what == "plan_sweep"
    open_one(store, "eval-2", build_memory_artifact(views(store), "base")[0], executor="browser")
    assert decided(store).evaluation == "eval-2"


def test_an_open_evaluation_on_another_sites_benchmark_is_left_alone() -> None:
    store = a_log()
    propose(store, "rw-a")
    decide_rewrite(store, "rw-a", *WON)
    challenger = build_memory_artifact(views(store), "base")[0]
    decide_rewrite(store, "rw-a", True)
    open_one(store, "eval-1", challenger, benchmark="shop-1")
    assert decided(store).what == "open_evaluation"


@pytest.mark.parametrize("is_decided", [True, False])
def test_what_another_site_judges_is_judged_here_too(is_decided: bool) -> None:
    store, challenger = promoted()
    open_one(store, "eval-1", challenger, benchmark="shop-1")
    if is_decided:
        settle(store, "eval-1", challenger)
    assert decided(store).what == "open_evaluation"


def test_what_concerns_no_run_of_the_site_is_not_judged_there() -> None:
    store, _ = promoted()
    last = plan(store, "s1")
    play(store, last.specs, False, False)
    found = decide(views(store), [last], rounds=0, course=COURSE, site=SITE, on_trial=(), last=last, is_concerned=False)
    assert found.what == "plan_sweep"


def promoted() -> tuple[MemoryStore, Artifact]:
    """A log whose memory holds one promoted rewrite, and the artifact with it."""
    store = a_log()
    propose(store, "rw-a")
    decide_rewrite(store, "rw-a", *WON)
    return store, build_memory_artifact(views(store), "base")[0]


def test_memory_that_no_champion_was_judged_with_is_judged() -> None:
    store, _ = promoted()
    assert decided(store).what == "open_evaluation"


def test_a_candidate_is_not_judged_before_it_is_promoted() -> None:
    store = a_log()
    propose(store, "rw-a")
    decide_rewrite(store, "rw-a", True, True)
    assert decided(store).what == "plan_sweep"


def test_what_is_cold_enters_no_challenger() -> None:
    store, _challenger = promoted()
    (held,) = views(store).find(REWRITES).values()
    idle = datetime.fromtimestamp(held.last_at / 1e6, UTC) + timedelta(days=30)
    assert decided(store, now=idle).what == "open_evaluation"
    assert decided(store, now=idle + timedelta(seconds=1)).what == "plan_sweep"


@pytest.mark.parametrize(
    ("rules", "siblings"),
    [((), 2), ((SeedsRule(),), 2), ((PairedRule(),), 4), ((SeedsRule(), PairedRule(), PairedRule(controls=1)), 4)],
)
def test_a_round_has_as_many_siblings_as_the_rules_of_what_is_on_trial_ask(
    rules: tuple[PromotionRule, ...], siblings: int
) -> None:
    store = a_log()
    for number, rule in enumerate(rules):
        propose(store, f"rw-{number}", rule=rule)
    trying = trial_pool(views(store), READ)
    assert siblings_for_trials(trying, Course().siblings) == siblings
    assert siblings_for_trials(trying, 9) == 9


@dataclass(frozen=True)
class Counted(ReplayedViews):
    """Views that note the name of each fold that is read whole."""

    finds: list[str] = field(default_factory=list)

    def find(self, fold: Fold[S], prefix: str = "") -> dict[str, S]:
        """See Views.find."""
        self.finds.append(fold.name)
        return super().find(fold, prefix)


def test_what_can_be_tried_is_found_in_one_reading_of_each_kind_of_piece() -> None:
    store = a_log()
    propose(store, "rw-a")
    seen = Counted(store, store.head())
    assert trial_pool(seen, READ).names == {"rw-a"}
    assert [seen.finds.count(fold.name) for fold in FOLDS.values()] == [1] * len(FOLDS)


def a_hint(store: MemoryStore, run: str, content: str, site: str) -> None:
    """A candidate hint that a run of a site proposed."""
    event = HintRecorded(
        hint="hint-a",
        occasion=Occasion(environment=site, type="click", intent="look", page=""),
        content=content,
        confidence=1,
        rule=PairedRule(),
        run=run,
        source="recovery",
    )
    add(store, "hint/hint-a", event)


@pytest.mark.parametrize("why", ["tryable", "poisoned", "erased", "other kind", "other site", "step gone"])
def test_what_nobody_can_try_asks_for_no_siblings_and_keeps_nobody_from_stopping(why: str) -> None:
    store = a_log()
    sweep = plan(store, "s1")
    play(store, sweep.specs, False, False)
    states = ("1" * 64, "2" * 64 if why == "poisoned" else "1" * 64)
    for each, state in zip(sweep.specs, states, strict=True):
        reset = InstanceReset(run=each.spec_id, group=each.group_id, seed=each.env_seed, fingerprint=state)
        add(store, f"run/{each.spec_id}", reset)
    site = "helpdesk" if why == "other site" else SITE
    a_hint(store, sweep.specs[1].spec_id, ERASED if why == "erased" else THERE, site)
    kinds: frozenset[PieceKind] = frozenset({"rewrite"}) if why == "other kind" else EVERY_KIND
    task = template() if why == "step gone" else template("look", (OPEN, LOOK))
    trying = trial_pool(views(store), READ, kinds).among([task], SITE)
    assert sorted(trying.names) == (["hint-a"] if why == "tryable" else [])
    assert siblings_for_trials(trying, 2) == (4 if why == "tryable" else 2)
    found = decide(
        views(store),
        [sweep],
        rounds=2,
        course=COURSE,
        site=SITE,
        on_trial=trying.names,
        last=rounds_of(store, SITE)[-1],
    )
    assert found.what == ("plan_sweep" if why == "tryable" else "stop")


@pytest.mark.parametrize(("url", "is_left"), [("/elsewhere", True), ("/rw-a", False)])
def test_a_rewrite_that_a_plan_holds_already_is_neither_tried_nor_withheld(url: str, is_left: bool) -> None:
    step = OPEN.model_copy(update={"url": url})
    pieces = tryables("rw-a", controls=3, step=step)
    found = TrialPool(pieces, pieces).among([template("t1", (step,))], SITE)
    assert found == (TrialPool(pieces, pieces) if is_left else TrialPool())


@pytest.mark.parametrize("decision", ["hold", "promote"])
def test_a_challenger_that_was_judged_is_not_judged_again(decision: str) -> None:
    store, challenger = promoted()
    open_one(store, "eval-1", challenger)
    settle(store, "eval-1", challenger, decision)
    add(store, "elsewhere", missing(spec("unrelated")))
    assert build_memory_artifact(views(store), "base")[0] != challenger
    assert decided(store).what == "plan_sweep"


def test_a_benchmark_that_has_judged_all_it_may_is_renewed_before_the_next_challenger() -> None:
    store, challenger = promoted()
    for number in range(1, 11):
        assert decided(store).what == "open_evaluation"
        open_one(store, f"eval-{number}", challenger)
        settle(store, f"eval-{number}", challenger, "void")
    found = decided(store)
    assert (found.what, found.why) == (
        "renew_benchmark",
        "marketplace-1 is exhausted: it has judged all its challengers",
    )
    fresh = FROZEN.model_copy(update={"benchmark": "marketplace-2", "successor_of": FROZEN.benchmark})
    freeze_into(store, fresh, "controller")
    assert present_benchmark(views(store), SITE) == fresh
    assert decided(store).what == "open_evaluation"


def test_a_benchmark_on_which_the_rules_can_only_void_is_renewed() -> None:
    store, _ = promoted()
    found = decided(store, course=Course())
    assert found.what == "renew_benchmark"
    assert found.why == "marketplace-1 is too small: 8 sealed instances, and the rules ask for 40"


def test_a_benchmark_that_lacks_tasks_of_the_course_is_renewed_before_anything_is_judged() -> None:
    store, _ = promoted()
    found = decided(store)
    assert cover_tasks(views(store), SITE, found, ["oracle-t1"]) == found
    wider = cover_tasks(views(store), SITE, found, ["oracle-t3", "oracle-t1", "oracle-t2"])
    assert (wider.what, wider.why) == ("renew_benchmark", "marketplace-1 lacks the tasks oracle-t2, oracle-t3")


def test_a_void_verdict_judged_nothing_so_its_challenger_is_judged_again() -> None:
    store, challenger = promoted()
    open_one(store, "eval-1", challenger)
    settle(store, "eval-1", challenger, "void")
    assert decided(store).what == "open_evaluation"


def test_a_course_whose_last_verdict_is_void_stops() -> None:
    store, challenger = promoted()
    open_one(store, "eval-1", challenger)
    settle(store, "eval-1", challenger, "void")
    found = decided(store, plan(store, "s1"), void="eval-1")
    assert (found.what, found.why) == ("stop", "eval-1 was decided: void")


def test_the_champions_own_memory_is_not_judged() -> None:
    store, artifact = promoted()
    point(store, artifact)
    assert decided(store).what == "plan_sweep"


def test_a_rewrite_more_after_a_hold_is_a_new_challenger() -> None:
    store, challenger = promoted()
    open_one(store, "eval-1", challenger)
    settle(store, "eval-1", challenger)
    propose(store, "rw-b")
    decide_rewrite(store, "rw-b", *WON)
    assert decided(store).what == "open_evaluation"


def test_memory_that_was_emptied_is_no_challenger() -> None:
    store, artifact = promoted()
    point(store, artifact)
    add(store, "champion", MemoryQuarantined(piece="rw-a", kind="rewrite", restored=0, reason="bad"))
    assert build_memory_artifact(views(store), "base")[0].memory.digest == forget_everything("base")[0].memory.digest
    assert decided(store).what == "plan_sweep"


def test_a_last_round_that_lacked_a_task_of_the_course_does_not_end_it() -> None:
    store = a_log()
    last = plan(store, "s1")
    play(store, last.specs, True, True)
    for tasks, expected in (([template()], "stop"), ([template(), template("t2")], "plan_sweep")):
        found = last_round(store, views(store), SITE, tasks, recorded_as(PLAN))
        step = decide(views(store), [last], rounds=0, course=COURSE, site=SITE, on_trial=(), last=found)
        assert step.what == expected
    assert last_round(store, views(store), "another", [template()], recorded_as(PLAN)) is None


def test_a_clean_round_of_another_executor_says_nothing_of_what_an_agent_could_improve(tmp_path: Path) -> None:
    store, first = a_log(), an_agent(tmp_path)
    (tmp_path / "agent.sh").write_text("true")
    second = AgentExecutor(read_agent("command:sh agent.sh", tmp_path))
    players: tuple[Executor, ...] = (PLAN, first)
    for number, player in enumerate(players):
        last = plan(store, f"s{number}", executor=player)
        play(store, last.specs, True, True)
        for executor in (PLAN, first, second):
            found = last_round(store, views(store), SITE, [template()], recorded_as(executor))
            step = decide(
                views(store), [], rounds=0, course=COURSE, site=SITE, on_trial=(), last=found, executor=executor
            )
            assert step.what == ("stop" if executor is player else "plan_sweep")


def test_it_stops_where_every_run_of_a_round_is_missing_and_tries_once_more_in_the_next_course() -> None:
    store = a_log()
    sweep = plan(store, "s1")
    play(store, sweep.specs, None, None)
    assert [decided(store, sweep, rounds=rounds).is_in_vain for rounds in (0, 1)] == [False, True]
    assert [decided(store, sweep, rounds=rounds).what for rounds in (0, 1)] == ["plan_sweep", "stop"]


def test_it_stops_when_every_untreated_run_passed() -> None:
    store = a_log()
    sweep = plan(store, "s1", 3, candidate="rw-a")
    play(store, sweep.specs, True, True, False)
    found = decided(store, sweep)
    assert found.what == "stop"
    assert "nothing to improve" in found.why


def test_a_clean_sweep_of_somebody_else_says_nothing_of_what_there_is_to_improve() -> None:
    store = a_log()
    mine = plan(store, "s1")
    play(store, mine.specs, True, False)
    other = plan(store, "s2", by="operator")
    play(store, other.specs, True, True)
    assert decided(store, mine, other).what == "plan_sweep"


def test_siblings_that_were_added_to_a_round_are_a_part_of_it_whoever_added_them() -> None:
    store = a_log()
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, True)
    more = sweep.model_copy(update={"specs": (spec("r9", sweep="s1"),)})
    store.append([Append("sweep/s1", (more,), "operator")])
    play(store, more.specs, False)
    assert [each.specs for each in rounds_of(store, SITE)] == [sweep.specs + more.specs]
    assert decided(store, sweep, more).what == "plan_sweep"


@pytest.mark.parametrize("passed", [False, None])
def test_a_run_that_failed_or_went_missing_is_no_clean_sweep(passed: bool | None) -> None:
    store = a_log()
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, passed)
    assert decided(store, sweep).what == "plan_sweep"


def test_a_clean_sweep_with_yesterdays_memory_says_nothing_of_todays() -> None:
    store = a_log()
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, True)
    propose(store, "rw-a")
    point(store, build_memory_artifact(views(store), "base")[0])
    assert decided(store, sweep).what == "stop"
    decide_rewrite(store, "rw-a", *WON)
    point(store, build_memory_artifact(views(store), "base")[0])
    assert decided(store, sweep).what == "plan_sweep"


def test_memory_held_with_other_weights_is_judged_with_those_of_today_by_who_serves_them() -> None:
    store, challenger = promoted()
    open_one(store, "eval-1", challenger, executor="policy")
    settle(store, "eval-1", challenger)
    assert decided(store, executor=ByWeights({})).what == "plan_sweep"
    point(store, forget_everything("c" * 64)[0])
    found = [decided(store, executor=each).what for each in (ByWeights({}), PLAN)]
    assert found == ["open_evaluation", "plan_sweep"]


def an_agent(folder: Path, **changes: Any) -> AgentExecutor:
    """An agent of one's own; with `load` it is before a model that has the weights of the run."""
    (folder / "mine.py").write_text("def play(task):\n    pass\n")
    return AgentExecutor(read_agent("python:mine:play", folder), **changes)


def test_memory_held_with_other_weights_is_judged_with_those_of_today_by_an_agent_before_them(tmp_path: Path) -> None:
    store, challenger = promoted()
    before_weights, alone = an_agent(tmp_path, load=[].append), an_agent(tmp_path)
    name, _model = recorded_as(alone)
    open_one(store, "eval-1", challenger, executor=name)
    settle(store, "eval-1", challenger)
    assert decided(store, executor=before_weights).what == "plan_sweep"
    point(store, forget_everything("c" * 64)[0])
    found = [decided(store, executor=each).what for each in (before_weights, alone)]
    assert found == ["open_evaluation", "plan_sweep"]


def test_a_round_of_other_weights_says_nothing_of_todays_to_an_agent_before_them(tmp_path: Path) -> None:
    store = a_log()
    before_weights, alone = an_agent(tmp_path, load=[].append), an_agent(tmp_path)
    sweep = plan(store, "s1", executor=alone)
    play(store, sweep.specs, True, True)
    point(store, forget_everything("c" * 64)[0])
    found = [decided(store, sweep, executor=each).what for each in (before_weights, alone)]
    assert found == ["plan_sweep", "stop"]


@pytest.mark.parametrize("passed", [True, False])
def test_a_round_of_other_weights_says_nothing_of_todays_to_who_serves_them(*, passed: bool) -> None:
    store = a_log()
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, passed)
    executors = (ByWeights({}), PLAN)
    assert [decided(store, sweep, rounds=2, executor=each).what for each in executors] == ["stop", "stop"]
    point(store, forget_everything("c" * 64)[0])
    assert [decided(store, sweep, rounds=2, executor=each).what for each in executors] == ["plan_sweep", "stop"]


def test_after_the_last_round_it_stops_and_says_what_is_quarantined() -> None:
    store, artifact = promoted()
    point(store, artifact)
    sweep = plan(store, "s1")
    play(store, sweep.specs, True, False)
    course = Course(max_rounds=2, rules=Rules.seeds())
    assert decided(store, sweep, rounds=1, course=course).what == "plan_sweep"
    found = decided(store, sweep, rounds=2, course=course)
    assert (found.what, found.why) == ("stop", "the gate has judged everything that 2 rounds found")
    add(store, "champion", MemoryQuarantined(piece="rw-a", kind="rewrite", restored=0, reason="bad"))
    assert decided(store, sweep, rounds=2, course=course).why.endswith("; quarantined since a rollback: rw-a")


def test_what_is_next_is_the_same_whenever_it_is_asked() -> None:
    store, challenger = promoted()
    seen = views(store)
    before = decide(seen, (), rounds=0, course=COURSE, site=SITE, on_trial=())
    open_one(store, "eval-1", challenger)
    assert decide(seen, (), rounds=0, course=COURSE, site=SITE, on_trial=()) == before


def test_a_log_that_was_never_begun_is_said_to_be_so() -> None:
    with pytest.raises(FactMissing, match="flywheel run"):
        decided(a_store())
    with pytest.raises(FactMissing):
        present_prices(views(a_store()))
    assert require(0) == 0


def test_where_runs_fail_and_nothing_is_on_trial_nothing_helps() -> None:
    store = a_log()
    sweep = plan(store, "s1")
    play(store, sweep.specs, False, False)
    assert decided(store, sweep, rounds=1).what == "plan_sweep"
    found = decided(store, sweep, rounds=2)
    assert (found.what, found.why) == ("stop", "runs of s1 still fail, and no proposal is left to try")
    propose(store, "rw-a")
    assert decided(store, sweep, rounds=2).what == "plan_sweep"
