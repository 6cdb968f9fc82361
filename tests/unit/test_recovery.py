from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from lxml import html
from starlette.testclient import TestClient

from agents.envs.errors import EnvironmentDown
from agents.envs.sites.instances import Instances
from agents.envs.sites.marketplace.app import page_app
from agents.envs.sites.marketplace.drift import CANONICAL, SEALED, TRAINING, family_of
from agents.envs.sites.marketplace.instance import Harbour
from agents.envs.sites.marketplace.tasks import TASKS
from agents.learning import recovery
from agents.learning.recovery import MOST_PROPOSALS, Proposal, propose, related_links, transforms
from agents.plans import anchor_of, rewrite_id
from agents.rollouts import tasks
from eventlog.events import FollowLink, ReplaceUrl, SeedsRule, Step
from tests.unit.test_agent_samples import OPEN, ROOT, page, session

SELECT = Step(type="select_option", intent="choose the make", label="Make", value="Yamaha")
SUBMIT = Step(type="submit", intent="search", label="Search")
FORM = "<form><label>Make <select name=m><option>Yamaha</option></select></label><button>Search</button></form>"
HOME = '<a href="new">Boats for sale</a> <a href="advice">Advice</a>'
SITE: dict[str, httpx2.Response | str] = {"/": HOME, "/new": FORM, "/advice": "<p>Take a surveyor.</p>"}


def proposed(
    site: dict[str, httpx2.Response | str], following: Step | None = SELECT, failed: Step = OPEN
) -> tuple[Proposal, ...]:
    with session(site) as visit:
        return propose(failed, following, visit)


def changes(proposals: tuple[Proposal, ...]) -> list[ReplaceUrl | FollowLink]:
    return [proposal.change for proposal in proposals]


def test_a_link_that_shares_words_with_the_step_is_proposed_by_its_text_and_by_its_address() -> None:
    found = proposed(SITE)
    assert changes(found) == [FollowLink(page="/", label="Boats for sale"), ReplaceUrl(url="/new")]
    assert [proposal.confidence for proposal in found] == [750_000, 650_000]
    assert {proposal.anchor for proposal in found} == {anchor_of(OPEN)}
    assert {proposal.source for proposal in found} == {"page_links"}


def test_a_proposal_is_a_fact_with_the_rule_that_decides_it() -> None:
    rule = SeedsRule(wins_to_promote=5)
    event = proposed(SITE)[0].event("run-1", rule)
    assert (event.run, event.rule, event.confidence) == ("run-1", rule, 750_000)
    assert event.rewrite == rewrite_id(anchor_of(OPEN), FollowLink(page="/", label="Boats for sale"))


def test_a_page_that_opens_but_lacks_the_next_steps_control_is_not_proposed() -> None:
    assert proposed({**SITE, "/new": "<p>Boats, and no form.</p>"}) == ()
    assert len(proposed({**SITE, "/new": "<p>Boats, and no form.</p>"}, following=None)) == 2


@pytest.mark.parametrize(
    ("following", "is_there"),
    [
        (SELECT, True),
        (SUBMIT, True),
        (Step(type="submit", intent="x", label="Find"), False),
        (Step(type="fill_field", intent="x", label="Make", value="1"), True),
        (Step(type="click", intent="x", label="Bayliner"), False),
        (Step(type="navigate", intent="x", url="/elsewhere"), True),
        (None, True),
    ],
)
def test_the_step_that_follows_must_be_possible(following: Step | None, is_there: bool) -> None:
    assert bool(proposed(SITE, following)) == is_there


@pytest.mark.parametrize("status", [404, 410, 500])
def test_a_page_that_does_not_open_is_not_proposed(status: int) -> None:
    assert proposed({**SITE, "/new": page(FORM, status)}) == ()


@pytest.mark.parametrize(
    "failed",
    [
        SELECT,
        SUBMIT,
        Step(type="click", intent="open the boats page", label="Boats"),
        Step(type="fill_field", intent="boats", label="Boats", value="1"),
        Step(type="navigate", intent="open the boats page"),
    ],
)
def test_nothing_is_proposed_for_a_failure_that_is_no_address(failed: Step) -> None:
    def never(request: httpx2.Request) -> httpx2.Response:
        raise AssertionError(request.url)

    with session(never) as visit:
        assert propose(failed, SELECT, visit) == ()


def test_what_is_proposed_was_tried_in_the_runs_own_instance_and_changed_nothing() -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return page(HOME + FORM)

    with session(answer) as visit:
        found = propose(OPEN, SELECT, visit)
    assert found
    assert all(str(request.url).startswith(ROOT) and request.method == "GET" for request in asked)
    opened = {"/" + str(request.url).removeprefix(ROOT) for request in asked}
    assert {change.url for change in changes(found) if isinstance(change, ReplaceUrl)} <= opened


def test_an_address_that_only_wants_another_slash_is_found() -> None:
    found = proposed({"/": "<p>Nothing.</p>", "/boats/": FORM})
    assert changes(found) == [ReplaceUrl(url="/boats/")]
    assert found[0].source == "pattern_transform"


@pytest.mark.parametrize(
    ("url", "variants"),
    [
        ("/boats", {"/boats/"}),
        ("/boats/", {"/boats"}),
        ("/", set()),
        ("/shop/fr", {"/shop/fr/", "/shop-fr"}),
        ("/shop-fr/all", {"/shop-fr/all/", "/shop/fr/all"}),
        ("/Boats", {"/Boats/", "/boats"}),
    ],
)
def test_addresses_that_often_stand_for_the_same_page(url: str, variants: set[str]) -> None:
    assert {variant for variant, _ in transforms(url)} == variants


