"""A small site as an app, and its task with the plan of somebody who knows none of its obstacles."""

from __future__ import annotations

from agents.envs.contract import TaskText
from agents.envs.sites.admin import admin_app
from agents.envs.sites.conditions import CLEAR, Conditions
from agents.envs.sites.instances import Instances
from agents.envs.sites.site import Apps, SiteKind
from agents.envs.sites.visits import instance_app
from eventlog.events import Step, Template

from .desk import NAME, Desk
from .grammar import DeskKind
from .pages import answer


def desk_site(desk: DeskKind) -> SiteKind:
    """The site of a kind, to be served."""
    words = desk.words
    tasks = (TaskText(task_id=desk.task, instruction=template_of(desk).instruction, cluster="desk"),)

    def build(page_base: str, token: str, conditions: Conditions = CLEAR) -> Apps:
        instances = Instances(lambda seed, repeat=0: Desk(desk, seed, repeat=repeat), conditions=conditions)
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
