from __future__ import annotations

from urllib.parse import parse_qsl

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from agents.envs.clients.controls import controls
from agents.envs.clients.pages import LONGEST_TEXT, Absent, Page
from agents.envs.clients.session import Session
from agents.envs.errors import ContractBroken, EnvironmentDown
from agents.envs.sites.instances import Instances
from agents.envs.sites.marketplace.app import page_app
from agents.envs.sites.marketplace.drift import CANONICAL, drift_family
from agents.envs.sites.marketplace.instance import Harbour
from tests.unit.test_agent_samples import ROOT, page, session

FORM = """
<form action="/i/abc/found" method="get">
  <label for="f1">Make:</label>
  <select id="f1" name="mk"><option value="">Any</option><option value="sr">Sea
     <b>Ray</b></option><option>Boston   Whaler</option></select>
  <label>Maximum <b>price</b> <input name="pmax" value="5"></label>
  <label>Sort <select name="ord"><option value="new">Newest</option>
    <option value="asc">Cheapest</option></select></label>
  <label for="f4">Notes *</label><textarea id="f4" name="txt">before</textarea>
  <label for="gone">Lost</label> <label for="f5">Not a control</label><div id="f5"></div>
  <input type="hidden" name="token" value="t1"> <input type="submit" name="go" value="Find"> <button>Send</button>
  <button name="way" value="back">Back</button>
</form>
<button>Outside</button>
"""


def opened(body: str) -> Page:
    with session({"/": body}) as visit:
        return visit.open("/")


def sent(body: str, button: str, *fills: tuple[str, str]) -> httpx2.Request:
    """The request that a form makes after its fields were filled (a select is chosen from)."""
    requests: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return page(body)

    with session(answer) as visit:
        shown = visit.open("/")
        for label, value in fills:
            (shown.choose if shown.field(label).tag == "select" else shown.fill)(label, value)
        visit.submit(shown, button)
    return requests[-1]


def query(request: httpx2.Request) -> dict[str, str]:
    return dict(parse_qsl(request.url.query.decode(), keep_blank_values=True))


def body_of(request: httpx2.Request) -> list[tuple[str, str]]:
    return parse_qsl(request.read().decode(), keep_blank_values=True)


def test_fields_are_found_by_the_label_that_names_them_and_by_the_one_around_them() -> None:
    request = sent(
        FORM, "Find", ("make", "sea ray"), ("Maximum price", "40000"), ("Sort", "Cheapest"), ("Notes", "a\nb")
    )
    assert (request.method, request.url.path) == ("GET", "/i/abc/found")
    assert query(request) == {
        "mk": "sr", "pmax": "40000", "ord": "asc", "txt": "a\nb", "token": "t1", "go": "Find"
    }  # fmt: skip


def test_what_is_not_filled_is_sent_as_the_page_shows_it() -> None:
    request = sent(FORM, "send")
    assert query(request) == {"mk": "", "pmax": "5", "ord": "new", "txt": "before", "token": "t1"}


def test_a_button_sends_its_own_name_and_no_other_buttons() -> None:
    assert query(sent(FORM, "Back"))["way"] == "back"
    assert "way" not in query(sent(FORM, "Find"))


def test_an_option_without_a_value_stands_for_its_words() -> None:
    assert query(sent(FORM, "Find", ("Make", "Boston Whaler")))["mk"].split() == ["Boston", "Whaler"]


def test_choosing_again_replaces_the_choice() -> None:
    assert query(sent(FORM, "Find", ("Make", "Sea Ray"), ("Make", "Any")))["mk"] == ""


def test_an_option_of_a_list_of_many_is_chosen() -> None:
    body = (
        "<form><label for=m>M</label><select id=m name=m multiple><option>a<option>b</select><button>Go</button></form>"
    )
    assert query(sent(body, "Go", ("M", "b"))) == {"m": "b"}


def test_a_form_that_posts_sends_every_value_in_its_body() -> None:
    body = """<form method="POST" action="there?x=1"><label>Name <input name="who"></label>
    <input type="checkbox" name="way" value="mail" checked><input type="checkbox" name="way" value="call" checked>
    <input type="checkbox" name="way" value="visit"><button>Go</button></form>"""
    request = sent(body, "Go", ("Name", "Ä & b"))
    assert (request.method, str(request.url)) == ("POST", ROOT + "there?x=1")
    assert body_of(request) == [("who", "Ä & b"), ("way", "mail"), ("way", "call")]