def many_links(order: list[int]) -> str:
    return "".join(f'<a href="b{number}">Boats page {number}</a>' for number in order)


def test_the_order_of_proposals_is_by_confidence_then_by_name_and_at_most_a_few() -> None:
    site: dict[str, httpx2.Response | str] = {f"/b{number}": FORM for number in range(9)}
    first = proposed({**site, "/": many_links([3, 1, 2, 0])})
    again = proposed({**site, "/": many_links([0, 2, 1, 3])})
    assert first == again
    assert len(first) == MOST_PROPOSALS
    keys = [(-proposal.confidence, rewrite_id(proposal.anchor, proposal.change)) for proposal in first]
    assert keys == sorted(keys)


def test_links_are_ranked_by_shared_words_and_a_text_counts_once() -> None:
    step = Step(type="navigate", intent="open the used boats list", url="/boats/used")
    body = '<a href="a">Used boats list</a><a href="b">Used boats list</a><a href="c">Boats</a><a href="d">Advice</a>'
    with session({"/": body}) as visit:
        ranked = related_links(step, visit.open("/"))
    assert [(link.text, link.path, share) for link, share in ranked] == [
        ("Used boats list", "/a", 1_000_000),
        ("Boats", "/c", 333_333),
    ]


def test_a_site_that_goes_down_meanwhile_is_said() -> None:
    with session({"/": page("busy", 503)}) as visit, pytest.raises(EnvironmentDown):
        propose(OPEN, SELECT, visit)


# What only the site's source knows ------------------------------------------------------------------------------------

FAMILIES = (CANONICAL, *TRAINING, *SEALED)
SOURCES = (Path(str(recovery.__file__)), Path(str(tasks.__file__)))
PLACEHOLDER = re.compile(r"\{[a-z]+\}")
WORD = re.compile(r"[\w.-]+")


def literals(source: Path) -> set[str]:
    """Every string literal of a module, docstrings and parts of f-strings included."""
    tree = ast.parse(source.read_text())
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def rendered(seed: int) -> Iterator[html.HtmlElement]:
    """One page of each kind, as the site renders it for a seed."""
    instances = Instances(Harbour)
    harbour = Harbour(seed)
    prefix, boat = f"/i/{instances.mint(seed)}", harbour.catalogue.boats[0]
    paths = [
        prefix + harbour.family.path(place, slug=boat.slug, number=boat.id) for place in ("search", "detail", "thanks")
    ]
    with TestClient(page_app(instances)) as web:
        for path in (f"{prefix}/", f"{prefix}/sell", f"{prefix}/nowhere", *paths):
            document = html.document_fromstring(web.get(path).text)
            html_prefix = prefix
            for element in document.iter():
                for name in ("href", "action"):
                    if element.get(name):
                        element.set(name, str(element.get(name)).removeprefix(html_prefix))
            yield document


SEEDS = tuple({family_of(seed).name: seed for seed in (*range(40), *range(10_000, 10_040))}.values())
PAGES = tuple(document for seed in SEEDS for document in rendered(seed))
INSTRUCTIONS = " ".join(task.instruction for task in TASKS)
SHOWN = " ".join(str(text) for document in PAGES for text in document.xpath("//body//text()")).casefold()


def hidden_words() -> set[str]:
    """Names and ids of the site's fields and the values that they send, less what a person can read."""
    controls = "//*[self::input or self::select or self::textarea or self::button or self::option]"
    found = {
        str(value)
        for document in PAGES
        for value in document.xpath(f"{controls}/@name | {controls}/@value | //@id | //label/@for")
    }
    readable = {word.casefold() for word in WORD.findall(SHOWN + " " + INSTRUCTIONS.casefold())}
    return {value for value in found if value and value.casefold() not in readable}


def hidden_paths() -> set[str]:
    """The fixed parts of every address that a family or a rendered page has, less those in the instructions."""
    patterns = {
        getattr(family, place) for family in FAMILIES for place in ("search", "detail", "lead", "phone", "thanks")
    }
    addresses = {str(value) for document in PAGES for value in document.xpath("//form/@action | //nav//a/@href")}
    parts = {part for pattern in patterns | addresses for part in PLACEHOLDER.split(pattern.partition("?")[0])}
    shown = set(re.findall(r"/\w+", INSTRUCTIONS)) | {"/"}
    return {part for part in parts if "/" in part and part not in shown}


def test_the_samples_of_what_is_hidden_are_not_empty() -> None:
    assert {"mk", "slr", "pmax", "reply_to", "hl-s1", "hl-c3", "prv", "asc", "sea-ray"} <= hidden_words()
    assert {"/boats-for-sale", "/en/boats/", "/search.php", "/b/browse", "/inventory/unit-"} <= hidden_paths()
    assert {family.name for family in FAMILIES} == {family_of(seed).name for seed in SEEDS}


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_recovery_and_plans_hold_nothing_that_only_the_sites_source_says(source: Path) -> None:
    found = literals(source)
    assert len(found) > 20
    words = {word for literal in found for word in WORD.findall(literal)}
    assert words & hidden_words() == set()
    assert {(path, literal) for path in hidden_paths() for literal in found if path in literal} == set()
