"""The right answers of both sites vary with the seed, no fixed one is right for many, and each failure has its cure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from agents.envs.sites.helpdesk.drift import SEALED as DESK_SEALED
from agents.envs.sites.helpdesk.drift import TRAINING as DESK_TRAINING
from agents.envs.sites.helpdesk.drift import family_of as desk_family
from agents.envs.sites.helpdesk.mailbox import Ticket, mailbox
from agents.envs.sites.helpdesk.tasks import to_answer, to_merge, to_triage
from agents.envs.sites.marketplace.catalog import Boat, catalogue
from agents.envs.sites.marketplace.further_tasks import CONTACT_WANTED, SPEC_WANTED, WATCH_WANTED, right_boat
from agents.envs.sites.marketplace.papers import RATIO, RATIO_PAPER, key_of, papers_of
from agents.plans import Plan, changed
from agents.rollouts.tasks import PLANS
from benchmarks.base_rates import Room, room_of
from eventlog.events import FollowLink, Step

SEEDS = (*range(150), *range(10_000, 10_150))
MOST = 0.02
"""The largest share of seeds that one fixed answer may be right for."""
MOST_BY_PLACE = 0.1
"""The same for an answer that is a place in the list that nobody filtered."""


WANTED = {"engine_spec": SPEC_WANTED, "phone_after_contact": CONTACT_WANTED, "price_watch": WATCH_WANTED}


def boat_of(seed: int, task: str) -> Boat:
    return right_boat(catalogue(seed), WANTED[task])


def ticket_of(seed: int, task: str) -> Ticket:
    return to_answer(mailbox(seed)) if task == "macro_reply" else to_merge(mailbox(seed))[0]


def largest_share(answers: list[object]) -> float:
    return max(Counter(answers).values()) / len(answers)


@pytest.mark.parametrize("task", ["engine_spec", "phone_after_contact", "price_watch"])
def test_no_boat_and_no_place_in_the_list_is_right_for_more_than_a_few_seeds(task: str) -> None:
    right = [(catalogue(seed), boat_of(seed, task)) for seed in SEEDS]
    assert largest_share([boat.id for _, boat in right]) <= MOST
    assert largest_share([boat.title for _, boat in right]) <= MOST_BY_PLACE
    assert largest_share([boat.price for _, boat in right]) <= MOST_BY_PLACE
    assert largest_share([stock.boats.index(boat) for stock, boat in right]) <= MOST


def test_the_gear_ratio_varies_and_is_never_the_one_that_is_advertised() -> None:
    ratios: list[object] = []
    for seed in SEEDS:
        papers = papers_of(seed, boat_of(seed, "engine_spec")).by_key
        found = papers[RATIO_PAPER].entry(key_of(RATIO))
        advertised = papers["engine-log"].entry("gear-ratio-as-advertised")
        assert found is not None
        assert advertised is not None
        assert found.value != advertised.value
        ratios.append(found.value)
    assert len(set(ratios)) == 10
    assert largest_share(ratios) < 0.2


@pytest.mark.parametrize("task", ["macro_reply", "merge_duplicates"])
def test_no_ticket_and_no_place_in_the_inbox_is_right_for_more_than_a_few_seeds(task: str) -> None:
    right = [(mailbox(seed), ticket_of(seed, task)) for seed in SEEDS]
    assert largest_share([ticket.number for _, ticket in right]) <= MOST
    assert largest_share([box.customers[ticket.customer].name for box, ticket in right]) <= MOST_BY_PLACE
    assert largest_share([box.tickets.index(ticket) for box, ticket in right]) <= MOST_BY_PLACE


def test_no_set_of_tickets_is_right_twice() -> None:
    for chosen in (to_triage, lambda box: to_merge(box)[1]):
        answers: list[object] = [tuple(ticket.number for ticket in chosen(mailbox(seed))) for seed in SEEDS]
        assert len(set(answers)) == len(SEEDS)
        places: list[object] = [
            tuple(mailbox(seed).tickets.index(ticket) for ticket in chosen(mailbox(seed))) for seed in SEEDS
        ]
        assert largest_share(places) <= MOST
        assert len({len(chosen(mailbox(seed))) for seed in SEEDS}) > 2


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
    return lambda plan: (*changed(plan[0], FollowLink(page="/", label=label)), *plan[1:])


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
