"""What a browser keeps goes with its state key: a login survives between the calls of a session, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from http.cookiejar import Cookie, CookieJar
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from sqlalchemy import Engine

from agents.envs.clients.session import Session
from agents.envs.profiles import EMPTY, Profile, StoredCookie, cookies_in
from agents.rollouts.dispatching.dispatch import Call, Dispatch
from agents.rollouts.dispatching.profiles import Keeper, MemoryKeeper, ProfileScope, TableKeeper, hold_profile
from agents.rollouts.dispatching.state_keys import StateKey, session

HERE = ProfileScope("counting", "s1", "plan")


class Counting(BaseHTTPRequestHandler):
    """A site that greets who has logged in; each first part of a path is an instance of its own."""

    def do_GET(self) -> None:
        _, instance, *rest = self.path.split("/")
        who = "you" if "who=alex" in (self.headers.get("cookie") or "") else "stranger"
        body = f"<p>hello {who}</p><a href='/{instance}/login'>Log in</a>".encode()
        self.send_response(200)
        if rest == ["login"]:
            self.send_header("set-cookie", f"who=alex; Path=/{instance}/")
            self.send_header("set-cookie", "lang=en; Path=/; Max-Age=3600")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Counting) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(params=["memory", "table"])
def keeper(request: pytest.FixtureRequest) -> Keeper:
    if request.param == "memory":
        return MemoryKeeper()
    engine: Engine = request.getfixturevalue("empty_engine")
    return TableKeeper(engine)


def read(body: bytes | None) -> Profile:
    return EMPTY if body is None else Profile.from_bytes(body)


def calls_of(site: str, keeper: Keeper, calls: list[Call[str]]) -> list[str]:
    """Each call greets, then logs in, in an instance of its own; what it was greeted with."""

    def work(instance: str, state: StateKey) -> str:
        with (
            hold_profile(keeper, state, HERE) as holding,
            Session(f"{site}/{instance}/", profile=read(holding.profile)) as visit,
        ):
            greeting = visit.open("/").text().splitlines()[0]
            visit.open("/login")
            holding.profile = visit.profile().to_bytes()
        return greeting

    return [str(outcome.result) for outcome in Dispatch(calls, work, max_parallel=2).results()]


def test_a_login_survives_between_the_calls_of_a_session(site: str, keeper: Keeper) -> None:
    calls = [Call("i1", "alex", session=True), Call("i2", "alex", session=True), Call("i3", "other", session=True)]
    assert calls_of(site, keeper, calls) == ["hello stranger", "hello you", "hello stranger"]
    assert calls_of(site, keeper, [Call("i4", "alex", session=True)]) == ["hello you"]
    assert read(keeper.hand_out(HERE.profile_of(session("alex")))[1]).address == "/login"


def test_it_does_not_between_independent_calls(site: str, keeper: Keeper) -> None:
    calls = [Call("i1", "alex"), Call("i2", "alex"), Call("i3"), Call("i4")]
    assert calls_of(site, keeper, calls) == ["hello stranger"] * 4
    assert calls_of(site, keeper, calls) == ["hello stranger"] * 4


def test_what_a_visit_leaves_is_told_apart_by_path_and_read_back_from_its_bytes(site: str) -> None:
    with Session(f"{site}/i1/") as visit:
        assert visit.profile() == EMPTY
        visit.open("/login")
        left = visit.profile()
    kept = {cookie.name: cookie for cookie in left.cookies}
    assert kept["who"] == StoredCookie(name="who", value="alex", path="/", expires=None, is_secure=False)
    assert (kept["lang"].path, kept["lang"].expires is None) == ("//", False)
    assert Profile.from_bytes(left.to_bytes()) == left
    with Session(f"{site}/elsewhere/i2/", profile=left) as visit:
        assert visit.profile() == left


def test_a_cookie_comes_back_at_the_path_that_it_had() -> None:
    with Session("http://site.test/i1/", profile=cookie_at("/boats/")) as visit:
        assert visit.profile() == cookie_at("/boats/")
    outside = Cookie(
        0, "x", "1", None, False, "site.test", True, False, "/other/", True, False, None, True, None, None, {}
    )
    jar = CookieJar()
    jar.set_cookie(outside)
    assert cookies_in(jar, "http://site.test/i1/") == ()
    assert [kept.name for kept in cookies_in(jar, "http://site.test/other/")] == ["x"]
    assert cookies_in(jar, "http://elsewhere.test/other/") == ()


def cookie_at(path: str) -> Profile:
    return Profile(cookies=(StoredCookie(name="who", value="alex", path=path, expires=None, is_secure=False),))


def test_only_the_newest_ticket_hands_a_profile_in(keeper: Keeper) -> None:
    lost, _ = keeper.hand_out("p")
    newest, profile = keeper.hand_out("p")
    assert profile is None
    assert keeper.hand_in("p", newest, b"/boats")
    assert not keeper.hand_in("p", lost, b"/late")
    assert keeper.hand_out("p")[1] == b"/boats"
    assert not keeper.hand_in("unknown", 1, b"")


def test_a_call_that_raises_leaves_its_sessions_profile_as_it_was(keeper: Keeper) -> None:
    state = session("alex")
    with hold_profile(keeper, state, HERE) as holding:
        holding.profile = b"/one"

    def fails(_: str, state: StateKey) -> None:
        with hold_profile(keeper, state, HERE) as holding:
            holding.profile = b"/two"
            raise RuntimeError("disk full")

    (outcome,) = Dispatch([Call("i1", "alex", session=True)], fails).results()
    assert outcome.ending == "failed"
    assert keeper.hand_out(HERE.profile_of(state))[1] == b"/one"


def test_an_independent_call_begins_empty_and_hands_nothing_in(keeper: Keeper) -> None:
    state = replace(session("alex"), is_kept=False)
    with hold_profile(keeper, state, HERE) as holding:
        assert holding.profile is None
        holding.profile = b"/one"
    assert keeper.hand_out(HERE.profile_of(state))[1] is None


def test_places_share_no_profile_of_a_session(keeper: Keeper) -> None:
    places = [
        HERE,
        ProfileScope("counting", "s2", "plan"),
        ProfileScope("helpdesk", "s1", "plan"),
        ProfileScope("counting", "s1", "browser"),
    ]
    for place in places:
        with hold_profile(keeper, session("alex"), place) as holding:
            assert holding.profile is None
            holding.profile = place.profile_of(session("alex")).encode()
    for place in places:
        with hold_profile(keeper, session("alex"), place) as holding:
            assert holding.profile == place.profile_of(session("alex")).encode()
