from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from lxml import html
from starlette.testclient import TestClient

from agents.envs import sites
from agents.envs.errors import EnvironmentDown
from agents.envs.sites.instances import Instances
from agents.envs.sites.marketplace.app import page_app
from agents.envs.sites.marketplace.drift import CANONICAL, SEALED, TRAINING, drift_family
from agents.envs.sites.marketplace.instance import Harbour
from agents.envs.sites.marketplace.tasks import TASKS
from agents.executors.inspection import inspect_after
from agents.learning import recovery
from agents.learning.inspection import Inspection
from agents.learning.recovery.addresses import transforms
from agents.learning.recovery.budgets import BUDGETS, Budgets
from agents.learning.recovery.failing import failed_run
from agents.learning.recovery.proposal import Proposal
from agents.learning.recovery.recover import Recovered, recover
from agents.models.model import Offers
from agents.models.scripted import Scripted
from agents.plans import Overlaid, Piece, Plan, anchor_of, apply_overlay, rewrite_id
from eventlog.events import (
    EditStep,
    FollowLink,
    HintRecorded,
    InsertSteps,
    PreferTarget,
    ReplaceUrl,
    RewriteProposed,
    SeedsRule,
    Step,
)
from tests.unit.test_agent_samples import OPEN, ROOT, Answer, page, session

SELECT = Step(type="select_option", intent="choose the make", label="Make", value="Yamaha")
SUBMIT = Step(type="submit", intent="search", label="Search")
FORM = "<form><label>Make <select name=m><option>Yamaha</option></select></label><button>Search</button></form>"
HOME = '<a href="new">Boats for sale</a> <a href="advice">Advice</a>'
SITE: dict[str, httpx2.Response | str] = {"/": HOME, "/new": FORM, "/advice": "<p>Take a surveyor.</p>"}


Site = dict[str, httpx2.Response | str]


class Around:
    """A site that is as it was at every look."""

    def __init__(self, site: Site | Answer) -> None:
        self.site = site
        self.walks: list[Plan] = []

    def after(self, steps: Plan) -> Inspection:
        self.walks.append(steps)
        with session(self.site) as visit:
            return inspect_after(steps, visit)


def recovered(site: Site | Answer, plan: Plan, at: int | None, budgets: Budgets = BUDGETS) -> Recovered:
    """What recovery makes of a run of a plan that failed at a step."""

    def overlay(piece: Piece | None) -> Overlaid:
        return apply_overlay(plan, [] if piece is None else [piece])

    return recover("run-1", failed_run("marketplace", plan, overlay, at, 40), Around(site), budgets)


def proposed(site: Site | Answer, following: Step | None = SELECT, failed: Step = OPEN) -> tuple[Proposal, ...]:
    plan = (failed,) if following is None else (failed, following)
    return tuple(each for each in recovered(site, plan, 0).proposals if each.mode == "edit_step")


def changes(proposals: tuple[Proposal, ...]) -> list[object]:
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
    assert isinstance(event, RewriteProposed)
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


def test_what_is_proposed_was_tried_in_the_runs_own_instance_and_changed_nothing() -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return page(HOME + FORM)

    found = proposed(answer)
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
    assert len(first) == BUDGETS.per_step
    keys = [(-proposal.confidence, rewrite_id(proposal.anchor, proposal.change)) for proposal in first]
    assert keys == sorted(keys)


class Closing(Around):
    """A site that is gone after so many looks."""

    def __init__(self, site: Site, looks: int) -> None:
        super().__init__(site)
        self.looks = looks

    def after(self, steps: Plan) -> Inspection:
        if len(self.walks) == self.looks:
            raise EnvironmentDown(url=ROOT, operation="get", actual="gone", timeout_s=1, expected="an answer")
        return super().after(steps)


