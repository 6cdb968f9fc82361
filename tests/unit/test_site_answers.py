"""The right answers of both sites vary with the seed, no fixed one is right for many, and each failure has its cure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from agents.envs.sites.helpdesk.drift import SEALED as DESK_SEALED
from agents.envs.sites.helpdesk.drift import TRAINING as DESK_TRAINING
from agents.envs.sites.helpdesk.drift import drift_family as desk_family
from agents.envs.sites.helpdesk.mailbox import Mailbox, Ticket, mailbox
from agents.envs.sites.helpdesk.tasks import to_answer, to_merge, to_triage
from agents.envs.sites.marketplace.catalog import Boat, catalogue
from agents.envs.sites.marketplace.further_tasks import CONTACT_WANTED, SPEC_WANTED, WATCH_WANTED, right_boat
from agents.envs.sites.marketplace.papers import RATIO, RATIO_PAPER, entry_key, papers_of
from agents.plans import Plan, apply_change
from benchmarks.base_rates import Room, room_of
from benchmarks.shipped import PLANS
from eventlog.events import FollowLink, Step

SEEDS = (*range(150), *range(10_000, 10_150))
MOST = 0.02
"""The largest share of seeds that one fixed answer may be right for."""
MOST_BY_PLACE = 0.1
"""The same for an answer that is a place in the list that nobody filtered."""


WANTED = {"engine_spec": SPEC_WANTED, "phone_after_contact": CONTACT_WANTED, "price_watch": WATCH_WANTED}


@dataclass(frozen=True)
class Right:
    """The right boat of one task at one seed."""

    boat: Boat
    place: int


@dataclass(frozen=True)
class Inbox:
    """What is right in the helpdesk at one seed: a ticket for each task of one, the tickets of the others, by place."""

    single: dict[str, tuple[int, str, int]]
    triage: tuple[tuple[int, ...], tuple[int, ...]]
    merge: tuple[tuple[int, ...], tuple[int, ...]]


@pytest.fixture(scope="module")
def boats() -> dict[str, list[Right]]:
    """The right boats of every task at all seeds, each catalogue made once."""
    found: dict[str, list[Right]] = {task: [] for task in WANTED}
    for seed in SEEDS:
        stock = catalogue(seed)
        for task, wanted in WANTED.items():
            boat = right_boat(stock, wanted)
            found[task].append(Right(boat, stock.boats.index(boat)))
    return found


@pytest.fixture(scope="module")
def inboxes() -> list[Inbox]:
    """What is right in the mailboxes of all seeds, each made once."""
    return [inbox(mailbox(seed)) for seed in SEEDS]


def inbox(box: Mailbox) -> Inbox:
    def of(tickets: Iterable[Ticket]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        chosen = tuple(tickets)
        return tuple(each.number for each in chosen), tuple(box.tickets.index(each) for each in chosen)

    keeps, merged = to_merge(box)
    single = {
        task: (ticket.number, box.customers[ticket.customer].name, box.tickets.index(ticket))
        for task, ticket in (("macro_reply", to_answer(box)), ("merge_duplicates", keeps))
    }
    return Inbox(single, of(to_triage(box)), of(merged))


def largest_share(answers: Sequence[object]) -> float:
    return max(Counter(answers).values()) / len(answers)


@pytest.mark.parametrize("task", ["engine_spec", "phone_after_contact", "price_watch"])
def test_no_boat_and_no_place_in_the_list_is_right_for_more_than_a_few_seeds(
    task: str, boats: dict[str, list[Right]]
) -> None:
    right = boats[task]
    assert len(right) == len(SEEDS)
    assert largest_share([each.boat.id for each in right]) <= MOST
    assert largest_share([each.boat.title for each in right]) <= MOST_BY_PLACE
    assert largest_share([each.boat.price for each in right]) <= MOST_BY_PLACE
    assert largest_share([each.place for each in right]) <= MOST


def test_the_gear_ratio_varies_and_is_never_the_one_that_is_advertised(boats: dict[str, list[Right]]) -> None:
    ratios: list[object] = []
    for seed, right in zip(SEEDS, boats["engine_spec"], strict=True):
        papers = papers_of(seed, right.boat).by_key
        found = papers[RATIO_PAPER].entry(entry_key(RATIO))
        advertised = papers["engine-log"].entry("gear-ratio-as-advertised")
        assert found is not None
        assert advertised is not None
        assert found.value != advertised.value
        ratios.append(found.value)
    assert len(set(ratios)) == 10
    assert largest_share(ratios) < 0.2


@pytest.mark.parametrize("task", ["macro_reply", "merge_duplicates"])
def test_no_ticket_and_no_place_in_the_inbox_is_right_for_more_than_a_few_seeds(
    task: str, inboxes: list[Inbox]
) -> None:
    numbers, names, places = zip(*(each.single[task] for each in inboxes), strict=True)
    assert len(numbers) == len(SEEDS)
    assert largest_share(numbers) <= MOST
    assert largest_share(names) <= MOST_BY_PLACE
    assert largest_share(places) <= MOST_BY_PLACE


def test_no_set_of_tickets_is_right_twice(inboxes: list[Inbox]) -> None:
    for chosen in ([each.triage for each in inboxes], [each.merge for each in inboxes]):
        answers, places = zip(*chosen, strict=True)
        assert len(set(answers)) == len(SEEDS)
        assert largest_share(places) <= MOST
        assert len({len(each) for each in answers}) > 2


# Cures ----------------------------------------------------------------------------------------------------------------


def before(label: str, *steps: Step) -> Callable[[Plan], Plan]:
    """Steps put before the step with a label."""

    def cured(plan: Plan) -> Plan:
        place = next(index for index, step in enumerate(plan) if step.label == label)
        return (*plan[:place], *steps, *plan[place:])

    return cured


def click(label: str) -> Step:
    return Step(type="click", intent="knows where", label=label)


def deeper(plan: Plan) -> Plan:
    place = next(index for index, step in enumerate(plan) if step.label == "Engine log")
    return (*plan[:place], click("Haul-out report"), click("Below the waterline"), *plan[place + 1 :])


def patient(plan: Plan) -> Plan:
    *_, fill, send = plan
    there_again = (click("Back to the boat"), click("Watch the price"))
    return (*plan[:-2], *there_again, fill, send, send)


def insistent(plan: Plan) -> Plan:
    *rest, find, merge = plan
    return (
        *rest,
        find,
        Step(type="select_option", intent="x", label="Sent by", value="Same customer"),
        find,
        merge,
        merge,
    )


def by_link(label: str) -> Callable[[Plan], Plan]:
    return lambda plan: (*apply_change(plan[0], FollowLink(page="/", label=label)), *plan[1:])


CURES: dict[str, Callable[[Plan], Plan]] = {
    "marketplace.lead_filtered_search": by_link("Boats for sale"),
    "marketplace.phone_reveal": by_link("Boats for sale"),
    "marketplace.engine_spec": deeper,
    "marketplace.phone_after_contact": before(
        "Show phone number", Step(type="submit", intent="knows the rule", label="Start a contact request")
    ),
    "marketplace.price_watch": patient,
    "helpdesk.triage_inbox": by_link("Inbox"),
    "helpdesk.macro_reply": before(
        "Send", Step(type="select_option", intent="knows the rule", label="Quote the message", value="No")
    ),
    "helpdesk.merge_duplicates": insistent,
}
CONTROLS = ("marketplace.control_draw", "helpdesk.control_callback")


@pytest.fixture(scope="module")
def rooms() -> Iterator[dict[str, Room]]:
    with room_of("marketplace") as marketplace, room_of("helpdesk") as helpdesk:
        yield {"marketplace": marketplace, "helpdesk": helpdesk}


def room(rooms: dict[str, Room], task: str) -> Room:
    return rooms[task.partition(".")[0]]


@pytest.mark.parametrize("task", sorted(CURES))
def test_each_failure_has_a_cure_that_passes_in_every_instance(task: str, rooms: dict[str, Room]) -> None:
    instances = [(seed, repeat) for seed in (*range(6), *range(10_000, 10_005)) for repeat in (0, 1)]
    plain = [room(rooms, task).play(task, PLANS[task], *instance).passed for instance in instances]
    cured = [room(rooms, task).play(task, CURES[task](PLANS[task]), *instance).passed for instance in instances]
    assert not all(plain)
    assert all(cured)


def test_every_task_but_the_controls_has_a_cure() -> None:
    assert {*CURES, *CONTROLS} == PLANS.keys()


@pytest.mark.parametrize("task", CONTROLS)
def test_no_plan_changes_who_wins_a_control(task: str, rooms: dict[str, Room]) -> None:
    opening, *rest = PLANS[task]
    plans: list[Plan] = [
        PLANS[task],
        (opening, opening, *rest),
        (*PLANS[task], *PLANS[task]),
        (opening, click("House rules" if task.startswith("helpdesk") else "Advice"), opening, *rest),
    ]
    won = [
        [room(rooms, task).play(task, plan, seed, repeat).passed for plan in plans]
        for seed in range(12)
        for repeat in range(2)
    ]
    assert all(len(set(outcomes)) == 1 for outcomes in won)
    assert {outcomes[0] for outcomes in won} == {True, False}


def test_the_families_of_the_desk_are_drawn_as_those_of_the_market() -> None:
    training = [desk_family(seed).name for seed in range(9_999)]
    sealed = [desk_family(seed).name for seed in range(10_000, 20_000)]
    assert training.count("canonical") == 3_333
    assert {*training} == {"canonical", *(family.name for family in DESK_TRAINING)}
    assert {*sealed} == {"canonical", *(family.name for family in DESK_SEALED)}
