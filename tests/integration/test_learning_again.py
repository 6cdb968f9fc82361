"""Learning over a real database: what runs show is a candidate once, whatever became of it and whoever asks again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from agents.plans import Plan, plan_bytes
from agents.rewards import compute_reward
from agents.rollouts.sweep import SeedSweep
from api.course import Course
from api.errors import SweepExists
from api.history.memory_file import export_memory, import_memory
from api.history.withdraw import withdraw_runs
from api.house import House
from api.queries.sweeps import sweeps_on, whole_sweep
from api.sweeps.capture import capture_from
from api.sweeps.plan import first_facts, plan
from api.sweeps.play import make_up
from eventlog import appending
from eventlog.appending import Cursor
from eventlog.blobs import Blob
from eventlog.codec import EncodedAppend
from eventlog.events import (
    AnyEvent,
    Forgetting,
    InstanceReset,
    MemoryQuarantined,
    PairedRule,
    PieceTried,
    SeedsRule,
    Spec,
    Step,
    SweepPlanned,
    Usage,
)
from eventlog.postgres import PostgresStore
from eventlog.store import Append, Outcome
from projections.pieces import EXEMPLARS, PieceState
from tests.unit.test_agent_samples import BOOK, EMPTY, EVERY_GROUP, finished, propose, started, template

SITE = "marketplace"
OPEN = Step(type="navigate", intent="open the boats page", url="/boats")
ASK = Step(type="submit", intent="start a contact", label="Start a contact request")
PHONE = Step(type="submit", intent="show its phone number", label="Show phone number")
PLANS: dict[str, Plan] = {"bad": (OPEN, PHONE), "good": (OPEN, ASK, PHONE)}
COURSE = Course(rule=SeedsRule())


def append(house: House, stream: str, *events: AnyEvent) -> None:
    house.store.append([Append(stream, events, "test")])


def ended(house: House, name: str, *, goods: int = 1) -> SweepPlanned:
    """A learning sweep whose runs have ended: those of one template failed, those of the other passed."""
    names = ["bad", *["good"] * goods]
    specs = tuple(
        Spec(
            spec_id=f"{name}__{each}{number}",
            template=each,
            env_seed=number,
            group_id=f"{name}__{each}__seed{number}",
            sibling_index=0,
            sweep=name,
        )
        for number, each in enumerate(names)
    )
    sweep = SweepPlanned(
        sweep=name,
        environment=SITE,
        templates=tuple(template(each, plan) for each, plan in PLANS.items()),
        specs=specs,
        artifact=EMPTY,
        rng_seed=7,
        learns=True,
    )
    append(house, f"sweep/{name}", sweep)
    for spec in specs:
        play(house, spec, passed=spec.template == "good")
    return sweep


def play(house: House, spec: Spec, *, passed: bool) -> None:
    plan = Blob("application/json", plan_bytes(PLANS[spec.template]))
    house.blobs.put([plan])
    usage = Usage(actions=1, wall_microseconds=1, input_tokens=0, output_tokens=0)
    reward = compute_reward(
        spec.spec_id, spec.group_id, 1_000_000 * passed, (), usage, BOOK, passed=passed, conduct=None
    )
    start = started(spec).model_copy(update={"plan": plan.digest})
    append(house, f"run/{spec.spec_id}", start, finished(spec), reward)


def captured(house: House, sweep: SweepPlanned) -> dict[str, PieceState]:
    capture_from(house, sweep, COURSE.rule, COURSE.kinds)
    return house.views().find(EXEMPLARS)


def retire(house: House, piece: str) -> None:
    """Trials after which it is no candidate any more: won and used, then lost."""
    for number, won in enumerate([True, True, True, False, False]):
        event = PieceTried(
            piece=piece,
            kind="exemplar",
            run=f"t-{number}",
            control_runs=(),
            control_successes=0,
            won=won,
            withheld=False,
        )
        append(house, f"exemplar/{piece}", event)


def test_a_sweep_is_captured_once_also_where_what_it_gave_was_given_up(empty_house: House) -> None:
    sweep = ended(empty_house, "s1")
    ((piece, state),) = captured(empty_house, sweep).items()
    assert (state.status, state.proposed_by) == ("candidate", "s1__good1")
    head = empty_house.store.head()
    captured(empty_house, sweep)
    assert empty_house.store.head() == head
    retire(empty_house, piece)
    head = empty_house.store.head()
    assert captured(empty_house, sweep)[piece].status == "demoted"
    assert empty_house.store.head() == head


def test_what_was_given_up_comes_back_by_a_sweep_planned_since_and_by_no_earlier_one(empty_house: House) -> None:
    first, earlier = ended(empty_house, "s1"), ended(empty_house, "s2")
    (piece,) = captured(empty_house, first)
    retire(empty_house, piece)
    assert captured(empty_house, earlier)[piece].status == "demoted"
    later = ended(empty_house, "s3")
    make_up(empty_house, [first, earlier, later], COURSE)
    assert empty_house.views().find(EXEMPLARS)[piece].status == "demoted"
    state = captured(empty_house, later)[piece]
    assert (state.status, state.proposed_by) == ("candidate", "s3__good1")


def test_what_a_withdrawn_run_showed_is_captured_again_from_a_later_sweep(empty_house: House) -> None:
    (piece,) = captured(empty_house, ended(empty_house, "s1"))
    withdraw_runs(empty_house.store, ["s1__good1"], "its data was bad", "test")
    assert empty_house.views().find(EXEMPLARS) == {}
    assert captured(empty_house, ended(empty_house, "s2"))[piece].proposed_by == "s2__good1"


def test_what_a_withdrawn_run_showed_can_be_brought_in_from_a_file(empty_house: House) -> None:
    (piece,) = captured(empty_house, ended(empty_house, "s1"))
    text = export_memory(empty_house, empty_house.views()).texts[0]
    withdraw_runs(empty_house.store, ["s1__good1"], "its data was bad", "test")
    assert import_memory(empty_house, text, SeedsRule(), "person").fresh == (piece,)
    assert empty_house.views().find(EXEMPLARS)[piece].source == "imported"
    head = empty_house.store.head()
    assert import_memory(empty_house, text, SeedsRule(), "person").fresh == ()
    assert empty_house.store.head() == head


def test_the_file_leaves_out_what_is_quarantined_and_what_a_contaminated_run_showed(empty_house: House) -> None:
    (piece,) = captured(empty_house, ended(empty_house, "s1"))
    seen = [export_memory(empty_house, empty_house.views())]
    start(empty_house, "s1__good1", "1" * 64)
    start(empty_house, "s1__good1b", "2" * 64, group="s1__good__seed1")
    seen.append(export_memory(empty_house, empty_house.views()))
    out = MemoryQuarantined(piece=piece, kind="exemplar", restored=0, reason="it broke")
    append(empty_house, "champion", out)
    seen.append(export_memory(empty_house, empty_house.views()))
    assert [each.pieces for each in seen] == [1, 0, 0]
    assert [each.poisoned for each in seen] == [(), (piece,), ()]
    assert [each.quarantined for each in seen] == [(), (), (piece,)]


def start(house: House, run: str, state: str, group: str = "s1__good__seed1") -> None:
    """A run that began from a state, as a further sibling where it is not one yet."""
    spec = Spec(spec_id=run, template="good", env_seed=1, group_id=group, sibling_index=1, sweep="s1")
    if run.endswith("b"):
        append(house, f"run/{run}", started(spec))
    append(house, f"run/{run}", InstanceReset(run=run, group=group, seed=1, fingerprint=state))


def test_a_sweep_and_what_was_chosen_for_its_groups_are_appended_together(empty_house: House) -> None:
    house = empty_house
    first_facts(house)
    propose(house.store, "rw-a", rule=PairedRule(controls=1))

    def planned() -> SweepPlanned:
        generator = SeedSweep("s1", (template(),), [1, 2], 2)
        return plan(house, house.views(), SITE, generator, rng_seed=7, trials=EVERY_GROUP, forgetting=Forgetting())

    planned()
    found = list(house.store.read(types=["SweepPlanned", "SubstrateChosen"]))
    assert [each.event.type for each in found] == ["SweepPlanned", "SubstrateChosen", "SubstrateChosen"]
    assert len({each.at for each in found}) == 1
    head = house.store.head()
    with pytest.raises(SweepExists):
        planned()
    assert house.store.head() == head


def test_of_two_that_plan_one_sweep_at_once_the_second_chooses_nothing(
    empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first appends at the moment at which the second does, and for other groups."""
    other, write = replace(empty_house, store=PostgresStore(empty_house.engine)), appending.by_call
    first_facts(other)
    propose(other.store, "rw-a", rule=PairedRule(controls=1))

    def planned(house: House, seeds: list[int]) -> SweepPlanned:
        generator = SeedSweep("s1", (template(),), seeds, 2)
        return plan(house, house.views(), SITE, generator, rng_seed=7, trials=EVERY_GROUP, forgetting=Forgetting())

    def overtaken(cursor: Cursor, requests: Sequence[EncodedAppend]) -> list[Outcome]:
        monkeypatch.setattr(appending, "by_call", write)
        planned(other, [1, 2])
        return write(cursor, requests)

    monkeypatch.setattr(appending, "by_call", overtaken)
    with pytest.raises(SweepExists):
        planned(empty_house, [3, 4, 5])
    found = list(other.store.read(types=["SweepPlanned", "SubstrateChosen"]))
    assert [each.event.type for each in found] == ["SweepPlanned", "SubstrateChosen", "SubstrateChosen"]


