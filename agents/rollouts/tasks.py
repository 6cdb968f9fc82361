"""The tasks we ship plans for: what a person would write down after reading a task's instruction."""

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
}
"""Task id -> plan. Every literal is in the task's instruction or on the page it is used on."""

CLUSTER = "navigation"


def templates(instructions: Mapping[str, str]) -> tuple[Template, ...]:
    """One template for each task of a site, by task id. Raises UnknownTemplate for a task without a plan."""
    return tuple(template(task_id, instructions[task_id]) for task_id in sorted(instructions))


def template(task_id: str, instruction: str) -> Template:
    """The template of one task. Raises UnknownTemplate."""
    if task_id not in PLANS:
        raise UnknownTemplate(actual=task_id, expected=", ".join(sorted(PLANS)))
    return Template(
        template_id=task_id,
        cluster=CLUSTER,
        oracle_task_id=task_id,
        instruction=instruction,
        plan_steps=PLANS[task_id],
    )
