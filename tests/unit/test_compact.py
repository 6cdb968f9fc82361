"""A page as a model reads it."""

from __future__ import annotations

from agents.envs.clients.compact import LONGEST_VIEW, compact_view
from agents.envs.clients.pages import Page
from tests.unit.test_agent_samples import session


def opened(body: str) -> Page:
    with session({"/": body}) as visit:
        return visit.open("/")


PAGE = """
<title>Boats | Site</title><style>p {color: red}</style>
<h1>Boats</h1>
<p>Price <b>from</b> $3 <a href="/i/abc/b/1">A boat</a> and more</p>
<a href="/i/abc/b/2">Show</a><a href="/i/abc/b/3">Show</a><a href="http://else.test/">Elsewhere</a>
<a href="/i/abc/x"></a>
<table><tr><th>Year</th><td>2007</td></tr></table><dl><dt>Length</dt><dd>19 ft</dd></dl>
<p hidden>Not to be seen</p>
<form action="/i/abc/found">
  <input type="hidden" name="token" value="secret">
  <label for="f1">Make:</label><select id="f1" name="mk"><option>Any</option><option selected>Sea  Ray</option></select>
  <label>Maximum price <input name="pmax" value="5"></label>
  <label for="n">Notes *</label><textarea id="n" name="txt">two
lines</textarea>
  <label for="c">Only new</label><input id="c" name="new" type="checkbox" checked>
  <label for="p">Password</label><input id="p" name="pw" type="password" value="hunter2">
  <label for="gone">Lost</label>
  <input type="submit" value="Find"><button>Send</button>
</form><button>Outside</button>
"""


def test_headings_texts_links_fields_and_buttons_stand_in_the_order_of_the_page() -> None:
    assert compact_view(opened(PAGE)).splitlines() == [
        "page /, status 200",
        "title: Boats | Site",
        "# Boats",
        "Price from $3",
        "[link] A boat",
        "and more",
        "[link] Show -> /b/2",
        "[link] Show -> /b/3",
        "Elsewhere",
        "[link]  -> /x",
        "Year | 2007",
        "Length | 19 ft",
        '[choice] Make: "Sea Ray" of "Any", "Sea Ray"',
        '[field] Maximum price: "5"',
        '[field] Notes: "two lines"',
        '[choice] Only new: "checked" of "checked", "not checked"',
        '[field] Password: "set"',
        "Lost",
        "[button] Find",
        "[button] Send",
    ]


def test_what_was_filled_and_chosen_is_shown() -> None:
    page = opened(PAGE)
    page.fill("Maximum price", "40000")
    page.choose("Make", "Any")
    assert '[field] Maximum price: "40000"' in compact_view(page)
    assert '[choice] Make: "Any" of "Any", "Sea Ray"' in compact_view(page)


def test_a_long_page_keeps_its_controls_and_says_what_it_left_out() -> None:
    body = "".join(f"<p>{'word ' * 50}{number}</p>" for number in range(100))
    view = compact_view(opened(f"{body}<form><button>Send</button></form>"))
    lines = view.splitlines()
    assert lines[-2] == "[button] Send"
    shown = len(lines) - 3
    assert lines[-1] == f"({100 - shown} more lines are not shown)"
    assert 0 < shown < 100
    assert LONGEST_VIEW - 300 < len(view) - len(lines[-1]) <= LONGEST_VIEW


def test_a_page_of_nothing_but_links_is_bounded_too() -> None:
    body = "".join(f'<a href="/i/abc/{number}">{"w" * 90}{number}</a>' for number in range(500))
    view = compact_view(opened(body))
    assert len(view) <= LONGEST_VIEW + 50
    assert "more lines are not shown" in view


def test_an_empty_page_and_one_with_comments_are_read() -> None:
    assert compact_view(opened("<!-- nothing --><?x?>")) == "page /, status 200"