def test_what_was_found_before_a_site_fails_stands_and_the_failure_is_said() -> None:
    def overlay(piece: Piece | None) -> Overlaid:
        return apply_overlay((OPEN, SELECT), [] if piece is None else [piece])

    run = failed_run("marketplace", (OPEN, SELECT), overlay, 0, 40)
    whole = Around(SITE)
    every = recover("run-1", run, whole).proposals
    found = [recover("run-1", run, Closing(SITE, looks)) for looks in range(len(whole.walks))]
    assert [each.decided[-1].reason for each in found] == ["site_failed"] * len(found)
    assert all(each.proposals == every[: len(each.proposals)] for each in found)
    assert (found[0].proposals, found[-1].proposals) == ((), every)
    decided = found[-1].decided
    assert [name for each in decided for name in each.proposed] == [each.name for each in every]


# Hints: another target that is seen ---------------------------------------------------------------------------------

START = Step(type="navigate", intent="start", url="/")
LOOK = Step(type="click", intent="look for the gear ratio", label="Log")
SAVE = Step(type="submit", intent="save it", label="Save gear ratio")
PAPERS: Site = {
    "/": '<a href="papers/7">Papers</a>',
    "/papers/7": '<a href="log">Log</a><a href="report">Report</a><a href="manual">Manual</a>',
    "/papers/log": "<form><button>Oil change</button></form>",
    "/papers/report": '<a href="/i/abc/papers/inner">Further in</a>',
    "/papers/manual": "<p>Keep it dry.</p>",
    "/papers/inner": "<form><button>Save gear ratio</button></form>",
}
TO_PAPERS = Step(type="click", intent="look at the papers", label="Papers")


def test_a_step_before_the_failed_one_gets_a_hint_of_the_way_on_which_the_failed_one_can_be_done() -> None:
    found = recovered(PAPERS, (START, TO_PAPERS, LOOK, SAVE), 3)
    assert changes(found.proposals) == [PreferTarget(label="Report", then=("Further in",))]
    event = found.proposals[0].event("run-1", SeedsRule())
    assert isinstance(event, HintRecorded)
    assert event.occasion.model_dump() == {
        "environment": "marketplace",
        "type": "click",
        "intent": "look for the gear ratio",
        "page": "/papers/*",
    }
    assert event.content == found.proposals[0].content.digest
    assert json.loads(found.proposals[0].content.body) == {
        "text": "To look for the gear ratio, go for “Report”, then “Further in”.",
        "change": {"kind": "prefer_target", "label": "Report", "then": ["Further in"]},
    }


def test_a_failed_step_gets_a_hint_of_a_control_that_shares_words_with_it() -> None:
    found = recovered({"/": "<form><button>Save the ratio</button><button>Leave</button></form>"}, (START, SAVE), 1)
    assert changes(found.proposals) == [PreferTarget(label="Save the ratio")]
    assert [(each.mode, each.step, each.tried, each.reason) for each in found.decided] == [
        ("add_hint", 1, 1, "proposed"),
        ("insert_steps", 1, 2, "nothing_worked"),
    ]


def test_an_option_that_is_called_otherwise_is_an_edit_of_the_choice() -> None:
    sort = Step(type="select_option", intent="sort", label="Sort", value="Price: low to high")
    form = "<form><label>Sort <select name=s><option>Newest</option><option>Price low first</option></select></label>"
    found = recovered({"/": form + "<button>Go</button></form>"}, (START, sort), 1)
    assert EditStep(step=sort.model_copy(update={"value": "Price low first"})) in changes(found.proposals)


# Inserted steps: what was left alone --------------------------------------------------------------------------------

SEND = Step(type="submit", intent="send it", label="Send")
QUIET = Step(type="select_option", intent="choose No as Quote", label="Quote", value="No", optional=True)
REPLY = """<form method="post" action="sent"><label>Quote <select name="q"><option value="y">Yes</option>
<option value="n">No</option></select></label><button>Send</button></form>
<form action="other"><label>Side <select name="o"><option>A</option><option>B</option></select></label>
<button>Look</button></form>"""


def test_a_run_in_which_each_step_went_well_gets_the_switches_that_its_last_form_has_and_the_plan_leaves_alone() -> (
    None
):
    found = recovered({"/": REPLY, "/sent": "<p>Thank you.</p>"}, (START, SEND), None)
    assert changes(found.proposals) == [InsertSteps(steps=(QUIET,), where="before")]
    assert [each.name for each in found.proposals] == list(found.decided[0].proposed)


