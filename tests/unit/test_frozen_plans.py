"""The plans we ship hold what a person can read, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from lxml import html
from starlette.testclient import TestClient

from agents.envs.clients.session import Session
from agents.envs.provider import known_sites
from agents.envs.sites.instances import Instances
from agents.envs.sites.marketplace.app import page_app
from agents.envs.sites.marketplace.drift import CANONICAL, drift_family
from agents.envs.sites.marketplace.instance import Harbour
from agents.envs.sites.marketplace.tasks import TASKS
from agents.executors.plan import execute
from benchmarks.shipped import PLANS, templates

UNDRIFTED = next(seed for seed in range(9) if drift_family(seed) is CANONICAL)
INSTRUCTIONS = {task.task_id: task.instruction for task in TASKS}
SEALED_SEED = next(seed for seed in range(10_000, 10_009) if drift_family(seed) is not CANONICAL)
ROUNDS = 20


@pytest.fixture(scope="module")
def instances() -> Instances[Harbour]:
    return Instances(Harbour)


@pytest.fixture(scope="module")
def web(instances: Instances[Harbour]) -> Iterator[TestClient]:
    with TestClient(page_app(instances)) as client:
        yield client


@pytest.fixture(scope="module")
def visible(instances: Instances[Harbour], web: TestClient) -> str:
    """The words of pages that links reach in an instance that did not drift, captions and options included."""
    start = f"/i/{instances.mint(UNDRIFTED)}/"
    todo, seen, words = [start], set[str](), []
    while todo and len(seen) < 40:
        address = todo.pop(0)
        if address not in seen:
            seen.add(address)
            document = html.document_fromstring(web.get(address).text)
            words += [" ".join(str(text).split()) for text in document.xpath("//body//text()")]
            todo += [str(href) for href in document.xpath("//a/@href")]
    return "\n".join(words).casefold()


@pytest.mark.parametrize("task_id", sorted(INSTRUCTIONS))
def test_every_word_of_a_plan_is_in_the_instruction_or_on_a_page(task_id: str, visible: str) -> None:
    readable = INSTRUCTIONS[task_id].casefold() + "\n" + visible
    for step in PLANS[task_id]:
        for literal in (step.label, step.value, step.url):
            assert literal is None or literal.casefold() in readable, literal


@pytest.mark.parametrize("task_id", sorted(INSTRUCTIONS))
def test_the_only_address_of_a_plan_is_the_one_in_the_instruction(task_id: str) -> None:
    addresses = [step.url for step in PLANS[task_id] if step.url is not None]
    assert addresses == ["/boats"]
    assert "/boats" in INSTRUCTIONS[task_id]


@pytest.mark.parametrize("task_id", sorted(INSTRUCTIONS))
@pytest.mark.parametrize(
    "seed", [UNDRIFTED, *[seed for seed in range(8) if drift_family(seed) is not CANONICAL][:2], SEALED_SEED]
)
def test_a_plan_passes_where_nothing_drifted_and_stops_at_its_address_where_it_did(
    task_id: str, seed: int, instances: Instances[Harbour], web: TestClient
) -> None:
    instance = instances.mint(seed)

    def relay(request: httpx2.Request) -> httpx2.Response:
        content = request.read()
        kind = {"content-type": request.headers.get("content-type", "")}
        answer = web.request(request.method, str(request.url), content=content, headers=kind, follow_redirects=False)
        return httpx2.Response(answer.status_code, headers=dict(answer.headers), content=answer.content)

    with Session(f"http://testserver/i/{instance}/", transport=httpx2.MockTransport(relay)) as session:
        done = execute(PLANS[task_id], session, max_steps=40)
    harbour = instances.find(instance)
    assert harbour is not None
    is_sound = drift_family(seed) is CANONICAL
    assert harbour.grade(task_id).passed == is_sound
    assert [taken.outcome for taken in done.taken] == (["ok"] * len(PLANS[task_id]) if is_sound else ["not_found"])


def test_every_task_of_every_site_has_a_plan_in_its_cluster() -> None:
    tasks = [task for kind in known_sites().values() for task in kind.tasks]
    made = templates({task.task_id: task.instruction for task in tasks})
    assert [found.template_id for found in made] == sorted(task.task_id for task in tasks) == sorted(PLANS)
    assert {found.template_id: found.cluster for found in made} == {task.task_id: task.cluster for task in tasks}
    assert all(found.oracle_task_id == found.template_id and found.plan_steps for found in made)
