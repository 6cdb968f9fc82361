"""A log into which forged events got: they are listed, disowned by an event, and left out from there on."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents.executors.policy import PolicyExecutor
from agents.models.scripted import Scripted
from agents.rollouts.dispatching.durable import Notice, Terms
from agents.rollouts.dispatching.queue import JobTicket, RolloutQueue, tickets
from api.cli import gate_run, sweep_setup
from api.controllers.both import BothLoops
from api.controllers.budgets import budget_of, close_course, open_course
from api.controllers.fast import Controller
from api.controllers.slow import SlowController
from api.controllers.slow_next import SlowCourse
from api.course import Course
from api.errors import ForgedEvents, OtherExecutor
from api.evaluations.benchmarks import instances_seen
from api.history.disown import STREAM, disown, forged_events, refuse_forged
from api.house import House
from api.queries.champion import present_champion
from api.queries.costs import present_prices
from api.queries.courses import present_course
from api.queries.sweeps import open_sweeps, planned_by, plans_of, sweeps_on
from api.sweeps.backlog import Backlog
from api.sweeps.learner import Learner
from api.sweeps.plan import first_facts
from api.sweeps.worker import SiteRunner
from api.training.first_bases import words_of
from eventlog.blobs import Blob
from eventlog.errors import FlywheelError
from eventlog.events import (
    EVENT_TYPES,
    CourseClosed,
    CourseOpened,
    EvaluationOpened,
    EventsDisowned,
    ModelCalled,
    PairedRule,
    SweepPlanned,
)
from eventlog.store import Append, Position
from gate.errors import NotOpened
from gate.promote import find_opening
from projections import ALL
from projections.champions import CHAMPIONS
from projections.engine.compare import compare
from projections.engine.projection import AnyFold
from projections.engine.views import ReplayedViews
from projections.failures import FAILURES
from projections.forged import NEVER_FROM_A_TOKEN
from projections.pieces import EXEMPLARS, RECIPES
from projections.rewrites import REWRITES
from projections.runs import RUNS
from tests.golden.test_golden_samples import golden_rows, sample
from tests.integration.test_learning_again import ended

from .test_cli import Flywheel, flywheel

__all__ = ["flywheel"]

HEAD = golden_rows()[-1].position
FORGED = [kind for kind in EVENT_TYPES if kind in NEVER_FROM_A_TOKEN and kind not in {"RunsWithdrawn", "SubjectErased"}]
LAST = HEAD + len(FORGED)
READ_EARLIER: tuple[AnyFold, ...] = (REWRITES, CHAMPIONS, FAILURES, RUNS)
HONEST = sorted(range(2, HEAD, 9))


def forge(house: House) -> None:
    """What a deny-list that went stale let in: the sample of each event type, on the stream of prices."""
    for kind in FORGED:
        house.store.append([Append("prices", (sample(kind),), "api:theirs")])


def states(house: House, upto: int | None = None) -> dict[str, Any]:
    views = house.views_at(None if upto is None else str(upto))
    return {fold.name: views.find(fold) for fold in ALL}


def test_forged_events_are_listed_in_pages_and_no_honest_one_is(flywheel: Flywheel, house: House) -> None:
    assert json.loads(flywheel("log", "inspect", "--json")[1]) == {"events": [], "next": None}
    forge(house)
    first = json.loads(flywheel("log", "inspect", "--limit", "3", "--json")[1])
    rest = json.loads(flywheel("log", "inspect", "--after", str(first["next"]), "--json")[1])
    found = [*first["events"], *rest["events"]]
    assert [(event["position"], event["type"]) for event in found] == list(enumerate(FORGED, HEAD + 1))
    assert {(event["actor"], event["stream"]) for event in found} == {("api:theirs", "prices")}
    assert rest["next"] is None


def test_what_was_disowned_is_left_out_from_there_on_and_still_there_before(flywheel: Flywheel, house: House) -> None:
    before = states(house)
    forge(house)
    misled = states(house)
    assert misled != before
    code, out, _ = flywheel("log", "disown", "--all", "--reason", "a stolen token", "--json")
    assert (code, json.loads(out)) == (0, {"disowned": [*range(HEAD + 1, LAST + 1)], "since": LAST + 1})
    assert states(house) == before
    assert states(house, LAST) == misled
    assert json.loads(flywheel("log", "inspect", "--json")[1])["events"] == []
    assert len(json.loads(flywheel("log", "inspect", "--as-of", str(LAST), "--json")[1])["events"]) == len(FORGED)
    for words in (("log", "verify"), ("replay", "--verify"), ("replay", "--rebuild", "--verify")):
        assert flywheel(*words)[0] == 0, words


def test_one_of_several_is_disowned_and_the_others_stand(flywheel: Flywheel, house: House) -> None:
    forge(house)
    recipe = HEAD + 1 + FORGED.index("RecipeImported")
    assert house.views().find(RECIPES)
    assert flywheel("log", "disown", str(recipe), "--reason", "forged")[0] == 0
    assert not house.views().find(RECIPES)
    left = json.loads(flywheel("log", "inspect", "--json")[1])["events"]
    assert [event["position"] for event in left] == [at for at in range(HEAD + 1, LAST + 1) if at != recipe]


@pytest.mark.parametrize("positions", [(1,), (HEAD + 1, 2), (HEAD + 1000,)])
def test_only_what_is_forged_can_be_disowned(flywheel: Flywheel, house: House, positions: tuple[int, ...]) -> None:
    forge(house)
    code, _, err = flywheel("log", "disown", *map(str, positions), "--reason", "x")
    assert (code, "Nothing was disowned" in " ".join(err.split())) == (1, True)
    assert flywheel("log", "disown", "--all", "--reason", " ")[0] == 1
    assert flywheel("log", "disown", "--reason", "x")[0] != 0
    assert house.store.head() == LAST


def test_a_controller_says_which_events_are_forged_and_what_helps(flywheel: Flywheel, house: House) -> None:
    forge(house)
    controller = Controller(house, cast("Any", None), "marketplace", Course(), cast("Any", None))
    said = f"{len(FORGED)} forged events.* position {HEAD + 1}.*flywheel log disown --all"
    with pytest.raises(ForgedEvents, match=said):
        controller.run()
    assert house.store.head() == LAST
    assert flywheel("log", "disown", "--all", "--reason", "forged")[0] == 0
    refuse_forged(house.views())


def test_whatever_decides_or_plays_refuses_to_begin_on_a_log_with_forged_events(
    flywheel: Flywheel, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    champion = str(present_champion(house.views()).pointed_artifact())
    forge(house)
    nothing = cast("Any", SimpleNamespace(environment=None, inside=None))
    for module in (gate_run, sweep_setup):
        monkeypatch.setattr(module, "placed_at", lambda *_: nullcontext(nothing))
    slow_course = SlowCourse(stages=())
    controller = SlowController(house, nothing, "marketplace", slow_course, nothing, nothing)
    for begin in (controller.run, BothLoops(house, "marketplace", Course(), slow_course, print).begin):
        with pytest.raises(ForgedEvents):
            begin()
    for words in (("gate", "run", "--challenger", champion), ("rollout", "sweep", "marketplace", "--seeds", "1-2")):
        code, _, err = flywheel(*words)
        assert (code, "flywheel log disown --all" in " ".join(err.split())) == (1, True), words
    assert house.store.head() == LAST


def disown_honest(house: House, *positions: int) -> None:
    event = EventsDisowned(positions=positions, reason="a test")
    house.store.append([Append(STREAM, (event,), "test")])


def test_tables_that_are_kept_up_and_tables_that_are_built_again_leave_the_same_out(house: House) -> None:
    house.store.append([Append("prices", (sample("PriceBookSet", version=9),), "test")])
    disown_honest(house, *HONEST[:40])
    house.views()
    disown_honest(house, *HONEST[40:])
    disown_honest(house, HEAD + 1)
    house.store.append([Append("rewrite/w", (sample("RewriteWon"),), "test")])
    assert all(found.is_identical for found in compare(house.views()))
    for upto in (HEAD, HEAD + 2, HEAD + 3):
        table, reference = house.views_at(str(upto)), ReplayedViews(house.store, Position(upto))
        for fold in READ_EARLIER:
            assert table.find(fold) == reference.find(fold), (fold.name, upto)
    house.projector.rebuild([fold.name for fold in ALL])
    assert all(found.is_identical for found in compare(house.views()))


def test_a_log_that_was_forged_before_its_first_run_gets_prices_all_the_same(empty_house: House) -> None:
    empty_house.store.append([Append("prices", (sample("HintRecorded"),), "api:theirs")])
    disown(empty_house.store, empty_house.views(), [1], "forged", "cli")
    for _ in range(2):
        first_facts(empty_house)
    assert present_prices(empty_house.views()).version == 1
    assert empty_house.store.head() == 4


def test_a_course_that_has_the_name_of_an_earlier_one_since_others_were_disowned_is_closed(empty_house: House) -> None:
    store, site, name = empty_house.store, "marketplace", "theirs"
    forged = (
        CourseOpened(course=name, environment=site, loop="fast", budget=budget_of(Course())),
        CourseClosed(course=name, environment=site, loop="fast", why="forged"),
    )
    store.append([Append("prices", forged, "api:theirs")])
    for again in range(2):
        open_course(store, empty_house.views(), site, Course())
        assert present_course(empty_house.views(), site, "fast") is not None
        close_course(store, empty_house.views(), site, "done")
        assert present_course(empty_house.views(), site, "fast") is None
        if not again:
            disown(store, empty_house.views(), [1, 2], "forged", "cli")


def test_a_call_outside_the_stream_of_its_run_gives_no_words(empty_house: House) -> None:
    call = sample("ModelCalled")
    assert isinstance(call, ModelCalled)
    (theirs,) = empty_house.blobs.put([Blob("application/json", b"[]")])
    forged = call.model_copy(update={"messages": theirs})
    empty_house.store.append([Append("prices", (forged,), "api:theirs")])
    assert list(words_of(empty_house, {call.run})) == []


def test_no_benchmark_is_renewed_over_forged_events(flywheel: Flywheel, house: House) -> None:
    forge(house)
    head = house.store.head()
    code, _, err = flywheel("benchmark", "refresh", "marketplace-1")
    assert (code, "flywheel log disown" in err, house.store.head()) == (1, True, head)


def test_a_plan_and_an_opening_that_were_disowned_count_nowhere_any_more(empty_house: House) -> None:
    store, plan, opening = empty_house.store, sample("SweepPlanned"), sample("EvaluationOpened")
    assert isinstance(plan, SweepPlanned)
    assert isinstance(opening, EvaluationOpened)
    store.append([Append(f"sweep/{plan.sweep}", (plan, plan), "api:theirs")])
    store.append([Append("prices", (opening,), "api:theirs")])
    misled = empty_house.views()
    backlog = Backlog(empty_house, plan.environment)
    assert backlog.pending_tickets()
    assert open_sweeps(store, misled, plan.environment) == (plan, plan)
    disown(store, misled, [1, 2, 3], "forged", "cli")
    views = empty_house.views()
    assert plans_of(store, views, plan.sweep) == ()
    assert planned_by(store, views, "api:theirs") == ()
    assert instances_seen(empty_house, views) == frozenset()
    assert backlog.pending_tickets() == Backlog(empty_house, plan.environment).pending_tickets() == ()
    with pytest.raises(NotOpened):
        find_opening(store, opening.evaluation)
    assert open_sweeps(store, misled, plan.environment) == (plan, plan)


def forged_siblings(plan: SweepPlanned) -> SweepPlanned:
    """A plan that adds a spec to an honest sweep."""
    added = plan.specs[0].model_copy(update={"spec_id": f"{plan.sweep}__theirs"})
    return plan.model_copy(update={"specs": (added,)})


def test_specs_that_were_added_to_an_honest_sweep_are_dropped_once_they_are_disowned(empty_house: House) -> None:
    store, plan = empty_house.store, sample("SweepPlanned")
    assert isinstance(plan, SweepPlanned)
    first_facts(empty_house)
    store.append([Append(f"sweep/{plan.sweep}", (plan,), "test")])
    backlog, theirs = Backlog(empty_house, plan.environment), forged_siblings(plan)
    honest = backlog.pending_tickets()
    store.append([Append("prices", (theirs,), "api:theirs")])
    assert backlog.pending_tickets() == honest
    store.append([Append(f"sweep/{plan.sweep}", (theirs,), "api:theirs")])
    assert backlog.pending_tickets() == (*honest, *tickets(theirs))
    policy = PolicyExecutor(Scripted([]))
    runner = SiteRunner(empty_house, cast("Any", None), plan.environment, Terms(), list[FlywheelError]().append, policy)
    (ticket,) = tickets(theirs)
    with pytest.raises(OtherExecutor):  # its plan is known by now
        runner.play(ticket, ticket.state)
    views = empty_house.views()
    disown(store, views, [event.position for event in forged_events(views)], "forged", "cli")
    assert backlog.pending_tickets() == honest
    assert runner.play(ticket, ticket.state) == {"status": "not planned"}
    runner.give_up(ticket)
    with pytest.raises(OtherExecutor):
        runner.play(honest[0], honest[0].state)
    elsewhere = JobTicket("unheard-of", "unheard-of__1")
    assert runner.play(elsewhere, elsewhere.state) == {"status": "not planned"}
    assert "RunMissing" not in store.counts()


def test_a_plan_that_is_disowned_just_before_it_is_learned_from_is_not(empty_house: House) -> None:
    sweep, given = ended(empty_house, "s1"), list[SweepPlanned]()
    empty_house.store.append([Append("sweep/s1", (sweep.model_copy(update={"rng_seed": 8}),), "api:theirs")])

    def may_learn() -> bool:
        views = empty_house.views()
        if found := forged_events(views):
            disown(empty_house.store, views, [event.position for event in found], "forged", "cli")
        return True

    backlog = Backlog(empty_house, sweep.environment, learn=given.append, may_learn=may_learn)
    queue = RolloutQueue(empty_house.engine, sweep.environment)
    backlog.refill(queue)
    assert given == [sweep]


def test_nothing_is_learned_without_runs_that_a_forged_event_withdrew(empty_house: House) -> None:
    first_facts(empty_house)
    sweep, told = ended(empty_house, "s1"), list[Notice]()
    empty_house.store.append([Append("withdrawals", (sample("RunsWithdrawn", runs=["s1__good1"]),), "api:theirs")])
    learner = Learner(empty_house, PairedRule(), told.append)
    head = empty_house.store.head()
    for _ in range(2):
        learner.learn(sweep)
    assert ([notice.kind for notice in told], empty_house.store.head()) == (["forged"], head)
    views = empty_house.views()
    disown(empty_house.store, views, [event.position for event in forged_events(views)], "forged", "cli")
    learner.learn(sweep)
    assert [state.proposed_by for state in empty_house.views().find(EXEMPLARS).values()] == ["s1__good1"]
    assert sweeps_on(empty_house.views(), sweep.environment).open == ()