def test_what_must_be_pressed_first_is_found_where_the_last_button_did_nothing_before() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        path = "/" + str(request.url).removeprefix(ROOT)
        if request.method == "POST":
            path += "?asked" if path == "/ask" else ""
        body = '<form method="post" action="/i/abc/{}"><button>Show</button></form>'
        other = '<form method="post" action="/i/abc/ask"><button>Ask first</button></form>'
        idle = '<form method="post" action="/i/abc/idle"><button>Idle</button></form>'
        shown = "<p>555-0100</p>" if path == "/shown" else ""
        return page(shown + body.format("shown" if path == "/ask?asked" else "nothing") + other + idle)

    show = Step(type="submit", intent="show the number", label="Show")
    found = recovered(answer, (START, show), None)
    pressed = Step(type="submit", intent="press Ask first", label="Ask first", optional=True)
    assert changes(found.proposals) == [InsertSteps(steps=(pressed,), where="before")]


HIDDEN: Site = {"/": "<p>Nothing.</p>", "/hidden": "<form><button>Locate</button></form>"}
FIND = (START, Step(type="submit", intent="find it", label="Locate"))
DONE: Site = {"/": '<form method="post" action="sent"><button>Send</button></form>', "/sent": "<p>Thank you.</p>"}
DID = (START, Step(type="submit", intent="send it", label="Send"))
KEEPS_WORKING = '{"where": "before", "action": "navigate", "target": "/", "value": ""}'
SCHEMALESS = Offers(logprobs=False, token_ids=False, seed=False, images=False, schema=False)


def advised(
    answer: str | Scripted, site: Site = HIDDEN, plan: Plan = FIND, at: int | None = 1, budgets: Budgets = BUDGETS
) -> Recovered:
    def overlay(piece: Piece | None) -> Overlaid:
        return apply_overlay(plan, [] if piece is None else [piece])

    model = Scripted([answer]) if isinstance(answer, str) else answer
    return recover("run-1", failed_run("marketplace", plan, overlay, at, 40), Around(site), budgets, model)


def test_a_model_is_asked_where_nothing_else_worked_and_what_it_says_is_tried() -> None:
    found = advised('{"where": "before", "action": "navigate", "target": "/hidden", "value": ""}')
    step = Step(type="navigate", intent="navigate /hidden", url="/hidden", optional=True)
    assert changes(found.proposals) == [InsertSteps(steps=(step,), where="before")]
    assert found.proposals[0].source == "model"
    assert found.exchange is not None
    assert [(each.mode, each.reason) for each in found.decided] == [("insert_steps", "proposed")]


@pytest.mark.parametrize(
    "answer",
    [
        "Try harder.",
        '{"where": "before", "action": "navigate", "target": "/elsewhere", "value": ""}',
        '{"where": "before", "action": "navigate", "target": "//elsewhere.test/hidden", "value": ""}',
        '{"where": "before", "action": "navigate", "target": "http://elsewhere.test/hidden", "value": ""}',
        '{"where": "before", "action": "navigate", "target": "/hidden\\u0000", "value": ""}',
    ],
)
def test_a_model_that_says_nothing_that_works_ends_in_a_halt(answer: str) -> None:
    found = advised(answer)
    assert found.proposals == ()
    assert found.exchange is not None
    assert found.decided[-1].mode == "halt"


@pytest.mark.parametrize(
    "answer",
    [
        '{"where": "before", "action": "click", "target": "Nowhere", "value": ""}',
        '{"where": "instead", "action": "submit", "target": "Send", "value": ""}',
    ],
)
def test_where_each_step_went_well_what_a_model_says_must_be_there_and_change_the_plan(answer: str) -> None:
    assert len(advised(KEEPS_WORKING, DONE, DID, None).proposals) == 1
    found = advised(answer, DONE, DID, None)
    assert found.proposals == ()
    assert [each.reason for each in found.decided] == ["nothing_worked", "nothing_worked"]