def test_a_form_without_an_action_goes_to_its_own_page() -> None:
    request = sent("<form><input name=a value=1><button>Go</button></form>", "Go")
    assert str(request.url) == ROOT + "?a=1"


UNNAMED = """
<form action="/i/abc/found"><b id="w1">Ship</b> <b id="w2">to</b><input name="to" aria-labelledby="w1 w2" title="no">
<input name="a" aria-label="Weight" placeholder="no"><input name="b" placeholder="Length" title="no">
<input name="c" title="Colour"><input name="depth"><input type="hidden" name="h" value="1"><input type="file" name="f">
<input type="checkbox" name="ok" value="1" title="Terms"><fieldset><legend>Payment</legend>
<label><input type="radio" name="pay" value="l" checked>Later</label><input type="radio" name="pay" id="n" value="n">
<label for="n">Now</label></fieldset><button aria-label="Order"></button></form><a href="x" title="Further"></a>"""


@pytest.mark.parametrize(
    ("label", "name"), [("Ship to", "to"), ("weight", "a"), ("Length:", "b"), ("Colour", "c"), ("Depth", "depth")]
)
def test_a_field_without_a_label_goes_by_what_names_it_first(label: str, name: str) -> None:
    assert query(sent(UNNAMED, "Order", (label, "7")))[name] == "7"


@pytest.mark.parametrize("label", ["no", "h", "f", "a", "Terms", "Payment"])
def test_what_names_a_field_otherwise_or_is_no_text_field_is_not_written_into(label: str) -> None:
    with pytest.raises(Absent, match="no_such_field"):
        opened(UNNAMED).fill(label, "x")


def test_boxes_and_radio_buttons_are_choices() -> None:
    assert query(sent(UNNAMED, "Order", ("Ship to", "x"))).get("ok") is None
    page = opened(UNNAMED)
    page.choose("Terms", "checked")
    page.choose("Payment", "Now")
    shown = {each.label: (each.kind, each.options, each.value) for each in controls(page) if each.options}
    assert shown == {
        "Terms": ("box", ("checked", "not checked"), "checked"),
        "Payment": ("choice", ("Later", "Now"), "Now"),
    }
    page.choose("Terms", "not checked")
    page.choose("Payment", "Later")
    assert page.document.forms[0].form_values()[-1] == ("pay", "l")
    with pytest.raises(Absent, match="no_such_option"):
        page.choose("Payment", "Never")


def test_a_link_and_a_button_without_text_go_by_what_names_them() -> None:
    page = opened(UNNAMED)
    assert (page.link("Further").path, page.button("order").get("aria-label")) == ("/x", "Order")
    assert [line for line in page.text().splitlines() if line.startswith("[label]")] == [
        "[label] Ship to",
        "[label] Weight",
        "[label] Length",
        "[label] Colour",
        "[label] depth",
        "[label] Terms",
        "[label] Later",
        "[label] Payment",
        "[label] Now",
    ]


@pytest.mark.parametrize("label", ["Lost", "Unheard of", "Mak", ""])
def test_a_field_that_is_not_there_is_absent(label: str) -> None:
    with pytest.raises(Absent) as absent:
        opened(FORM).fill(label, "x")
    assert absent.value.problem == "no_such_field"


@pytest.mark.parametrize("label", ["Not a control", "Make"])
def test_only_a_text_field_is_written_into(label: str) -> None:
    with pytest.raises(Absent, match="no_such_field"):
        opened(FORM).fill(label, "x")


@pytest.mark.parametrize(("label", "problem"), [("Make", "no_such_option"), ("Notes", "no_such_field")])
def test_only_a_visible_option_is_chosen(label: str, problem: str) -> None:
    """`sr` is what the page sends for Sea Ray: nobody sees it."""
    with pytest.raises(Absent, match=problem):
        opened(FORM).choose(label, "sr")


@pytest.mark.parametrize("label", ["Outside", "Go", "Make"])
def test_a_button_that_is_in_no_form_is_absent(label: str) -> None:
    with pytest.raises(Absent, match="no_such_field"):
        opened(FORM).button(label)


