"""Sites of ours with one fault each, served on real ports: what probes must find."""

from __future__ import annotations

import asyncio
import hashlib
import json
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agents.envs import serve as serving
from agents.envs.provider import Site, known_sites
from agents.envs.sites.conditions import CLEAR, Conditions
from agents.envs.sites.site import Apps, SiteKind

TOKEN = "the-token-of-a-planted-site"
Facts = dict[str, Any]
Plant = Callable[[Apps], Apps]


@dataclass(frozen=True)
class Asked:
    """One call of the admin surface: what is asked, of which instance, with which query and body."""

    call: str
    instance: str | None
    query: dict[str, str]
    body: Facts


Ask = Callable[[Asked], Asked]
Tell = Callable[[Asked, int, Facts], tuple[int, Facts]]


@contextmanager
def planted(site: str, plant: Plant, patch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site of ours whose apps went through `plant`, on two ports of this process."""
    kind = known_sites()[site]

    def build(page_base: str, token: str, conditions: Conditions = CLEAR) -> Apps:
        return plant(kind.build(page_base, token, conditions))

    with patch.context() as patched:
        patched.setattr(serving, "KNOWN", {site: replace(kind, build=build)})
        with _served(kind) as found:
            yield found


@contextmanager
def _served(kind: SiteKind) -> Iterator[Site]:
    said: queue.Queue[tuple[serving.ServedSite, asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def run() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        await serving.serve_site(
            kind.name,
            host="127.0.0.1",
            port=0,
            admin_port=0,
            token=TOKEN,
            announce=lambda ready: said.put((ready, loop, stop)),
            stop=stop,
        )

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    ready, loop, stop = said.get(timeout=20)
    try:
        yield Site(kind.name, ready.url, ready.admin_url, TOKEN)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def changed(*, ask: Ask = lambda asked: asked, tell: Tell = lambda _, status, facts: (status, facts)) -> Plant:
    """A fault of the admin surface: calls go through `ask` before it, answers through `tell` behind it."""
    return lambda apps: replace(apps, admin=_Between(apps.admin, ask, tell))  # type: ignore[arg-type]


class _Between:
    """An app in front of the admin surface that changes what it is asked and what it tells."""

    def __init__(self, app: ASGIApp, ask: Ask, tell: Tell) -> None:
        self._app, self._ask, self._tell = app, ask, tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = self._ask(await _asked(scope, receive))
        headers = [pair for pair in scope["headers"] if pair[0] not in {b"content-length", b"x-env-instance"}]
        body = json.dumps(asked.body).encode()
        headers.append((b"content-length", str(len(body)).encode()))
        if asked.instance is not None:
            headers.append((b"x-env-instance", asked.instance.encode()))
        passed = {**scope, "headers": headers, "query_string": urlencode(asked.query).encode()}
        status, facts = self._tell(asked, *await _answer(self._app, passed, body))
        content = json.dumps(facts).encode()
        told = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": told})
        await send({"type": "http.response.body", "body": content})


async def _asked(scope: Scope, receive: Receive) -> Asked:
    content, more = b"", True
    while more:
        message = await receive()
        content, more = content + message.get("body", b""), message.get("more_body", False)
    query = {key: values[0] for key, values in parse_qs(scope["query_string"].decode()).items()}
    named = dict(scope["headers"]).get(b"x-env-instance")
    call = scope["path"].rpartition("/")[2]
    return Asked(call, None if named is None else named.decode(), query, json.loads(content or b"{}"))


async def _answer(app: ASGIApp, scope: Scope, body: bytes) -> tuple[int, Facts]:
    told: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        told.append(message)

    await app(scope, receive, send)
    return told[0]["status"], json.loads(b"".join(message.get("body", b"") for message in told[1:]))


def salted(facts: Facts, salt: object) -> Facts:
    """A state with another fingerprint, made from its own and a salt."""
    digest = hashlib.sha256(f"{facts['fingerprint']}{salt}".encode()).hexdigest()
    return {**facts, "fingerprint": f"sha256:{digest}"}


# Faults ---------------------------------------------------------------------------------------------------------------


def pays_for_nothing(asked: Asked, status: int, facts: Facts) -> tuple[int, Facts]:
    """A task that is passed whatever was done."""
    if asked.query.get("task_id") == "marketplace.phone_reveal":
        return status, {**facts, "passed": True, "score": 1.0}
    return status, facts


def pays_for_a_look() -> Plant:
    """A task that is passed as soon as any page was opened."""
    seen: set[str] = set()

    def plant(apps: Apps) -> Apps:
        async def pages(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                seen.add(scope["path"].split("/")[2])
            await apps.pages(scope, receive, send)

        def tell(asked: Asked, status: int, facts: Facts) -> tuple[int, Facts]:
            return status, {**facts, "passed": True, "score": 1.0} if asked.instance in seen else facts

        told = changed(tell=lambda a, s, f: tell(a, s, f) if a.call == "oracle" else (s, f))(apps)
        return replace(told, pages=pages)  # type: ignore[arg-type]

    return plant


def pays_for_any_deed(asked: Asked, status: int, facts: Facts) -> tuple[int, Facts]:
    """A task that is passed by whatever changes something."""
    if asked.query.get("task_id") == "marketplace.price_watch" and len(facts["reasons"]) > 1:
        return status, {**facts, "passed": True, "score": 1.0}
    return status, facts


def breaks_at(path: str) -> Plant:
    """A page that answers 500."""

    def plant(apps: Apps) -> Apps:
        async def pages(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and scope["path"].endswith(path):
                await send({"type": "http.response.start", "status": 500, "headers": []})
                await send({"type": "http.response.body", "body": b"broken"})
            else:
                await apps.pages(scope, receive, send)

        return replace(apps, pages=pages)  # type: ignore[arg-type]

    return plant


def never_passes(asked: Asked, status: int, facts: Facts) -> tuple[int, Facts]:
    """A task that nothing passes."""
    if asked.query.get("task_id") == "marketplace.engine_spec":
        return status, {**facts, "passed": False, "score": 0.5}
    return status, facts


def never_granted(asked: Asked, status: int, facts: Facts) -> tuple[int, Facts]:
    """A control task that chance never grants."""
    if asked.query.get("task_id") == "marketplace.control_draw":
        return status, {**facts, "passed": False, "score": 0.0}
    return status, facts


def oracle_writes() -> Plant:
    """An oracle whose calls change the state."""
    graded: Counter[str | None] = Counter()

    def tell(asked: Asked, status: int, facts: Facts) -> tuple[int, Facts]:
        graded[asked.instance] += asked.call == "oracle"
        return status, salted(facts, graded[asked.instance]) if asked.call == "state" else facts

    return changed(tell=tell)


def oracle_wavers() -> Plant:
    """An oracle that says something else each time."""
    graded: Counter[str | None] = Counter()

    def tell(asked: Asked, status: int, facts: Facts) -> tuple[int, Facts]:
        graded[asked.instance] += asked.call == "oracle"
        return status, {**facts, "reasons": [str(graded[asked.instance])]} if asked.call == "oracle" else facts

    return changed(tell=tell)


def seed_ignored(*, salt: bool) -> Plant:
    """Every instance is made from seed 0; with `salt` the fingerprint tells otherwise."""
    wanted: dict[str, int] = {}
    latest: list[Facts] = []

    def ask(asked: Asked) -> Asked:
        if asked.call != "reset":
            return asked
        latest[:] = [asked.body]
        return replace(asked, body={**asked.body, "seed": 0})

    def tell(asked: Asked, status: int, facts: Facts) -> tuple[int, Facts]:
        if asked.call == "reset" and status == 200:
            wanted[facts["instance"]] = latest[0]["seed"]
            return status, {**facts, "seed": latest[0]["seed"]}
        return status, salted(facts, wanted[asked.instance or ""]) if salt and asked.call == "state" else facts

    return changed(ask=ask, tell=tell)


def never_twice_alike(asked: Asked, status: int, facts: Facts) -> tuple[int, Facts]:
    """A fingerprint that depends on the instance's id."""
    return status, salted(facts, asked.instance) if asked.call == "state" else facts


def leaks_over_reset() -> Plant:
    """Making an instance anew leaves it as it is."""
    made: dict[str, Facts] = {}

    def tell(asked: Asked, status: int, facts: Facts) -> tuple[int, Facts]:
        if asked.call == "reset":
            made[facts["instance"]] = facts
        return status, facts

    def plant(apps: Apps) -> Apps:
        async def admin(scope: Scope, receive: Receive, send: Send) -> None:
            named = dict(scope["headers"]).get(b"x-env-instance")
            if scope["path"].endswith("/reset") and named is not None:
                content = json.dumps(made[named.decode()]).encode()
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": content})
            else:
                await _Between(apps.admin, lambda asked: asked, tell)(scope, receive, send)

        return replace(apps, admin=admin)  # type: ignore[arg-type]

    return plant


def looks_fresh() -> Plant:
    """A fingerprint that stays what it was at first."""
    first: dict[str | None, str] = {}

    def tell(asked: Asked, status: int, facts: Facts) -> tuple[int, Facts]:
        if asked.call == "state":
            facts = {**facts, "fingerprint": first.setdefault(asked.instance, facts["fingerprint"])}
        return status, facts

    return changed(tell=tell)


def shares_state() -> Plant:
    """What is sent to one instance shows in the state of all."""
    sent: list[str] = []

    def plant(apps: Apps) -> Apps:
        async def pages(scope: Scope, receive: Receive, send: Send) -> None:
            sent.extend([scope["path"]] if scope["type"] == "http" and scope["method"] == "POST" else [])
            await apps.pages(scope, receive, send)

        told = changed(tell=lambda a, s, f: (s, salted(f, len(sent)) if a.call == "state" else f))(apps)
        return replace(told, pages=pages)  # type: ignore[arg-type]

    return plant


def since_is_ignored(asked: Asked) -> Asked:
    """Mutations are always listed from the first."""
    return replace(asked, query={}) if asked.call == "mutations" else asked


def forgets_mutations(asked: Asked, status: int, facts: Facts) -> tuple[int, Facts]:
    """Only the newest mutation is listed."""
    return status, {"mutations": facts["mutations"][-1:]} if asked.call == "mutations" else facts


def lists_nothing(asked: Asked, status: int, facts: Facts) -> tuple[int, Facts]:
    """No mutation is ever listed."""
    return status, {"mutations": []} if asked.call == "mutations" else facts


def lets_in(*calls: str) -> Plant:
    """These calls are answered without looking at the token."""

    def plant(apps: Apps) -> Apps:
        async def admin(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and scope["path"].rpartition("/")[2] in calls:
                others = [pair for pair in scope["headers"] if pair[0] != b"x-env-admin"]
                scope = {**scope, "headers": [*others, (b"x-env-admin", TOKEN.encode())]}
            await apps.admin(scope, receive, send)

        return replace(apps, admin=admin)  # type: ignore[arg-type]

    return plant


def admin_on_the_pages_port(apps: Apps) -> Apps:
    """The agent's port answers for the admin surface too, if only to refuse."""

    async def pages(scope: Scope, receive: Receive, send: Send) -> None:
        is_admin = scope["type"] == "http" and scope["path"].startswith("/__env__/")
        await (apps.admin if is_admin else apps.pages)(scope, receive, send)

    return replace(apps, pages=pages)  # type: ignore[arg-type]


def grades_anything(asked: Asked, status: int, facts: Facts) -> tuple[int, Facts]:
    """A task that there is not is failed with a score of zero."""
    if asked.call == "oracle" and status == 404:
        task = asked.query["task_id"]
        return 200, {"task_id": task, "passed": False, "score": 0.0, "reasons": ["no such task"], "diff": {}}
    return status, facts
