"""A small site as an app: a list of things, and a form to ask for one of them, with its obstacles in the way."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from html import escape
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response

from agents.envs.contract import Mutation, TaskText
from agents.envs.sites.admin import admin_app
from agents.envs.sites.conditions import CLEAR, Conditions
from agents.envs.sites.instances import Instances
from agents.envs.sites.journal import Journal
from agents.envs.sites.site import FULL, Apps, OracleGrade, SiteKind
from agents.envs.sites.visits import instance_app, page_response, redirect_to
from eventlog.events import Step, Template

from .grammar import DeskKind

NAME = "Alex Morgan"
THINGS, A_PAGE, CLEAR_EVERY = 15, 5, 4
"""Things of a list, things of one of its pages, and one in so many instances has no obstacle but another name."""


class Desk:
    """One instance: its things by number, with the kind that each is of."""

    def __init__(self, desk: DeskKind, seed: int, mutations: Sequence[Mutation] = ()) -> None:
        self.desk, self.seed, self.journal = desk, seed, Journal(mutations)
        rng = random.Random(f"{desk.words.site} {seed}")  # noqa: S311 (a seed's data)
        numbers = rng.sample(range(1_000, 10_000), THINGS)
        self.things = {number: rng.choice(desk.words.kinds[1:]) for number in numbers}
        self.right = numbers[rng.randrange(A_PAGE) + A_PAGE * self.has("paged list")]
        self.things[self.right] = desk.words.kinds[0]
        self.is_let_in, self.who = False, ""

    def has(self, obstacle: str) -> bool:
        is_here = self.seed % CLEAR_EVERY != 0 or obstacle == "renamed control"
        return obstacle in self.desk.obstacles and is_here

    @property
    def address(self) -> str:
        words = self.desk.words
        return words.moved[self.seed % len(words.moved)] if self.has("moved address") else words.address

    @property
    def mutations(self) -> Sequence[Mutation]:
        return self.journal.mutations

    def counts(self) -> Mapping[str, int]:
        return {"things": THINGS}

    def fingerprint(self) -> str:
        return self.journal.digest({"seed": self.seed, "things": {str(n): kind for n, kind in self.things.items()}})

    def grade(self, _task_id: str) -> OracleGrade:
        told = [(each.target_id, each.payload.get("who")) for each in self.mutations]
        passed = told == [(str(self.right), NAME)]
        return OracleGrade(passed, FULL if passed else 0, () if passed else ("not exactly the right request",), {})


def page(desk: Desk, prefix: str, body: str, status: int = 200) -> Response:
    words = desk.desk.words
    menu = f'<nav><a href="{prefix}{desk.address}">{words.things}</a> <a href="{prefix}/news">News</a></nav>'
    return page_response(f"<title>{words.site}</title>{menu}<h1>{words.site}</h1>{body}", status)


def form(action: str, fields: str, button: str) -> str:
    return f'<form method="post" action="{action}">{fields}<button>{escape(button)}</button></form>'


def box(name: str, label: str) -> str:
    return f'<label><input type="checkbox" name="{name}" value="yes"> {escape(label)}</label>'


def the_list(desk: Desk, prefix: str, query: Mapping[str, str]) -> Response:
    words, chosen = desk.desk.words, query.get("branch", desk.desk.words.branches[0])
    body, held = "", list(desk.things.items())
    if desk.has("filter needed first"):
        options = "".join(f"<option{' selected' * (each == chosen)}>{escape(each)}</option>" for each in words.branches)
        body = f'<form><label>Where <select name="branch">{options}</select></label><button>Show</button></form>'
        held = held if chosen == words.branch else []
    number = int(query.get("p", "0")) if desk.has("paged list") else 0
    shown = held[number * A_PAGE : (number + 1) * A_PAGE]
    body += "".join(f'<p><a href="{prefix}{desk.address}/{n}">{kind} no. {n}</a></p>' for n, kind in shown)
    if desk.has("paged list") and (number + 1) * A_PAGE < len(held):
        body += f'<a href="{prefix}{desk.address}?p={number + 1}&branch={escape(chosen)}">{words.further}</a>'
    return page(desk, prefix, body or "<p>Nothing is shown.</p>")


def the_thing(desk: Desk, prefix: str, number: str, query: Mapping[str, str], errors: str = "") -> Response:
    words, here = desk.desk.words, f"{prefix}{desk.address}/{number}"
    status = 422 if errors else 200
    body = f"<h2>{desk.things[int(number)]} no. {number}</h2>"
    if desk.has("tabbed form") and query.get("tab") != "2" and not errors:
        return page(desk, prefix, body + " ".join(f'<a href="?tab={n}">{tab}</a>' for n, tab in enumerate(words.tabs)))
    if desk.has("gate page") and not desk.is_let_in:
        return page(desk, prefix, errors + form(f"{here}/gate", box("yes", words.gate[0]), words.gate[1]), status)
    fields = f'<label>{words.who} <input name="who"></label>'
    fields += box("yes", words.prerequisite) if desk.has("missing prerequisite") else ""
    send = words.renamed if desk.has("renamed control") else words.send
    return page(desk, prefix, body + errors + form(f"{here}/send", fields, send), status)


def the_sending(desk: Desk, prefix: str, number: str, act: str, sent: Mapping[str, str]) -> Response:
    words, here, agreed = desk.desk.words, f"{prefix}{desk.address}/{number}", sent.get("yes") == "yes"
    refused = "<p>Please tick the box.</p>"
    sworn = desk.has("sworn confirmation")
    confirm = form(f"{here}/confirm", box("yes", words.confirm[0]) * sworn, words.confirm[1])
    if act == "gate":
        desk.is_let_in = agreed
        where = redirect_to(f"{here}?tab=2")
        return where if agreed else the_thing(desk, prefix, number, {"tab": "2"}, refused)
    if act == "send":
        desk.who = sent.get("who", "")
        if desk.has("missing prerequisite") and not agreed:
            return the_thing(desk, prefix, number, {"tab": "2"}, refused)
        if sworn or desk.has("extra confirmation"):
            return page(desk, prefix, "<p>One more question.</p>" + confirm)
    elif sworn and not agreed:
        return page(desk, prefix, refused + confirm, 422)
    if not desk.has("sold out"):
        desk.journal.record("requested", "thing", number, {"who": desk.who})
    return page(desk, prefix, f"<p>Thank you, {escape(desk.who)}.</p>")


async def answer(desk: Desk, prefix: str, request: Request) -> Response:
    desk.journal.tick()
    path, query = request.url.path.removeprefix(prefix) or "/", dict(request.query_params)
    rest = path.removeprefix(desk.address).strip("/").split("/")
    is_listed = path.startswith(desk.address)
    if path in {"/", "/news"}:
        return page(desk, prefix, "<p>Welcome.</p>")
    if is_listed and rest == [""]:
        return the_list(desk, prefix, query)
    if not is_listed or not rest[0].isdigit() or int(rest[0]) not in desk.things:
        return page(desk, prefix, "<p>There is no such page.</p>", 404)
    if request.method != "POST" or len(rest) == 1:
        return the_thing(desk, prefix, rest[0], query)
    sent = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
    return the_sending(desk, prefix, rest[0], rest[1], sent)


def desk_site(desk: DeskKind) -> SiteKind:
    """The site of a kind, to be served."""
    words = desk.words
    tasks = (TaskText(task_id=desk.task, instruction=template_of(desk).instruction, cluster="desk"),)

    def build(page_base: str, token: str, conditions: Conditions = CLEAR) -> Apps:
        instances = Instances(lambda seed, _repeat=0: Desk(desk, seed), conditions=conditions)
        admin = admin_app(site=words.site, tasks=tasks, instances=instances, page_base=page_base, token=token)
        return Apps(instance_app(instances, answer), admin)

    return SiteKind(words.site, tasks, build, lambda seed, mutations: Desk(desk, seed, mutations))


def template_of(desk: DeskKind) -> Template:
    """The site's task with the plan that a person would write for it without obstacles."""
    words, kind = desk.words, desk.words.kinds[0]
    steps = (
        Step(type="navigate", intent="start on the first page", url="/"),
        Step(type="navigate", intent=f"open the {words.things.lower()}", url=words.address),
        Step(type="click", intent=f"open the {kind.lower()}", label=kind),
        Step(type="fill_field", intent="say who asks", label=words.who, value=NAME),
        Step(type="submit", intent=f"{words.send.lower()} it", label=words.send),
    )
    told = f"Open the {words.things.lower()} at {words.address}, choose the {kind}, and {words.send} for {NAME}."
    return Template(template_id=desk.task, cluster="desk", oracle_task_id=desk.task, instruction=told, plan_steps=steps)
