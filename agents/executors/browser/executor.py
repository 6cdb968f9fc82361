"""The browser executor: walks plans in Chromium. Meaning and outcomes of steps are the same as over HTTP."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ...envs.contract import Instance
from ..executor import Assignment, Execution, Watch, no_verification
from ..walk import Pictures, walk_plan
from .chromium import Chromium

NAME: Final = "browser"


@dataclass(frozen=True, slots=True)
class BrowserExecutor:
    """Executor in a shared browser, with a separate context for each run. `pictures` selects the kept screenshots."""

    chromium: Chromium
    pictures: Pictures = "pages"
    name: str = NAME
    offers_logprobs: bool = False

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        """See Executor."""
        with self.chromium.visit(instance.url, assignment.profile, assignment.page_headers) as surface:
            found = walk_plan(
                assignment.plan, surface, max_steps=assignment.max_steps, watch=watch, pictures=self.pictures
            )
            return replace(found, profile=surface.profile())
