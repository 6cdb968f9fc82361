"""Two sites in one log: what one has learned is judged there, enters by its verdict, and by no other site's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from agents.learning.memory import build_memory_artifact, forget_everything, rebuild_memory
from agents.learning.memory_scope import entries_of
from agents.learning.piece_content import MEDIA_TYPE, content_bytes
from agents.plans import Plan, anchor_of
from agents.rewards import DEFAULT_PRICES
from agents.suites.bundled import bundled_suites
from api.controllers.fast_next import decide
from api.course import Course
from api.evaluations.artifacts import resolve_artifact
from api.evaluations.evaluate import challenge, challenger_on, play_and_settle
from api.evaluations.jurisdiction import scope_challenger
from api.house import House
from api.queries.champion import present_champion
from eventlog.blobs import Blob
from eventlog.events import (
    AnyEvent,
    Artifact,
    BenchmarkTemplate,
    ChampionPointed,
    HintRecorded,
    Occasion,
    PieceKind,
    PieceTried,
    PreferTarget,
    ReplaceUrl,
    RewriteProposed,
    RewriteWon,
    Rules,
    SeedsRule,
    Step,
    SweepEnded,
    SweepPlanned,
    Template,
)
from eventlog.store import Append, Position
from gate.benchmark import freeze_benchmark, specs
from gate.errors import ActsElsewhere
from gate.promote import back, freeze_into, point
from tests.golden.make import Quiet

from .test_gate_evaluation import events_of

SHOP, DESK = "marketplace", "helpdesk"
TASKS = {SHOP: "marketplace.engine_spec", DESK: "helpdesk.merge_duplicates"}
BASE, EMPTY = forget_everything("base")
RULES = Rules(min_pairs=10)
COURSE = Course(max_parallel=1, rules=RULES)
RULE = SeedsRule(wins_to_promote=1)
START = Step(type="navigate", intent="start on the first page", url="/")
KINDS: frozenset[PieceKind] = frozenset({"rewrite", "hint"})


def put(house: House, stream: str, *events: AnyEvent) -> None:
    house.store.append([Append(stream, events, "test")])


def shipped_plan(site: str) -> tuple[Step, ...]:
    """The plan of a site's task in its suite."""
    tasks = (task for suite in bundled_suites().values() for task in suite.tasks)
    return next(task.steps for task in tasks if task.graded_as == TASKS[site])


def own_step(site: str) -> Step:
    """A step of a site's plan that no other plan has."""
    return next(step for step in shipped_plan(site) if step.label and step.type != "navigate")


@pytest.fixture
def house(empty_house: House) -> House:
    """A log with two sites, a benchmark and a sweep of each, and the base as champion."""
    begin(empty_house)
    for site, task in TASKS.items():
        open_site(empty_house, site, task, shipped_plan(site), challengers=5)
    return empty_house


def begin(house: House) -> None:
    """Prices, and the base with an empty memory as champion."""
    put(house, "prices", DEFAULT_PRICES)
    put(house, "champion", ChampionPointed(artifact=BASE, by="genesis", reason="bare", evaluation=None))
    house.blobs.put([EMPTY])


def open_site(house: House, site: str, task: str, plan: Plan, *, challengers: int) -> None:
    """A benchmark of a site for so many challengers, and a sweep there whose plan begins on the first page."""
    facts: dict[str, Any] = {"template_id": task, "cluster": "c", "oracle_task_id": task, "instruction": "do it"}
    frozen = freeze_benchmark(
        f"{site}-1", site, [BenchmarkTemplate(**facts, max_steps=20)], [], range(10), 1, challengers=challengers
    )
    freeze_into(house.store, frozen, "test")
    plan = plan if plan[0] == START else (START, *plan)
    sweep = SweepPlanned(
        sweep=f"{site}-1",
        environment=site,
        templates=(Template(**facts, plan_steps=plan),),
        specs=(),
        artifact=BASE,
        rng_seed=0,
    )
    put(house, f"sweep/{site}-1", sweep)


def learn_rewrite(house: House, name: str, step: Step) -> str:
    """A rewrite of a step that trials have promoted."""
    proposed = RewriteProposed(
        rewrite=name,
        anchor=anchor_of(step),
        change=ReplaceUrl(url="/elsewhere"),
        rule=RULE,
        run=f"{name}-found",
        source="page_links",
        confidence=1,
    )
    won = RewriteWon(rewrite=name, run=f"{name}-won", control_runs=(), control_successes=0)
    put(house, f"rewrite/{name}", proposed, won)
    return name


