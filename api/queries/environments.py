"""Environments: what the newest probe found, and since when each is admitted."""

from __future__ import annotations

import msgspec

from projections.engine.views import Views
from projections.environments import ENVIRONMENTS, EnvironmentState

from .paging import page_after


class EnvironmentPage(msgspec.Struct, frozen=True, kw_only=True):
    """Environments in order of name; `next` is the name to continue after, null where no more follow."""

    environments: tuple[EnvironmentState, ...]
    next: str | None


def list_environments(views: Views, *, after: str | None = None, limit: int | None = None) -> EnvironmentPage:
    """A page of the environments that were probed."""
    page, following = page_after(views, ENVIRONMENTS, after, limit)
    return EnvironmentPage(environments=tuple(page.values()), next=following)
