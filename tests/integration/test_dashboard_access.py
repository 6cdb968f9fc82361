"""Signing in, the cookie, the secret of forms, roles, headers; and that pages cost the same in a longer log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from api.dashboard import sessions as kept
from api.dashboard.sessions import Sessions
from api.house import House
from api.tokens import issue, revoke
from benchmarks.made import encoded_of_run
from eventlog.database import open_engine
from eventlog.events import RunStarted
from projections.champions import CHAMPION, CHAMPIONS
from tests.conftest import Database

from .test_reads_stay_small import rows_touched, vacuum

PAGES = ("/", "/runs", "/memory", "/gate", "/champions", "/groups", "/datasets", "/training", "/log")


@pytest.fixture
def visit(application: FastAPI, house: House) -> Iterator[TestClient]:
    """A browser that nobody has signed in with."""
    application.state.house = house
    with TestClient(application, follow_redirects=False, headers={"Origin": "http://testserver"}) as browser:
        yield browser


def sign_in(browser: TestClient, token: str, **headers: str) -> int:
    page = browser.get("/ui/sign-in").text
    (secret,) = re.findall(r'name="visitor" value="([^"]+)"', page)
    return browser.post("/ui/sign-in", data={"token": token, "visitor": secret}, headers=headers).status_code


def csrf_of(browser: TestClient) -> str:
    found: list[str] = re.findall(r'name="csrf" value="([^"]+)"', browser.get("/ui/").text)
    return found[0]


def test_without_a_session_every_page_leads_to_the_sign_in_page(visit: TestClient) -> None:
    assert visit.get("/").headers["location"] == "/ui/"
    for path in (*PAGES, "/runs/x", "/moves/back", "/parts/tail", "/texts/" + "a" * 64):
        answer = visit.get(f"/ui{path}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/ui/sign-in"), path
    part = visit.get("/ui/parts/tail", headers={"HX-Request": "true"})
    assert (part.status_code, part.headers["hx-redirect"]) == (401, "/ui/sign-in")


def test_a_session_is_a_cookie_that_no_script_and_no_other_site_gets(visit: TestClient, house: House) -> None:
    page = visit.get("/ui/sign-in").text
    (secret,) = re.findall(r'name="visitor" value="([^"]+)"', page)
    token = issue(house.store, "looker", "test", "read")
    answer = visit.post("/ui/sign-in", data={"token": token, "visitor": secret})
    cookie = next(line for line in answer.headers.get_list("set-cookie") if line.startswith("flywheel_session"))
    assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/ui", "Max-Age=43200"))
    assert token not in cookie
    shown = visit.get("/ui/")
    assert shown.status_code == 200
    policy = shown.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=", shown.text)
    assert shown.headers["cache-control"] == "no-store"


def test_a_wrong_token_a_forged_form_and_a_large_body_sign_nobody_in(visit: TestClient, house: House) -> None:
    token = issue(house.store, "looker", "test", "read")
    assert sign_in(visit, "fw_wrong") == 401
    assert sign_in(visit, token, **{"Sec-Fetch-Site": "cross-site"}) == 403
    assert visit.post("/ui/sign-in", data={"token": token, "visitor": "guessed"}).status_code == 403
    assert visit.post("/ui/sign-in", data={"token": "x" * 70_000}).status_code == 413
    assert visit.post("/ui/sign-in", content=iter([b"token=x"])).status_code == 411
    assert visit.get("/ui/").status_code == 303


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://testserver"}, 303),
        ({"Origin": "", "Referer": "http://testserver/ui/sign-in"}, 303),
        ({"Origin": "http://testserver.evil"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "", "Referer": "http://evil/testserver"}, 403),
        ({"Origin": "http://evil", "Referer": "http://testserver/"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "http://evil", "Sec-Fetch-Site": "same-origin"}, 303),
        ({"Origin": "http://testserver", "Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_a_form_must_say_that_it_comes_from_here(
    visit: TestClient, house: House, headers: dict[str, str], status: int
) -> None:
    assert sign_in(visit, issue(house.store, "looker", "test", "read"), **headers) == status


def test_a_session_ends_with_its_token_and_when_it_is_closed(visit: TestClient, house: House) -> None:
    assert sign_in(visit, issue(house.store, "looker", "test", "read")) == 303
    assert visit.post("/ui/sign-out", data={"csrf": "guessed"}).status_code == 403
    assert visit.post("/ui/sign-out", data={"csrf": csrf_of(visit)}).status_code == 303
    assert visit.get("/ui/").status_code == 303
    assert sign_in(visit, issue(house.store, "another", "test", "read")) == 303
    assert visit.get("/ui/").status_code == 200
    revoke(house.store, house.views(), "another", "it leaked", "test")
    assert visit.get("/ui/").status_code == 303


def test_sessions_end_in_time_and_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Sessions()
    monkeypatch.setattr(kept, "MOST", 2)
    names = [found.open(f"t{number}") for number in range(3)]
    assert [found.find(name) is not None for name in names] == [False, True, True]
    monkeypatch.setattr(kept, "monotonic", lambda: 10.0**12)
    assert found.find(names[2]) is None


@pytest.mark.parametrize("role", ["read", "ingest"])
def test_who_may_not_operate_moves_nothing(visit: TestClient, house: House, role: str) -> None:
    assert sign_in(visit, issue(house.store, "looker", "test", role)) == 303  # type: ignore[arg-type]
    head, csrf = house.store.head(), csrf_of(visit)
    sent = {"csrf": csrf, "seen": str(head), "reason": "why", "confirmation": "base@395", "artifact": "base@395"}
    for name in ("point", "back", "quarantine", "withdraw"):
        more = {"before": "base@0", "piece": "rw-1", "runs": "r"}
        assert visit.post(f"/ui/moves/{name}", data={**sent, **more}).status_code == 403, name
        assert visit.get(f"/ui/moves/{name}").status_code == 403, name
    assert house.store.head() == head


def test_an_operators_form_needs_the_secret_a_reason_and_the_typed_name(visit: TestClient, house: House) -> None:
    assert sign_in(visit, issue(house.store, "op", "test", "operate")) == 303
    head = house.store.head()
    sent = {
        "csrf": csrf_of(visit),
        "seen": str(head),
        "reason": "why",
        "confirmation": "base@395",
        "artifact": "base@395",
    }
    for wrong in ({"csrf": "guessed"}, {"csrf": ""}, {"confirmation": "base@39"}, {"reason": " "}):
        assert visit.post("/ui/moves/point", data={**sent, **wrong}).status_code >= 400, wrong
    assert house.store.head() == head
    assert visit.post("/ui/moves/point", data=sent).status_code == 303
    champion = house.views().get(CHAMPIONS, CHAMPION)
    assert champion is not None
    assert (champion.name, champion.actor) == ("base@395", "dashboard:op")
    assert visit.post("/ui/moves/point", data=sent).status_code >= 400  # the champion was moved since that position


@pytest.mark.parametrize(
    "path",
    ["/runs/nobody", "/memory/rewrite/none", "/gate/none", "/datasets/aaaaaaaa", "/training/none", "/groups/none"],
)
def test_what_is_not_there_is_a_page_that_says_so(visit: TestClient, house: House, path: str) -> None:
    sign_in(visit, issue(house.store, "looker", "test", "read"))
    answer = visit.get(f"/ui{path}")
    assert answer.status_code == 404
    assert 'role="alert"' in answer.text
    assert "text/html" in answer.headers["content-type"]
    assert visit.get("/ui/runs?nonsense=1").status_code == 422
    assert visit.get("/v1/nowhere").headers["content-type"] == "application/problem+json"


def test_no_filter_tells_what_sealed_runs_earned(visit: TestClient, house: House) -> None:
    sign_in(visit, issue(house.store, "looker", "test", "read"))
    assert "eval-1__" in visit.get("/ui/runs?evaluation=eval-1").text
    for result in ("passed", "failed"):
        assert "seed10000" not in visit.get(f"/ui/runs?evaluation=eval-1&result={result}").text
    page = visit.get("/ui/runs/eval-1__challenger__marketplace.phone_reveal__seed10000__r0").text
    assert "The gate alone tells" in page
    assert not re.search(r"score \d|Passed by|Failed by", page)


def test_runs_are_filtered_by_text_and_by_when_they_began(visit: TestClient, house: House) -> None:
    sign_in(visit, issue(house.store, "looker", "test", "read"))
    began = list(house.store.read(types=["RunStarted"]))

    def shown(query: str) -> list[str]:
        return re.findall(r'name="pick" value="([^"]+)"', visit.get(f"/ui/runs?{query}").text)

    names: list[str] = [each.event.run for each in began if isinstance(each.event, RunStarted)]
    assert shown(f"since={began[3].position - 1}&until={began[5].position}") == names[3:6]
    assert shown(f"text={names[4].upper()}") == [names[4]]
    assert shown("text=no+such+text") == []
    first = visit.get("/ui/runs?since=1").text
    assert shown("since=1") == names[:50]
    (after,) = set(re.findall(r"after=(\d+)", first))
    assert "since=1" in first
    assert shown(f"since=1&after={after}") == names[50:100]
    assert visit.get("/ui/runs?since=yesterday").status_code == 422


def test_pages_look_at_no_more_rows_in_a_log_ten_times_longer(
    application: FastAPI, empty_house: House, empty_database: Database
) -> None:
    application.state.house = empty_house
    token = issue(empty_house.store, "looker", "test", "read")
    with TestClient(application, headers={"Sec-Fetch-Site": "same-origin"}) as browser:
        assert sign_in(browser, token) == 200
        short, long = [_costs(browser, empty_house, empty_database, runs) for runs in (range(300), range(300, 3_000))]
    assert {path: (short[path], cost) for path, cost in long.items() if cost > 2 * short[path] + 60} == {}


def _costs(browser: TestClient, house: House, database: Database, runs: range) -> dict[str, int]:
    """The rows that each page looks at, once these runs are in the log, folded, and known to the planner."""
    house.store.append_encoded([one for number in runs for one in encoded_of_run(number)])
    house.views()
    owner = open_engine(database.owner_url)
    with owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for table in ("events", "fold_rows"):
            vacuum(connection, table)
    owner.dispose()
    for path in PAGES:
        _open(browser, path)  # the process learns what changed of the pieces that it keeps
    return {path: rows_touched(house.engine, partial(_open, browser, path)) for path in PAGES}


def _open(browser: TestClient, path: str) -> None:
    assert browser.get(f"/ui{path}").status_code == 200
