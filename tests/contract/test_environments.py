"""What a run needs of a site, asked of our own and of foreign ones in each of their dialects, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.clients.session import Session
from agents.envs.command import command_site
from agents.envs.environment import Environment
from agents.envs.errors import EnvironmentRefused, InstanceClosed, TaskNotGraded
from agents.envs.foreign.client import ForeignClient
from agents.envs.foreign.dialect import Dialect, Paths
from agents.envs.foreign.observe import observe
from agents.envs.provider import Site, known_sites
from tests.foreign_site import TASK, TOKEN, Speech
from tests.sites import SharedSite

SPEECHES = {
    "our own words": Speech(),
    "a seed call beside a reset that ignores its body": Speech(seeding="seed"),
    "no changes told": Speech(seeding="seed", mutations=False),
    "no changes told, by a page": Speech(seeding="seed", mutations=False, html_404=True),
    "op for operation": Speech(seeding="seed", operation="op"),
    "a reset of its own as the first change": Speech(own_row=True),
    "times by the wall": Speech(operation="op", at="ts"),
    "times of a frozen clock": Speech(at="occurred_at", own_row=True),
    "payloads in strings": Speech(seeding="seed", operation="op", payload="string", since="ignored"),
    "no ids, since by time": Speech(seeding="seed", operation="op", at="ts", ids=False, since="time"),
    "newest first": Speech(newest_first=True, own_row=True),
    "403 for a wrong token": Speech(refuses=403, own_row=True),
    "404 for an unknown task": Speech(unknown=404),
}
WRONG = "not the token"
OURS_AS_A_DIALECT = Dialect(one_instance=False, seeding="reset", paths=Paths(seed=None, close="/__env__/close"))


@dataclass(frozen=True)
class Place:
    """A site under test: the environment over it, one with a wrong token, one of its tasks, and if it was observed."""

    environment: Environment
    stranger: Environment
    task: str
    speech: Speech
    is_observed: bool = False


class Sites:
    """Sites that were started, each once, and all ended together."""

    def __init__(self, stack: ExitStack, ours: SharedSite) -> None:
        self.stack = stack
        self.ours = ours
        self.started: dict[str, Site] = {}

    def named(self, name: str) -> Site:
        if name not in SPEECHES:
            return self.ours(name)
        if name not in self.started:
            site = command_site("harbour", SPEECHES[name].command(), TOKEN)
            self.started[name] = self.stack.enter_context(site)
        return self.started[name]


def entered(name: str, how: str, site: Site, stack: ExitStack) -> Place:
    task = TASK if name in SPEECHES else known_sites()[name].tasks[0].task_id
    speech = SPEECHES.get(name, Speech())
    if how == "ours":
        one, other = EnvClient(site.admin_url, site.admin_token), EnvClient(site.admin_url, WRONG)
        return Place(stack.enter_context(one), stack.enter_context(other), task, speech)
    dialect = dialect_of(how, site)
    client, stranger = (
        ForeignClient(site.admin_url, site.admin_token, dialect),
        ForeignClient(site.admin_url, WRONG, dialect),
    )
    return Place(stack.enter_context(client), stack.enter_context(stranger), task, speech, how == "observed")


def dialect_of(how: str, site: Site) -> Dialect | None:
    match how:
        case "plain":
            return None
        case "as foreign":
            return OURS_AS_A_DIALECT
        case _:
            return observe(site.admin_url, TOKEN, may_seed=True)


PLACES = [
    *((name, how) for name in sorted(known_sites()) for how in ("ours", "as foreign")),
    *((name, how) for name in SPEECHES for how in ("plain", "observed")),
]
FOREIGN = [place for place in PLACES if place[0] in SPEECHES]


def shown(place: tuple[str, str]) -> str:
    return f"{place[0]}, {place[1]}"


ON_FOREIGN_SITES = pytest.mark.parametrize("place", FOREIGN, indirect=True, ids=shown)


@pytest.fixture(scope="module")
def sites(shared_site: SharedSite) -> Iterator[Sites]:
    with ExitStack() as stack:
        yield Sites(stack, shared_site)


@pytest.fixture(scope="module", params=PLACES, ids=shown)
def place(request: pytest.FixtureRequest, sites: Sites) -> Iterator[Place]:
    name, how = request.param
    with ExitStack() as stack:
        yield entered(name, how, sites.named(name), stack)


def test_equal_seeds_make_equal_states_and_others_make_others(place: Place) -> None:
    found = {}
    for name, seed in (("one", 5), ("other", 6), ("again", 5)):
        instance = place.environment.reset(seed)
        assert instance.seed == seed
        found[name] = place.environment.state(instance)
        place.environment.close(instance)
    assert found["one"] == found["again"]
    assert found["one"].seed == 5
    assert found["one"].fingerprint != found["other"].fingerprint
    assert found["one"].counts


def test_looking_changes_nothing(place: Place) -> None:
    instance = place.environment.reset(8)
    before = place.environment.state(instance)
    place.environment.health()
    graded = place.environment.oracle(instance, place.task)
    assert (graded.passed, graded.score_micro) == (False, 0)
    assert graded.reasons
    assert place.environment.mutations(instance) == ()
    assert place.environment.state(instance) == before


def test_resetting_an_instance_keeps_its_id_and_its_address(place: Place) -> None:
    instance = place.environment.reset(5)
    again = place.environment.reset(6, instance=instance)
    assert (again.instance, again.url, again.seed) == (instance.instance, instance.url, 6)


def test_an_instance_that_was_closed_is_neither_read_nor_graded(place: Place) -> None:
    instance = place.environment.reset(5)
    place.environment.close(instance)
    for read in (place.environment.state, place.environment.mutations, place.environment.close):
        with pytest.raises(InstanceClosed):
            read(instance)
    with pytest.raises(InstanceClosed):
        place.environment.oracle(instance, place.task)


def test_unknown_tasks_and_wrong_tokens_are_refused(place: Place) -> None:
    instance = place.environment.reset(5)
    with pytest.raises(TaskNotGraded, match="no_such_task"):
        place.environment.oracle(instance, "no_such_task")
    with pytest.raises(EnvironmentRefused):
        place.stranger.reset(5)


def right_and_wrong(place: Place, instance_url: str) -> tuple[list[str], str]:
    """The two cheapest boats, and another one, as the page shows them."""
    with Session(instance_url) as session:
        page = session.open("/boats")
    shown = {boat: int(price) for boat, price in re.findall(r"(\d+): (\d+)", page.text())}
    order = sorted(shown, key=lambda boat: (shown[boat], boat))
    return order[:2], order[2]


def press(url: str, boats: list[str]) -> None:
    with Session(url) as session:
        for boat in boats:
            session.submit(session.open("/boats"), f"Show the number of {boat}")


@ON_FOREIGN_SITES
def test_what_an_agent_does_is_told_in_the_contracts_words(place: Place) -> None:
    instance = place.environment.reset(9)
    start = place.environment.state(instance).fingerprint
    right, _ = right_and_wrong(place, instance.url)
    press(instance.url, right)
    told = place.environment.mutations(instance)
    if place.speech.mutations:
        assert [(each.operation, each.target_type, each.target_id) for each in told] == [
            ("phone_revealed", "boat", boat) for boat in right
        ]
        assert all(isinstance(each.payload["price"], int) for each in told)
        assert [each.target_id for each in place.environment.mutations(instance, told[0].id)] == right[1:]
        assert place.environment.mutations(instance, told[-1].id) == ()
    else:  # without a call for changes, an observed dialect reads them in the state
        assert [each.target_id for each in told] == (right if place.is_observed else [])
    assert place.environment.oracle(instance, TASK).passed
    assert place.environment.state(instance).fingerprint != start


@ON_FOREIGN_SITES
def test_a_score_of_four_fifths_that_did_not_pass_stays_both(place: Place) -> None:
    instance = place.environment.reset(11)
    right, wrong = right_and_wrong(place, instance.url)
    press(instance.url, [*right, wrong])
    graded = place.environment.oracle(instance, TASK)
    assert (graded.passed, graded.score_micro) == (False, 800_000)
    assert graded.reasons == ("2 of 2, and 1 beside them",)
    assert graded.diff["right"] == sorted(right)


@ON_FOREIGN_SITES
def test_equal_acts_leave_equal_states(place: Place) -> None:
    ends = []
    for _ in range(2):
        instance = place.environment.reset(12)
        press(instance.url, right_and_wrong(place, instance.url)[0])
        ends.append(place.environment.state(instance).fingerprint)
    assert ends[0] == ends[1]