def learn_hint(house: House, name: str, site: str) -> str:
    """A hint for a site that trials have promoted."""
    content = Blob(MEDIA_TYPE, content_bytes("there", PreferTarget(label="There")))
    house.blobs.put([content])
    hint = HintRecorded(
        hint=name,
        occasion=Occasion(environment=site, type="click", intent="look", page=""),
        content=content.digest,
        rule=RULE,
        run=f"{name}-found",
        source="recovery",
        confidence=1,
    )
    tried = PieceTried(
        piece=name, kind="hint", run=f"{name}-won", control_runs=(), control_successes=0, won=True, withheld=False
    )
    put(house, f"hint/{name}", hint, tried)
    return name


def pieces(house: House, artifact: Artifact | None = None) -> set[str]:
    """The pieces of an artifact, by default of the champion."""
    held = artifact or present_champion(house.views()).pointed_artifact()
    return {*entries_of(house.blobs.get(held.memory.digest).body)}


def offered(house: House, site: str) -> set[str]:
    """The pieces of the challenger that a site may judge now."""
    artifact, blob = challenger_on(house, house.views(), KINDS, site)
    house.blobs.put([blob])
    return pieces(house, artifact)


def judge_here(house: House, site: str, *, promotes: bool, challenger: Artifact | None = None) -> str:
    """Open, play and settle an evaluation of what a site may judge; the sentence that says what was decided."""
    found, blob = challenger_on(house, house.views(), KINDS, site)
    house.blobs.put([blob])
    artifact = challenger or found
    frozen = next(iter(_frozen(house, site)))
    champion = present_champion(house.views()).pointed_artifact()
    evaluation = challenge(house, frozen, artifact, RULES)
    for planned in specs(frozen, evaluation):
        is_new = planned.arm.arm == "challenger"
        events = events_of(planned, artifact if is_new else champion, passed=is_new and promotes, is_missing=False)
        put(house, f"run/{planned.spec.spec_id}", *_renamed(events, site))
    return play_and_settle(house, cast("Any", None), evaluation, COURSE, Quiet())


def _frozen(house: House, site: str) -> Iterable[Any]:
    from projections.benchmarks import BENCHMARKS  # noqa: PLC0415

    state = house.views().get(BENCHMARKS, f"{site}-1")
    assert state is not None
    yield state.frozen_event()


def _renamed(events: Iterable[AnyEvent], site: str) -> list[AnyEvent]:
    """The events of a run as one of this site."""
    return [
        event.model_copy(update={"task_spec": event.task_spec.model_copy(update={"environment": site})})
        if event.type == "RunStarted"
        else event
        for event in events
    ]


def test_what_one_site_learned_is_never_before_the_benchmark_of_another(house: House) -> None:
    cure = learn_rewrite(house, "rw-shop", own_step(SHOP))
    assert offered(house, SHOP) == {cure}
    assert offered(house, DESK) == set()
    views = house.views()
    step = decide(views, (), rounds=1, course=COURSE, site=DESK, on_trial=(), scoped=lambda: _artifact(house, DESK))
    assert step.what == "plan_sweep"
    step = decide(views, (), rounds=1, course=COURSE, site=SHOP, on_trial=(), scoped=lambda: _artifact(house, SHOP))
    assert step.what == "open_evaluation"


def _artifact(house: House, site: str) -> Artifact:
    return challenger_on(house, house.views(), KINDS, site)[0]


def test_a_piece_that_its_site_held_stays_out_when_another_site_promotes(house: House) -> None:
    learn_rewrite(house, "rw-shop", own_step(SHOP))
    assert judge_here(house, SHOP, promotes=False) == "eval-1 was decided: hold"
    hint = learn_hint(house, "h-desk", DESK)
    assert judge_here(house, DESK, promotes=True) == "eval-2 was decided: promote"
    assert pieces(house) == {hint}
    assert offered(house, DESK) == {hint}
    assert offered(house, SHOP) == {hint, "rw-shop"}