def test_what_the_site_fails_in_takes_nothing_from_what_a_model_was_asked() -> None:
    class Gone(Around):
        def after(self, steps: Plan) -> Inspection:
            if any(step.url == "/hidden" for step in steps):
                raise EnvironmentDown(url=ROOT, operation="get", actual="gone", timeout_s=1, expected="an answer")
            return super().after(steps)

    run = failed_run("marketplace", FIND, lambda piece: apply_overlay(FIND, [] if piece is None else [piece]), 1, 40)
    answer = '{"where": "before", "action": "navigate", "target": "/hidden", "value": ""}'
    found = recover("run-1", run, Gone(HIDDEN), BUDGETS, Scripted([answer]))
    assert found.proposals == ()
    assert found.exchange is not None


def test_a_model_that_keeps_to_no_schema_is_asked_without_and_told_the_shape() -> None:
    model = Scripted(['{"where": "before", "action": "navigate", "target": "/hidden", "value": ""}'], offers=SCHEMALESS)
    assert len(advised(model).proposals) == 1
    assert [request.schema for request in model.requests] == [None]
    assert '"where"' in model.requests[0].messages[0].text


def test_where_no_look_is_left_no_model_is_asked() -> None:
    model = Scripted([])
    assert advised(model, budgets=Budgets(looks=0)).decided[-1].reason == "budget_used_up"
    assert model.requests == ()


def test_where_there_is_nothing_to_try_recovery_halts_and_says_so() -> None:
    found = recovered(
        {"/": "<form><button>Draw</button></form>"}, (START, SEND.model_copy(update={"label": "Draw"})), None
    )
    assert found.proposals == ()
    assert [(each.mode, each.step, each.tried, each.reason) for each in found.decided] == [
        ("halt", 1, 0, "nothing_to_try")
    ]


@pytest.mark.parametrize(("looks", "why"), [(0, "budget_used_up"), (1, "no_such_control"), (5, "no_such_control")])
def test_no_more_looks_are_taken_than_the_budget_has(looks: int, why: str) -> None:
    plan = (START, TO_PAPERS, LOOK, SAVE)
    around = Around(PAPERS)
    run = failed_run("marketplace", plan, lambda piece: apply_overlay(plan, [] if piece is None else [piece]), 3, 40)
    found = recover("run-1", run, around, Budgets(looks=looks))
    assert len(around.walks) == looks
    assert [each.reason for each in found.decided if each.mode == "halt"] == [why]


def test_a_run_and_a_step_are_given_only_so_many_proposals() -> None:
    site: Site = {**{f"/b{number}": FORM for number in range(9)}, "/": many_links([0, 1, 2, 3])}
    assert len(recovered(site, (OPEN, SELECT), 0, Budgets(per_step=4)).proposals) == 4
    assert len(recovered(site, (OPEN, SELECT), 0, Budgets(per_step=4, per_run=1)).proposals) == 1


# What only the site's source knows ------------------------------------------------------------------------------------

FAMILIES = (CANONICAL, *TRAINING, *SEALED)
SOURCES = (
    *sorted(Path(str(recovery.__file__)).parent.glob("*.py")),
    *sorted(Path(str(sites.__file__)).parent.rglob("suite.toml")),
)
PLACEHOLDER = re.compile(r"\{[a-z]+\}")
WORD = re.compile(r"[\w.-]+")


def literals(source: Path) -> set[str]:
    """Every string of a suite file, or string literal of a module, docstrings and parts of f-strings included."""
    if source.suffix == ".toml":
        return set(re.findall(r'"([^"\n]*)"', source.read_text()))
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


SEEDS = tuple({drift_family(seed).name: seed for seed in (*range(40), *range(10_000, 10_040))}.values())
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
    assert {family.name for family in FAMILIES} == {drift_family(seed).name for seed in SEEDS}


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_recovery_and_plans_hold_nothing_that_only_the_sites_source_says(source: Path) -> None:
    found = literals(source)
    assert found
    words = {word for literal in found for word in WORD.findall(literal)}
    assert words & hidden_words() == set()
    assert {(path, literal) for path in hidden_paths() for literal in found if path in literal} == set()
