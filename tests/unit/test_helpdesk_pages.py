"""Lanternpost's pages: links and forms that stay inside, refusals in words, and plans that hold only what is shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lxml import html
from starlette.testclient import TestClient

from agents.envs.sites.helpdesk.app import page_app
from agents.envs.sites.helpdesk.drift import CANONICAL, SEALED, TRAINING, Family, Place, drift_family
from agents.envs.sites.helpdesk.instance import Desk
from agents.envs.sites.helpdesk.search import read_query
from agents.envs.sites.helpdesk.tasks import TASKS, to_answer, to_merge, to_triage
from agents.envs.sites.instances import Instances
from benchmarks.shipped import PLANS

ALL = (CANONICAL, *TRAINING, *SEALED)
SEEDS = tuple({drift_family(seed).name: seed for seed in (*range(40), *range(10_000, 10_040))}.values())
CANONICAL_SEED = next(seed for seed in range(9) if drift_family(seed) is CANONICAL)
PLACES: tuple[Place, ...] = ("inbox", "assign", "ticket", "reply", "merge")
INSTRUCTIONS = {task.task_id: task.instruction for task in TASKS}


@pytest.fixture
def instances() -> Instances[Desk]:
    return Instances(Desk)


@pytest.fixture
def web(instances: Instances[Desk]) -> Iterator[TestClient]:
    with TestClient(page_app(instances)) as client:
        yield client


def opened(instances: Instances[Desk], seed: int = CANONICAL_SEED, repeat: int = 0) -> tuple[str, Desk]:
    instance = instances.mint(seed, repeat)
    desk = instances.find(instance)
    assert desk is not None
    return f"/i/{instance}", desk


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
def test_every_address_is_found_again_and_only_in_its_own_family(family: Family) -> None:
    for place in PLACES:
        path = family.path(place, 4711)
        assert family.locate(path) == (place, 0 if "4711" not in path else 4711)
        assert family.locate(path.rstrip("/") + "/") == family.locate(path)
        assert [other.name for other in ALL if other is not family and other.locate(path)] == []
    for path in ("/macros", "/rules", "/callbacks", "/"):
        assert family.locate(path) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_every_page_has_its_links_inside_the_instance_and_none_is_dead(
    seed: int, instances: Instances[Desk], web: TestClient
) -> None:
    prefix, desk = opened(instances, seed)
    todo, seen = [f"{prefix}/"], set[str]()
    while todo and len(seen) < 15:
        address = todo.pop(0)
        if address in seen:
            continue
        seen.add(address)
        answer = web.get(address)
        assert answer.status_code == 200, address
        page = html.document_fromstring(answer.text)
        labelled = {str(target) for target in page.xpath("//label/@for")}
        fields = {str(name) for name in page.xpath("//*[self::input or self::select or self::textarea]/@id")}
        assert labelled == fields
        assert len(page.xpath("//@id")) == len(set(page.xpath("//@id")))
        assert len(page.xpath("//footer")) == len(page.xpath("//h1")) == 1
        for place in (*page.xpath("//a/@href"), *page.xpath("//form/@action")):
            assert str(place).startswith(prefix), place
        todo += [str(place) for place in page.xpath("//a/@href")]
    assert not desk.mutations
    if drift_family(seed) is not CANONICAL:
        assert web.get(f"{prefix}/inbox").status_code == 404


@pytest.fixture(scope="module")
def visible() -> str:
    """The words that an agent can read in one instance, captions and options included."""
    instances = Instances(Desk)
    prefix, desk = opened(instances)
    ticket = to_merge(desk.mailbox)[0]
    paths = ("/", "/inbox", "/callbacks", f"/inbox/{ticket.number}", f"/inbox/{ticket.number}?by=all")
    with TestClient(page_app(instances)) as web:
        pages = [html.document_fromstring(web.get(prefix + path).text) for path in paths]
    return "\n".join(" ".join(str(text).split()) for page in pages for text in page.xpath("//body//text()")).casefold()


@pytest.mark.parametrize("task_id", sorted(INSTRUCTIONS))
def test_every_word_of_a_plan_is_in_the_instruction_or_on_a_page(task_id: str, visible: str) -> None:
    readable = INSTRUCTIONS[task_id].casefold() + "\n" + visible
    for step in PLANS[task_id]:
        for literal in (step.label, step.value, step.url):
            assert literal in (None, "/") or literal.casefold() in readable, literal


def test_filters_order_words_and_pages(instances: Instances[Desk], web: TestClient) -> None:
    prefix, desk = opened(instances)
    page = html.document_fromstring(web.get(f"{prefix}/inbox", params={"tp": "t1", "pl": "p1", "st": "s1"}).text)
    shown = {int(str(value)) for value in page.xpath("//input[@name='k']/@value")}
    assert shown == {ticket.number for ticket in to_triage(desk.mailbox)}
    assert page.xpath("//option[@selected]/text()")[:3] == ["Billing", "Business", "New"]
    seen: list[str] = []
    address = f"{prefix}/inbox?o=early"
    while True:
        page = html.document_fromstring(web.get(address).text)
        seen += [str(value) for value in page.xpath("//input[@name='k']/@value")]
        onward = page.xpath("//a[text()='Next']/@href")
        if not onward:
            break
        address = str(onward[0])
    assert seen == [str(ticket.number) for ticket in desk.tickets]
    who = desk.customer(desk.tickets[0]).name
    found = html.document_fromstring(web.get(f"{prefix}/inbox", params={"w": who.upper()}).text)
    assert str(desk.tickets[0].number) in found.xpath("//input[@name='k']/@value")
    assert "No ticket looks like that." in web.get(f"{prefix}/inbox", params={"w": "zzz"}).text


@pytest.mark.parametrize(
    "fields", [{"tp": "t9"}, {"pl": "x"}, {"st": "New"}, {"pg": "x"}, {"pg": "²"}, {"pg": "1" * 30}]
)
def test_a_search_that_cannot_be_read_is_named(fields: dict[str, str]) -> None:
    assert len(read_query(fields).errors) == 1


def test_what_is_checked_is_assigned_and_nothing_else(instances: Instances[Desk], web: TestClient) -> None:
    prefix, desk = opened(instances)
    first, second, *_ = (ticket.number for ticket in to_triage(desk.mailbox))
    answer = web.post(f"{prefix}/inbox/assign", data={"k": [str(first), str(second)], "tm": "m4", "pr": "r3"})
    assert (answer.status_code, "Assigned: 2." in answer.text) == (200, True)
    assert [(each.target_id, each.payload) for each in desk.mutations] == [
        (str(number), {"team": "Payments", "priority": "High"}) for number in (first, second)
    ]


def test_a_reply_is_checked_without_being_sent_and_then_sent(instances: Instances[Desk], web: TestClient) -> None:
    seed = next(seed for seed in range(40) if "card" in to_answer(Desk(seed).mailbox).body)
    prefix, desk = opened(instances, seed)
    ticket = to_answer(desk.mailbox)
    path = prefix + desk.family.path("reply", ticket.number)
    said = {"mac": "late", "vis": "public", "quo": "y", "sta": "Pending", "do": "check"}
    page = html.document_fromstring(web.post(path, data=said).text)
    assert page.xpath("//*[@role='alert']/text()") == ["This reply holds a card number. It was not sent."]
    assert page.xpath("//option[@selected]/text()")[:4] == ["Order is late", "Public reply", "Yes", "Pending"]
    assert not desk.mutations
    assert "No personal data was found." in web.post(path, data={**said, "quo": "n"}).text
    answer = web.post(path, data={**said, "quo": "n", "do": "send"})
    assert (answer.status_code, "is late. It will be with you" in answer.text) == (200, True)
    assert "Pending" in answer.text
    assert desk.grade("helpdesk.macro_reply").passed


def test_a_message_is_escaped_and_shown_again(instances: Instances[Desk], web: TestClient) -> None:
    prefix, desk = opened(instances)
    path = f"{prefix}/inbox/{desk.tickets[0].number}/reply"
    said = {"mac": "none", "msg": "</textarea><script>&\"'"}
    answer = web.post(path, data=said)
    page = html.document_fromstring(answer.text)
    assert answer.status_code == 422
    assert str(page.xpath("//textarea")[0].text).strip() == said["msg"]
    assert not page.xpath("//script")


def test_similar_tickets_may_be_slow_once_and_a_merge_may_have_to_be_sent_again(
    instances: Instances[Desk], web: TestClient
) -> None:
    for repeat in range(80):
        prefix, desk = opened(instances, repeat=repeat)
        stays, goes = to_merge(desk.mailbox)
        path = f"{prefix}/inbox/{stays.number}"
        is_slow = "still being looked up" in web.get(path, params={"by": "same"}).text
        page = html.document_fromstring(web.get(path, params={"by": "same"}).text)
        picks = [str(value) for value in page.xpath("//input[@name='k']/@value")]
        assert picks == [str(ticket.number) for ticket in goes]
        answer = web.post(f"{path}/merge", data={"k": picks})
        if is_slow and not desk.mutations:
            assert "send it again" in answer.text
            web.post(f"{path}/merge", data={"k": picks})
            assert desk.grade("helpdesk.merge_duplicates").passed
            return
    pytest.fail("no instance has both troubles")


@pytest.mark.parametrize(
    ("method", "path", "data", "status"),
    [
        ("POST", "inbox", {}, 405),
        ("GET", "inbox/assign", {}, 405),
        ("POST", "inbox/assign", {"k": "1", "tm": "m1"}, 422),
        ("POST", "inbox/assign", {"k": "{id}"}, 422),
        ("POST", "inbox/assign", {"tm": "m1"}, 422),
        ("POST", "inbox/assign", {"k": "{id}", "tm": "m1", "pr": "r9"}, 422),
        ("POST", "inbox/assign", {"k": "9" * 5_000, "tm": "m1"}, 422),
        ("GET", "inbox/1", {}, 404),
        ("POST", "inbox/{id}", {}, 405),
        ("POST", "inbox/{id}/reply", {}, 422),
        ("GET", "inbox/{id}/reply", {}, 405),
        ("POST", "inbox/{id}/merge", {}, 422),
        ("POST", "inbox/{id}/merge", {"k": "{id}"}, 422),
        ("POST", "inbox/{id}/merge", {"k": "x"}, 422),
        ("POST", "inbox/{id}/merge", {"k": "1" * 70_000}, 413),
        ("POST", "callbacks", {"slo": "never"}, 422),
        ("POST", "callbacks", {"slo": "c" * 70_000}, 413),
        ("POST", "rules", {}, 405),
        ("GET", "nowhere", {}, 404),
    ],
)
def test_what_cannot_be_meant_changes_nothing(
    instances: Instances[Desk], web: TestClient, method: str, path: str, data: dict[str, str], status: int
) -> None:
    prefix, desk = opened(instances)
    number = str(desk.tickets[0].number)
    sent = {name: value.replace("{id}", number) for name, value in data.items()}
    answer = web.request(method, f"{prefix}/{path.replace('{id}', number)}", data=sent or None)
    assert answer.status_code == status
    assert not desk.mutations
    assert "http-equiv" not in answer.text