LINKS = """
<a href="/i/abc/boats/7">2010 Bayliner Capri · $900</a> <a href="boats">Boats <b>for sale</b></a>
<a href="?p=2#end">Next</a> <a href="/i/abd/x">Other instance</a> <a href="https://elsewhere.test/">Away</a>
<a href="/x">Root of the site</a> <a>No address</a> <a href="mailto:a@b.test">Mail</a> <a href="http://[bad">Broken</a>
<a href="deep/a:b">Bayliner</a> <a href="blank"> </a>
"""


def test_links_are_those_that_stay_inside_the_instance() -> None:
    assert [(link.text, link.path) for link in opened(LINKS).links()] == [
        ("2010 Bayliner Capri · $900", "/boats/7"),
        ("Boats for sale", "/boats"),
        ("Next", "/?p=2#end"),
        ("Bayliner", "/deep/a:b"),
        ("", "/blank"),
    ]


def test_a_link_with_exactly_these_words_goes_before_one_that_holds_them() -> None:
    shown = opened(LINKS)
    assert shown.link("bayliner").path == "/deep/a:b"
    assert shown.link(" BOATS for  sale: ").path == "/boats"
    assert shown.link("capri").path == "/boats/7"


@pytest.mark.parametrize("label", ["Other instance", "Away", "Root of the site", "No address", "Mail", "Broken"])
def test_a_link_that_leads_out_is_absent(label: str) -> None:
    with pytest.raises(Absent, match="no_such_link"):
        opened(LINKS).link(label)


def test_every_link_can_be_opened_under_the_instance() -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url.copy_with(fragment=None)))
        return page(LINKS)

    with session(answer) as visit:
        for link in visit.open("/").links():
            visit.open(link.path)
    assert asked == [ROOT, ROOT + "boats/7", ROOT + "boats", ROOT + "?p=2", ROOT + "deep/a:b", ROOT + "blank"]


@pytest.mark.parametrize("path", ["/../abd/", "../../", "/\x00", "/x\x7f"])
def test_a_path_that_is_no_address_in_the_instance_is_absent(path: str) -> None:
    with session({}) as visit, pytest.raises(Absent, match="no_such_link"):
        visit.open(path)


def test_a_whole_address_in_a_plan_is_only_a_path() -> None:
    with session({}) as visit:
        assert visit.open("https://elsewhere.test/").status == 404


def test_a_page_that_is_not_there_is_a_page() -> None:
    with session({}) as visit:
        shown = visit.open("/nowhere")
    assert (shown.status, shown.path) == (404, "/nowhere")


def test_a_redirect_inside_the_instance_is_followed_and_says_where_it_led() -> None:
    moved = httpx2.Response(303, headers={"location": "/i/abc/thanks"})
    form = '<form method="post" action="send"><button>Go</button></form>'
    with session({"/": form, "/send": moved, "/thanks": "<h1>Thank you</h1>"}) as visit:
        shown = visit.submit(visit.open("/"), "Go")
    assert (shown.status, shown.path, shown.text()) == (200, "/thanks", "Thank you")


@pytest.mark.parametrize("target", ["https://elsewhere.test/", "/i/abd/", "/i/abcd", "http://site.test:81/i/abc/"])
def test_a_redirect_out_of_the_instance_is_the_sites_fault(target: str) -> None:
    with session({"/": httpx2.Response(307, headers={"location": target})}) as visit, pytest.raises(ContractBroken):
        visit.open("/")


def test_a_form_that_leads_out_of_the_instance_is_the_sites_fault() -> None:
    with session({"/": '<form action="/i/abd/"><button>Go</button></form>'}) as visit, pytest.raises(ContractBroken):
        visit.submit(visit.open("/"), "Go")


def test_the_root_without_its_slash_is_the_instance() -> None:
    with session({"/old": httpx2.Response(302, headers={"location": ROOT.rstrip("/")})}) as visit:
        assert visit.open("/old").status == 404
    with Session(
        "http://Site.test:80/i/abc", transport=httpx2.MockTransport(lambda _: page("<a href=x>x</a>"))
    ) as visit:
        assert visit.open("/").link("x").path == "/x"


def test_cookies_are_kept_for_the_visit() -> None:
    seen: list[str | None] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers.get("cookie"))
        return httpx2.Response(200, headers={"set-cookie": "a=1; Path=/"}, html="<p>x</p>")

    with session(answer) as visit:
        visit.open("/")
        visit.open("/")
    assert seen == [None, "a=1"]


