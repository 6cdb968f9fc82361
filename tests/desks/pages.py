"""The pages of a small site: a list of things, the form of one of them, and what stands in the way there."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from urllib.parse import parse_qs, urlencode

from starlette.requests import Request
from starlette.responses import Response

from agents.envs.sites.visits import page_response, redirect_to

from .desk import A_PAGE, Desk
from .grammar import CHANCE


def page(desk: Desk, prefix: str, body: str, status: int = 200) -> Response:
    words = desk.desk.words
    links = {words.things: desk.address, "News": "/news"}
    if CHANCE[0] in desk.desk.obstacles:
        links |= {each: f"/news?{urlencode({'of': each})}" for each in (*words.branches, *words.tabs)}
    shown = (f'<a href="{prefix}{address}">{escape(name)}</a>' for name, address in links.items())
    menu = f"<nav>{' '.join(shown)}</nav>"
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
    if desk.has("tabbed form") and query.get("tab") != str(desk.desk.tab) and not errors:
        tabs = (f'<a href="?tab={place}">{tab}</a>' for place, tab in enumerate(desk.desk.tabs))
        return page(desk, prefix, body + " ".join(tabs))
    if desk.has("gate page") and not desk.is_let_in:
        return page(desk, prefix, errors + form(f"{here}/gate", box("yes", words.gate[0]), words.gate[1]), status)
    fields = f'<label>{words.who} <input name="who"></label>'
    fields += box("yes", words.prerequisite) if desk.has("missing prerequisite") else ""
    send = words.renamed if desk.has("renamed control") else words.send
    return page(desk, prefix, body + errors + form(f"{here}/send", fields, send), status)


def the_sending(desk: Desk, prefix: str, number: str, act: str, sent: Mapping[str, str]) -> Response:
    words, here, agreed = desk.desk.words, f"{prefix}{desk.address}/{number}", sent.get("yes") == "yes"
    refused, on_tab = "<p>Please tick the box.</p>", {"tab": str(desk.desk.tab)}
    sworn = desk.has("sworn confirmation")
    confirm = form(f"{here}/confirm", box("yes", words.confirm[0]) * sworn, words.confirm[1])
    if act == "gate":
        desk.is_let_in = agreed
        where = redirect_to(f"{here}?{urlencode(on_tab)}")
        return where if agreed else the_thing(desk, prefix, number, on_tab, refused)
    if act == "send":
        desk.who = sent.get("who", "")
        if desk.has("missing prerequisite") and not agreed:
            return the_thing(desk, prefix, number, on_tab, refused)
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
