"""A small site that a project knows as it knows a stranger's: registered with its suite file, probed and admitted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agents.suites.suite_file import suite_text
from api.environments.connect import TOKEN
from eventlog.events import SeedSpan, Step, Suite, SuiteSeeds, SuiteTask
from tests.killing import Project

from .grammar import DeskKind
from .serving import serve_desk
from .site import template_of

FEWEST = SuiteSeeds(training=SeedSpan(first=0, last=999), sealed=SeedSpan(first=10_000, last=10_039))
"""So many sealed seeds that the gate's rules allow a verdict, and no more."""


def desk_suite(desk: DeskKind, plan: tuple[Step, ...] | None = None, seeds: SuiteSeeds = FEWEST) -> Suite:
    """The suite of a small site, with the plan of somebody who knows none of its obstacles unless another is given."""
    tasks = (SuiteTask(id=desk.task, plan=plan or template_of(desk).plan_steps),)
    return Suite(name=desk.words.site, environment=desk.words.site, seeds=seeds, tasks=tasks)


@contextmanager
def registered_desk(
    project: Project, desk: DeskKind, plan: tuple[Step, ...] | None = None, seeds: SuiteSeeds = FEWEST
) -> Iterator[None]:
    """Serve a small site until the block ends, and let the project's own commands register, probe and admit it."""
    name, file = desk.words.site, project.folder / f"{desk.words.site}.json"
    file.write_text(suite_text(desk_suite(desk, plan, seeds)), "utf-8")
    with serve_desk(desk) as site, pytest.MonkeyPatch.context() as patch:
        patch.setenv(TOKEN, site.admin_token)
        place = ("--url", site.url, "--admin-url", site.admin_url)
        project.completed(project.begun(("env", "add", name, *place, "--suite", str(file))))
        project.completed(project.begun(("env", "probe", name)))
        yield
