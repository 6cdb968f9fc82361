"""What dealers' boats have beside the others: papers, gated numbers, watches; the draw; and how each is graded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lxml import html
from starlette.testclient import TestClient

from agents.envs.contract import TaskText
from agents.envs.sites.instances import Instances
from agents.envs.sites.marketplace.app import page_app
from agents.envs.sites.marketplace.catalog import Boat
from agents.envs.sites.marketplace.drift import CANONICAL, SEALED, TRAINING, drift_family
from agents.envs.sites.marketplace.further_tasks import (
    CONTACT_ID,
    CONTACT_WANTED,
    DRAW_ID,
    EMAIL,
    FURTHER_TASKS,
    SPEC_ID,
    SPEC_WANTED,
    WATCH_ID,
    WATCH_WANTED,
    right_boat,
)
from agents.envs.sites.marketplace.instance import Harbour, is_gated
from agents.envs.sites.marketplace.papers import RATIO, RATIO_PAPER, entry_key, has_papers, papers_of
from agents.envs.sites.marketplace.tasks import LEAD_ID, PHONE_ID
from benchmarks.shipped import PLANS

SEED = 11
CANONICAL_SEED = next(seed for seed in range(9) if drift_family(seed) is CANONICAL)


@pytest.fixture
def harbour() -> Harbour:
    return Harbour(SEED)


@pytest.fixture
def instances() -> Instances[Harbour]:
    return Instances(Harbour)


@pytest.fixture
def web(instances: Instances[Harbour]) -> Iterator[TestClient]:
    with TestClient(page_app(instances)) as client:
        yield client


def opened(instances: Instances[Harbour], seed: int = SEED, repeat: int = 0) -> tuple[str, Harbour]:
    instance = instances.mint(seed, repeat)
    harbour = instances.find(instance)
    assert harbour is not None
    return f"/i/{instance}", harbour


def scored(harbour: Harbour, task: str) -> tuple[bool, int]:
    grade = harbour.grade(task)
    assert grade.passed == (grade.score_e4 == 10_000)
    assert bool(grade.reasons) != grade.passed
    return grade.passed, grade.score_e4


def save(harbour: Harbour, boat: Boat, paper: str, entry: str) -> None:
    page = papers_of(harbour.seed, boat).by_key[paper]
    found = page.entry(entry)
    assert found is not None
    harbour.save_entry(boat, page, found)


def test_doing_nothing_scores_nothing(harbour: Harbour) -> None:
    assert [scored(harbour, task.task_id) for task in FURTHER_TASKS] == [(False, 0)] * 4


def test_the_entry_must_be_the_one_of_the_right_boats_right_paper(harbour: Harbour) -> None:
    right = right_boat(harbour.catalogue, SPEC_WANTED)
    other = next(boat for boat in harbour.catalogue.boats if has_papers(boat) and boat is not right)
    save(harbour, right, "engine-log", "gear-ratio-as-advertised")
    save(harbour, other, RATIO_PAPER, entry_key(RATIO))
    assert scored(harbour, SPEC_ID) == (False, 0)
    save(harbour, right, RATIO_PAPER, entry_key(RATIO))
    assert scored(harbour, SPEC_ID) == (False, 5_000)
    clean = Harbour(SEED)
    save(clean, right, RATIO_PAPER, entry_key(RATIO))
    assert scored(clean, SPEC_ID) == (True, 10_000)


def test_a_gated_number_is_not_shown_before_a_contact_request_and_nothing_is_recorded(harbour: Harbour) -> None:
    right = right_boat(harbour.catalogue, CONTACT_WANTED)
    harbour.reveal_phone(right)
    assert (harbour.is_revealed(right), len(harbour.mutations)) == (False, 0)
    harbour.start_contact(right)
    harbour.start_contact(right)
    assert scored(harbour, CONTACT_ID) == (False, 0)
    harbour.reveal_phone(right)
    assert scored(harbour, CONTACT_ID) == (True, 10_000)
    assert [each.operation for each in harbour.mutations] == ["contact_started", "phone_revealed"]


def test_a_contact_request_for_another_boat_counts_against_it(harbour: Harbour) -> None:
    right = right_boat(harbour.catalogue, CONTACT_WANTED)
    other = next(boat for boat in harbour.catalogue.boats if is_gated(boat) and boat is not right)
    for boat in (other, right):
        harbour.start_contact(boat)
    harbour.reveal_phone(right)
    assert scored(harbour, CONTACT_ID) == (False, 6_667)


def test_only_some_dealers_boats_are_gated_and_no_private_owners(harbour: Harbour) -> None:
    gated = [boat for boat in harbour.catalogue.boats if is_gated(boat)]
    assert {(boat.make, boat.seller) for boat in gated} == {("Grady-White", "dealer")}
    free = next(boat for boat in harbour.catalogue.boats if not is_gated(boat))
    harbour.reveal_phone(free)
    assert harbour.is_revealed(free)


def test_a_watch_must_be_of_the_right_boat_and_for_the_right_address(harbour: Harbour) -> None:
    right = right_boat(harbour.catalogue, WATCH_WANTED)
    harbour.watch(right, "somebody@example.com")
    assert scored(harbour, WATCH_ID) == (False, 0)
    clean = Harbour(SEED)
    clean.watch(right, EMAIL)
    assert scored(clean, WATCH_ID) == (True, 10_000)
    clean.watch(right, EMAIL)
    assert scored(clean, WATCH_ID) == (False, 6_667)


def test_an_entry_is_drawn_or_not_whatever_is_done_and_once() -> None:
    won = next(repeat for repeat in range(50) if drawn(Harbour(SEED, repeat)))
    lost = next(repeat for repeat in range(50) if not drawn(Harbour(SEED, repeat)))
    for repeat, is_drawn in ((won, True), (lost, False)):
        harbour = Harbour(SEED, repeat)
        harbour.enter_draw(EMAIL)
        harbour.enter_draw(EMAIL)
        assert (harbour.is_drawn, len(harbour.mutations)) == (is_drawn, 1)
        assert scored(harbour, DRAW_ID) == (is_drawn, 10_000 * is_drawn)
    beside = Harbour(SEED, won)
    beside.enter_draw(EMAIL)
    beside.start_contact(right_boat(beside.catalogue, CONTACT_WANTED))
    assert scored(beside, DRAW_ID) == (False, 0)
    stranger = Harbour(SEED, won)
    stranger.enter_draw("somebody@example.com")
    assert scored(stranger, DRAW_ID) == (False, 0)


def drawn(harbour: Harbour) -> bool:
    harbour.enter_draw(EMAIL)
    return harbour.is_drawn is True


def test_what_is_new_counts_against_the_first_tasks(harbour: Harbour) -> None:
    harbour.enter_draw(EMAIL)
    assert [scored(harbour, task) for task in (LEAD_ID, PHONE_ID)] == [(False, 0), (False, 0)]
    assert "draw_entered 1: it was not asked for" in harbour.grade(LEAD_ID).reasons


def test_reasons_never_name_the_answer(harbour: Harbour) -> None:
    for boat in harbour.catalogue.boats[:30]:
        harbour.start_contact(boat)
        harbour.watch(boat, "a@b")
        if has_papers(boat):
            save(harbour, boat, "engine-log", "oil-change")
    for task, wanted in ((SPEC_ID, SPEC_WANTED), (CONTACT_ID, CONTACT_WANTED), (WATCH_ID, WATCH_WANTED)):
        right = right_boat(harbour.catalogue, wanted)
        said = " ".join(harbour.grade(task).reasons)
        assert said
        assert not any(fact in said for fact in (str(right.id), right.make, right.model, right.phone, right.slug))


def test_every_address_of_the_new_places_is_free_in_every_family() -> None:
    for family in (CANONICAL, *TRAINING, *SEALED):
        for path in ("/dealers", "/draw", "/papers/123", "/papers/123/survey", "/contact/123", "/watch/123/set"):
            assert family.locate(path) is None


def test_pages_of_a_dealers_boat_lead_to_papers_and_every_form_works(
    instances: Instances[Harbour], web: TestClient
) -> None:
    prefix, harbour = opened(instances)
    boat = right_boat(harbour.catalogue, CONTACT_WANTED)
    todo, seen = [prefix + harbour.family.path("detail", slug=boat.slug, number=boat.id)], set[str]()
    while todo and len(seen) < 15:
        address = todo.pop(0)
        seen.add(address)
        answer = web.get(address)
        assert answer.status_code == 200, address
        page = html.document_fromstring(answer.text)
        for place in (*page.xpath("//main//a/@href"), *page.xpath("//form/@action")):
            assert str(place).startswith(prefix)
        todo += [str(each) for each in page.xpath("//main//a/@href") if str(each) not in {*seen, *todo}]
    assert f"{prefix}/papers/{boat.id}/{RATIO_PAPER}" in seen
    saved = web.post(f"{prefix}/papers/{boat.id}/{RATIO_PAPER}/{entry_key(RATIO)}")
    assert "Gear ratio was saved." in saved.text
    assert "A contact request was started." in web.post(f"{prefix}/contact/{boat.id}").text
    assert "Your entry was" in web.post(f"{prefix}/draw", data={"reply_to": EMAIL}).text
    assert [each.operation for each in harbour.mutations] == ["entry_saved", "contact_started", "draw_entered"]


@pytest.mark.parametrize("task", FURTHER_TASKS, ids=lambda task: str(task.task_id))
def test_every_word_of_a_plan_is_in_the_instruction_or_on_a_page(
    task: TaskText, instances: Instances[Harbour], web: TestClient
) -> None:
    prefix, harbour = opened(instances, CANONICAL_SEED)
    wanted = {SPEC_ID: SPEC_WANTED, CONTACT_ID: CONTACT_WANTED}.get(task.task_id, WATCH_WANTED)
    boat = right_boat(harbour.catalogue, wanted)
    paths = (
        "/",
        "/boats",
        "/about",
        "/draw",
        f"/boats/{boat.slug}",
        f"/papers/{boat.id}",
        f"/papers/{boat.id}/waterline",
    )
    pages = [html.document_fromstring(web.get(prefix + path).text) for path in (*paths, *[f"/watch/{boat.id}"] * 2)]
    words = [" ".join(str(text).split()) for page in pages for text in page.xpath("//body//text()")]
    readable = "\n".join([task.instruction, *words]).casefold()
    for step in PLANS[task.task_id]:
        for literal in (step.label, step.value, step.url):
            assert literal in (None, "/") or literal.casefold() in readable, literal


def test_an_owners_boat_has_none_of_it(instances: Instances[Harbour], web: TestClient) -> None:
    prefix, harbour = opened(instances)
    boat = next(boat for boat in harbour.catalogue.boats if boat.seller == "owner")
    shown = web.get(prefix + harbour.family.path("detail", slug=boat.slug, number=boat.id)).text
    assert "From the dealer" not in shown
    for path in (f"papers/{boat.id}", f"watch/{boat.id}", f"papers/{boat.id}/survey"):
        assert web.get(f"{prefix}/{path}").status_code == 404
    assert web.post(f"{prefix}/contact/{boat.id}").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "papers/{id}/none", 404),
        ("POST", "papers/{id}/survey/none", 404),
        ("POST", "papers/{id}/survey/hull/x", 404),
        ("GET", "papers/{id}/survey/hull", 405),
        ("POST", "papers/{id}", 405),
        ("GET", "contact/{id}", 405),
        ("POST", "watch/{id}", 422),
        ("POST", "draw", 422),
        ("GET", "papers/999", 404),
        ("GET", "papers/\u0663", 404),
        ("POST", "dealers", 405),
    ],
)
def test_what_cannot_be_meant_changes_nothing(
    instances: Instances[Harbour], web: TestClient, method: str, path: str, status: int
) -> None:
    prefix, harbour = opened(instances)
    boat = right_boat(harbour.catalogue, CONTACT_WANTED)
    answer = web.request(method, f"{prefix}/{path.format(id=boat.id)}")
    assert answer.status_code == status
    assert not harbour.mutations


@pytest.mark.parametrize("email", ["", "nobody", "a b@c", "@", "x@" + "y" * 400, "a\x00@b"])
def test_an_address_that_is_none_is_refused_in_words(
    instances: Instances[Harbour], web: TestClient, email: str
) -> None:
    prefix, harbour = opened(instances)
    answer = web.post(f"{prefix}/draw", data={"reply_to": email})
    assert answer.status_code == 422
    assert html.document_fromstring(answer.text).xpath("//*[@role='alert']")
    assert web.post(f"{prefix}/draw", content=b"x" * 70_000).status_code == 422
    assert not harbour.mutations


def test_an_interruption_and_a_form_to_send_again_pass(instances: Instances[Harbour], web: TestClient) -> None:
    for repeat in range(60):
        prefix, harbour = opened(instances, repeat=repeat)
        boat = right_boat(harbour.catalogue, WATCH_WANTED)
        path = f"{prefix}/watch/{boat.id}"
        first = web.get(path).text
        is_interrupted = "One moment" in first
        assert ("Watch this boat" in first) != is_interrupted
        assert "Watch this boat" in web.get(path).text
        sent = web.post(path, data={"reply_to": EMAIL})
        if is_interrupted and not harbour.mutations:
            assert "send it again" in sent.text
            assert "You watch the price" in web.post(path, data={"reply_to": EMAIL}).text
            assert scored(harbour, WATCH_ID) == (True, 10_000)
            return
    pytest.fail("no instance has both troubles")