@pytest.mark.parametrize("learns", [True, False])
def test_a_sweep_whose_player_was_killed_before_it_captured_is_captured_later(
    empty_house: House, *, learns: bool
) -> None:
    first_facts(empty_house)
    sweep = ended(empty_house, "s1").model_copy(update={"learns": learns})
    unplayed = sweep.specs[0].model_copy(update={"spec_id": "s1__open"})
    make_up(empty_house, [sweep.model_copy(update={"specs": (*sweep.specs, unplayed)})], COURSE)
    assert empty_house.views().find(EXEMPLARS) == {}
    make_up(empty_house, [sweep], COURSE)
    assert len(empty_house.views().find(EXEMPLARS)) == learns
    head = empty_house.store.head()
    make_up(empty_house, [sweep], COURSE)
    assert empty_house.store.head() == head


def test_a_sweep_that_is_extended_while_its_end_is_written_stays_open_until_that_was_played(
    empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_facts(empty_house)
    sweep = ended(empty_house, "s1")
    added = sweep.specs[0].model_copy(update={"spec_id": "s1__bad9"})
    more = sweep.model_copy(update={"specs": (added,)})

    def whole_before_it_was_extended(plans: Iterable[SweepPlanned]) -> SweepPlanned | None:
        found = whole_sweep(plans)
        append(empty_house, "sweep/s1", more)
        return found

    with monkeypatch.context() as patched:
        patched.setattr("api.sweeps.play.whole_sweep", whole_before_it_was_extended)
        make_up(empty_house, [sweep], COURSE)
    assert sweeps_on(empty_house.views(), SITE).open == ("s1",)
    play(empty_house, added, passed=True)
    make_up(empty_house, [more], COURSE)
    assert sweeps_on(empty_house.views(), SITE).open == ()
