"""Shipped plans of the built-in tasks, as a person would write them after reading a task's instruction."""

from __future__ import annotations

from collections.abc import Mapping

from eventlog.events import Step, Template

from .errors import UnknownTemplate

_OPEN = Step(type="navigate", intent="open the boats page", url="/boats")
_SEARCH = Step(type="submit", intent="search", label="Search")
_CHEAPEST_FIRST = Step(
    type="select_option", intent="sort from low to high", label="Sort by", value="Price: low to high"
)
_OWNERS = Step(type="select_option", intent="private owners only", label="Seller", value="Private owner")

_START = Step(type="navigate", intent="start on the first page", url="/")
_DEAREST_FIRST = Step(type="select_option", intent="sort from high to low", label="Sort by", value="Price: high to low")
_OPEN_INBOX = (_START, Step(type="click", intent="open the inbox", label="Inbox"))


def _dealers(make: str, most: str) -> tuple[Step, ...]:
    """Steps from the first page to the dearest boat of a make that dealers offer below a maximum price."""
    return (
        _START,
        Step(type="click", intent="look at the boats", label="Boats for sale"),
        Step(type="select_option", intent="choose the make", label="Make", value=make),
        Step(type="select_option", intent="dealers only", label="Seller", value="Dealer"),
        Step(type="fill_field", intent="limit the price", label="Maximum price", value=most),
        _DEAREST_FIRST,
        _SEARCH,
        Step(type="click", intent="open the dearest one", label=make),
    )


def _tickets(topic: str, *, plan: str | None = None, oldest_first: bool = False) -> tuple[Step, ...]:
    """Steps that filter the inbox for the new tickets of a topic."""
    plans = () if plan is None else (Step(type="select_option", intent="choose the plan", label="Plan", value=plan),)
    oldest = Step(type="select_option", intent="the oldest first", label="Sort by", value="Oldest first")
    return (
        Step(type="select_option", intent="choose the topic", label="Topic", value=topic),
        *plans,
        Step(type="select_option", intent="what has just come", label="Status", value="New"),
        *((oldest,) if oldest_first else ()),
        Step(type="submit", intent="show them", label="Show"),
    )


PLANS: Mapping[str, tuple[Step, ...]] = {
    "marketplace.lead_filtered_search": (
        _OPEN,
        Step(type="select_option", intent="choose the make", label="Make", value="Bayliner"),
        _OWNERS,
        Step(type="fill_field", intent="limit the price", label="Maximum price", value="40000"),
        _CHEAPEST_FIRST,
        _SEARCH,
        Step(type="click", intent="open the cheapest one", label="Bayliner"),
        Step(type="fill_field", intent="say who asks", label="Your name", value="Alex Morgan"),
        Step(type="fill_field", intent="say where to answer", label="Email", value="alex.morgan@example.com"),
        Step(type="fill_field", intent="ask", label="Message", value="Is it still available?"),
        Step(type="submit", intent="request details", label="Request details"),
    ),
    "marketplace.phone_reveal": (
        _OPEN,
        Step(type="select_option", intent="choose the make", label="Make", value="Sea Ray"),
        Step(type="select_option", intent="choose the state", label="State", value="Florida"),
        _OWNERS,
        _CHEAPEST_FIRST,
        _SEARCH,
        Step(type="click", intent="open the cheapest one", label="Sea Ray"),
        Step(type="submit", intent="show its phone number", label="Show phone number"),
    ),
    "marketplace.engine_spec": (
        *_dealers("Cobalt", "60000"),
        Step(type="click", intent="look at the papers", label="Papers of this boat"),
        Step(type="click", intent="look for the engine", label="Engine log"),
        Step(type="submit", intent="save the gear ratio", label="Save gear ratio"),
    ),
    "marketplace.phone_after_contact": (
        *_dealers("Grady-White", "60000"),
        Step(type="submit", intent="show its phone number", label="Show phone number"),
    ),
    "marketplace.price_watch": (
        *_dealers("Chaparral", "35000"),
        Step(type="click", intent="watch its price", label="Watch the price"),
        Step(type="fill_field", intent="say where to write", label="Email", value="alex.morgan@example.com"),
        Step(type="submit", intent="watch this boat", label="Watch this boat"),
    ),
    "marketplace.control_draw": (
        _START,
        Step(type="click", intent="read about the site", label="About"),
        Step(type="click", intent="go to the draw", label="Prize draw"),
        Step(type="fill_field", intent="say who enters", label="Email", value="alex.morgan@example.com"),
        Step(type="submit", intent="enter the draw", label="Enter the draw"),
    ),
    "helpdesk.triage_inbox": (
        Step(type="navigate", intent="open the inbox", url="/inbox"),
        *_tickets("Billing", plan="Business"),
        Step(type="select_option", intent="choose the team", label="Team", value="Payments"),
        Step(type="select_option", intent="choose the priority", label="Priority", value="High"),
        Step(type="submit", intent="assign them", label="Assign checked tickets"),
    ),
    "helpdesk.macro_reply": (
        *_OPEN_INBOX,
        *_tickets("Shipping", plan="Starter", oldest_first=True),
        Step(type="click", intent="open the oldest one", label="Shipping"),
        Step(type="select_option", intent="choose the macro", label="Macro", value="Order is late"),
        Step(type="select_option", intent="answer in public", label="Seen by", value="Public reply"),
        Step(type="select_option", intent="set the status", label="New status", value="Pending"),
        Step(type="submit", intent="send the reply", label="Send"),
    ),
    "helpdesk.merge_duplicates": (
        *_OPEN_INBOX,
        *_tickets("Outage", oldest_first=True),
        Step(type="click", intent="open the oldest one", label="Outage"),
        Step(type="select_option", intent="of the same customer", label="Sent by", value="Same customer"),
        Step(type="submit", intent="look for duplicates", label="Find similar"),
        Step(type="submit", intent="merge them", label="Merge checked tickets into this one"),
    ),
    "helpdesk.control_callback": (
        _START,
        Step(type="click", intent="go to the call-backs", label="Call-backs"),
        Step(type="select_option", intent="in the morning", label="Slot", value="Morning"),
        Step(type="submit", intent="ask for a slot", label="Ask for a slot"),
    ),
}
"""Task id -> plan. Every literal is in the task's instruction or on the page it is used on."""

CLUSTER = "navigation"
CLUSTERS: Mapping[str, str] = {
    "marketplace.engine_spec": "knowledge",
    "marketplace.phone_after_contact": "policy",
    "marketplace.price_watch": "noise",
    "marketplace.control_draw": "control",
    "helpdesk.macro_reply": "policy",
    "helpdesk.merge_duplicates": "noise",
    "helpdesk.control_callback": "control",
}
"""Task id -> cluster, if it is not CLUSTER; a cluster names the kind of cure that its failures need."""


def templates(instructions: Mapping[str, str]) -> tuple[Template, ...]:
    """One template for each task of a site, sorted by task id. Raises UnknownTemplate for a task without a plan."""
    return tuple(template(task_id, instructions[task_id]) for task_id in sorted(instructions))


def template(task_id: str, instruction: str) -> Template:
    """The template of one task. Raises UnknownTemplate."""
    if task_id not in PLANS:
        raise UnknownTemplate(actual=task_id, expected=", ".join(sorted(PLANS)))
    return Template(
        template_id=task_id,
        cluster=CLUSTERS.get(task_id, CLUSTER),
        oracle_task_id=task_id,
        instruction=instruction,
        plan_steps=PLANS[task_id],
    )