def refusing(_request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("connection refused")


def slow(_request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ReadTimeout("timed out")


def turning(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(302, headers={"location": str(request.url)})


@pytest.mark.parametrize("answer", [refusing, slow, turning])
def test_a_site_that_does_not_answer_is_down(answer: object) -> None:
    with session(answer) as visit, pytest.raises(EnvironmentDown):  # type: ignore[arg-type]
        visit.open("/")


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_site_that_did_not_do_what_was_asked_or_whose_proxy_says_so_is_down(status: int) -> None:
    with session({"/": page("x", status)}) as visit, pytest.raises(EnvironmentDown, match=f"status {status}"):
        visit.open("/")


@pytest.mark.parametrize("status", [200, 401, 404, 422, 500])
def test_every_other_status_is_the_pages(status: int) -> None:
    with session({"/": page("x", status)}) as visit:
        assert visit.open("/").status == status


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("text/html", b""),
        ("text/html", b" \n\t"),
        ("text/html", b"<!-- nothing -->"),
        ("text/html", b"<"),
        ("text/html; charset=unheard-of", b"<p>x</p>"),
        ("text/html; charset=utf-16", b"<p>x</p>"),
        ("text/html", b"<a href='x'><form><label><select name=q><option></b></i></form></table>"),
        ("text/html", b"<frameset><frame src=x></frameset>"),
        ("application/json", b'{"error": "<b>no</b>"}'),
        ("application/json", b"[]"),
        ("image/png", b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe\x00"),
        ("application/octet-stream", bytes(range(256))),
        ("text/xml", b"<?xml version='1.0' encoding='utf-16'?><a>x</a>"),
    ],
)
def test_an_answer_that_is_no_sound_page_can_be_read_and_searched(kind: str, content: bytes) -> None:
    with session({"/": httpx2.Response(200, headers={"content-type": kind}, content=content)}) as visit:
        shown = visit.open("/")
    assert isinstance(shown.text(), str)
    shown.text().encode()
    shown.links()
    for look in (shown.link, shown.field, shown.button):
        with pytest.raises(Absent):
            look("Search")


@given(st.binary(max_size=200))
def test_no_answer_makes_reading_fail(content: bytes) -> None:
    with session({"/": httpx2.Response(200, content=content)}) as visit:
        shown = visit.open("/")
    shown.text().encode()
    shown.links()


@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1"])
def test_the_charset_of_the_answer_is_believed(charset: str) -> None:
    kind = f"text/html; charset={charset}"
    answer = httpx2.Response(200, headers={"content-type": kind}, content="<p>Zürich · 9</p>".encode(charset))
    with session({"/": answer}) as visit:
        assert visit.open("/").text() == "Zürich · 9"


def test_a_page_says_its_blocks_in_order_without_addresses() -> None:
    body = '<h1>Boats</h1><p>Two <b>boats</b></p><ul><li><a href="/i/abc/x">One</a></li></ul><button>Go</button>'
    assert opened(body).text() == "Boats\nTwo boats\n[a] One\n[button] Go"
    assert len(opened("<p>long</p>" * LONGEST_TEXT).text()) == LONGEST_TEXT


def harbour_pages(web: TestClient, instances: Instances[Harbour], seed: int) -> list[str]:
    """What an agent reads on the way to a boat, in an instance of its own."""
    root = f"http://site.test/i/{instances.mint(seed)}/"

    def relay(request: httpx2.Request) -> httpx2.Response:
        answer = web.get(str(request.url))
        return httpx2.Response(answer.status_code, content=answer.content)

    with Session(root, transport=httpx2.MockTransport(relay)) as visit:
        home = visit.open("/")
        boats = visit.open(home.link("Boats for sale").path)
        boats.choose("Make", "Sea Ray")
        found = visit.submit(boats, "Search")
        shown = [home, boats, found, visit.open(found.link("Sea Ray").path), visit.open("/nowhere")]
        texts = [each.text() for each in shown]
    assert all(root not in text and drift_family(seed).search not in text and "/i/" not in text for text in texts)
    return texts


@pytest.mark.parametrize(
    "seed", [next(seed for seed in range(9) if drift_family(seed) is CANONICAL), 10_000, 10_001, 3]
)
def test_two_instances_of_a_seed_read_the_same(seed: int) -> None:
    instances = Instances(Harbour)
    with TestClient(page_app(instances)) as web:
        assert harbour_pages(web, instances, seed) == harbour_pages(web, instances, seed)