def test_a_piece_that_acts_on_two_sites_counts_as_judged_where_it_was_and_waits_for_the_other(house: House) -> None:
    both = learn_rewrite(house, "rw-both", START)
    hint = learn_hint(house, "h-desk", DESK)
    assert offered(house, SHOP) == {both}
    told = judge_here(house, SHOP, promotes=True)
    assert told == "eval-1 was decided: promote; the champion waits for a verdict of helpdesk on rw-both"
    assert pieces(house) == set()
    assert offered(house, DESK) == {both, hint}
    assert judge_here(house, DESK, promotes=True) == "eval-2 was decided: promote"
    assert pieces(house) == {both, hint}


def test_a_piece_that_waits_for_another_site_holds_up_no_other(house: House) -> None:
    learn_rewrite(house, "rw-both", START)
    judge_here(house, SHOP, promotes=True)
    judge_here(house, DESK, promotes=False)
    cure = learn_rewrite(house, "rw-shop", own_step(SHOP))
    assert offered(house, SHOP) == {cure}
    judge_here(house, SHOP, promotes=True)
    assert pieces(house) == {cure}


def test_a_challenger_of_another_site_is_refused_and_its_own_part_is_found(house: House) -> None:
    cure, hint = learn_rewrite(house, "rw-shop", own_step(SHOP)), learn_hint(house, "h-desk", DESK)
    whole, blob = build_memory_artifact(house.views(), "base")
    house.blobs.put([blob])
    with pytest.raises(ActsElsewhere, match=r"h-desk act on helpdesk"):
        judge_here(house, SHOP, promotes=True, challenger=whole)
    part, content = scope_challenger(house, house.views(), SHOP, whole, blob)
    house.blobs.put([content])
    assert pieces(house, part) == {cure}
    point(house.store, house.views(), whole, "both are known to be right", "ann")
    assert pieces(house) == {cure, hint}
    assert judge_here(house, DESK, promotes=True, challenger=BASE) == "eval-1 was decided: promote"


def test_a_scoped_memory_is_rebuilt_from_the_log_named_and_taken_back(house: House) -> None:
    learn_hint(house, "h-desk", DESK)
    judge_here(house, DESK, promotes=True)
    cure = learn_rewrite(house, "rw-shop", own_step(SHOP))
    learn_hint(house, "h-desk-2", DESK)
    judge_here(house, SHOP, promotes=True)
    champion = present_champion(house.views()).pointed_artifact()
    scope = champion.memory.scope
    assert scope is not None
    assert (scope.entered, scope.left) == ((cure,), ())
    views = house.views(Position(champion.memory.upto))
    base = house.blobs.get(scope.base).body
    assert rebuild_memory(views, "base", champion.memory, base) == house.blobs.get(champion.memory.digest)
    assert rebuild_memory(views, "base", champion.memory) is None
    assert resolve_artifact(house, str(champion))[0] == champion
    pointed = back(house.store, house.views(), "it broke", "ann")
    assert pointed.quarantined == (cure,)
    assert pieces(house) == {"h-desk"}
    assert offered(house, SHOP) == {"h-desk"}
    assert offered(house, DESK) == {"h-desk", "h-desk-2"}


def test_a_piece_acts_where_the_last_arms_had_a_plan_that_the_last_sweep_lacks(house: House) -> None:
    """A course of other tasks follows: what was learned for the tasks of the benchmark is still this site's."""
    learn_hint(house, "h-shop", SHOP)
    judge_here(house, SHOP, promotes=True)
    other = Template(template_id="t", cluster="c", oracle_task_id="t", instruction="do it", plan_steps=(START,))
    sweep = SweepPlanned(sweep=f"{SHOP}-2", environment=SHOP, templates=(other,), specs=(), artifact=BASE, rng_seed=0)
    put(house, f"sweep/{SHOP}-2", sweep)
    put(house, f"sweep/{SHOP}-1", SweepEnded(sweep=f"{SHOP}-1", environment=SHOP, runs=0))
    cure = learn_rewrite(house, "rw-shop", own_step(SHOP))
    assert offered(house, SHOP) == {cure, "h-shop"}
    assert offered(house, DESK) == {"h-shop"}


def test_other_weights_wait_for_a_verdict_of_each_site(house: House) -> None:
    trained = BASE.model_copy(update={"weights": "c" * 64})
    told = judge_here(house, SHOP, promotes=True, challenger=trained)
    assert told == "eval-1 was decided: promote; the champion waits for a verdict of helpdesk on the weights"
    assert present_champion(house.views()).pointed_artifact() == BASE
    assert judge_here(house, DESK, promotes=True, challenger=trained) == "eval-2 was decided: promote"
    assert present_champion(house.views()).pointed_artifact() == trained
