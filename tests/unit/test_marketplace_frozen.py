"""What Harbourline's first two tasks show and how they grade stands for ever: every byte of some runs is pinned."""

from __future__ import annotations

import hashlib
import json

import httpx2
import pytest
from starlette.testclient import TestClient

from agents.envs.clients.session import Session
from agents.envs.sites.instances import Instances
from agents.envs.sites.marketplace.app import page_app
from agents.envs.sites.marketplace.instance import Harbour
from agents.executors.plan import execute
from agents.plans import apply_change
from benchmarks.shipped import PLANS
from eventlog.events import FollowLink

SEEDS = (*range(5), *range(10_000, 10_005))
LEAD = "marketplace.lead_filtered_search"
PHONE = "marketplace.phone_reveal"
PINNED = {
    "some starts": "3a87f322c1d19c15a02077994cf4581ce9e6d119fdd95de41affcbb21ee0f710",
    "all starts": "8c9913dfd48a87922112687386eab416aaa2bc9863adfc242a0a3e7c4bc8af2b",
    f"{LEAD} as written": "417dcf171c08d6c9acf18c5b0d91058798c72c09228e71ca477660eee3d070b6",
    f"{LEAD} by the link": "0261848c2d0833573b4191a2195f5e53548b5fe0289c21b0e073df17a19b4464",
    f"{PHONE} as written": "890f3b9e5d184d0dbffb330f2683629c994f272b1dd9af84d66878deb5ab3ef1",
    f"{PHONE} by the link": "829a09758bd7d429292b076fed824696ecbc0869218b371495d2942aa2659775",
}


def digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def played(task: str, seed: int, *, by_the_link: bool) -> object:
    """Everything that an agent and the platform see of one run of a plan."""
    instances = Instances(Harbour)
    instance = instances.mint(seed)
    opening, *rest = PLANS[task]
    plan = (*apply_change(opening, FollowLink(page="/", label="Boats for sale")), *rest) if by_the_link else PLANS[task]
    with TestClient(page_app(instances)) as web:

        def relay(request: httpx2.Request) -> httpx2.Response:
            kind = {"content-type": request.headers.get("content-type", "")}
            answer = web.request(
                request.method, str(request.url), content=request.read(), headers=kind, follow_redirects=False
            )
            return httpx2.Response(answer.status_code, headers=dict(answer.headers), content=answer.content)

        with Session(f"http://testserver/i/{instance}/", transport=httpx2.MockTransport(relay)) as session:
            done = execute(plan, session, max_steps=40)
    harbour = instances.find(instance)
    assert harbour is not None
    grade = harbour.grade(task)
    return [
        [[taken.outcome, taken.http_status, taken.text] for taken in done.taken],
        [mutation.model_dump(mode="json") for mutation in harbour.mutations],
        [grade.passed, grade.score_e4, list(grade.reasons), dict(grade.diff)],
        [harbour.fingerprint(), dict(harbour.counts())],
    ]


@pytest.mark.parametrize(
    ("starts", "seeds"),
    [
        ("some starts", (*range(50), *range(9_990, 10_040))),
        pytest.param("all starts", (*range(200), *range(9_990, 10_200)), marks=pytest.mark.endure),
    ],
    ids=["some", "all"],
)
def test_start_fingerprints_stand(starts: str, seeds: tuple[int, ...]) -> None:
    assert digest([Harbour(seed).fingerprint() for seed in seeds]) == PINNED[starts]


@pytest.mark.parametrize("by_the_link", [False, True], ids=["as written", "by the link"])
@pytest.mark.parametrize("task", [LEAD, PHONE])
def test_a_run_of_the_first_tasks_stands(task: str, by_the_link: bool) -> None:
    way = "by the link" if by_the_link else "as written"
    assert digest([played(task, seed, by_the_link=by_the_link) for seed in SEEDS]) == PINNED[f"{task} {way}"]
