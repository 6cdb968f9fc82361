"""Predictions: runs that were asked for over REST, and those that were called off."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .event import Count, Digest, Event, Name


class RunRequested(Event):
    """The holder of a token asked for a run, planned in the same transaction. `request` is the digest of the body."""

    type: Literal["RunRequested"] = "RunRequested"
    run: Name
    sweep: Name
    environment: Name
    by: Name
    request: Digest


class RunCancelled(Event):
    """A run that was asked for is called off: nobody begins it any more, and one under way has no result."""

    type: Literal["RunCancelled"] = "RunCancelled"
    run: Name
    by: Name


class RunTermsSet(Event):
    """Limits on the cost and time of a requested run, and the headers that its pages need.

    The value of a header is the name of a variable of the worker. None: no limit beside the worker's own. `instance` is
    the SHA-256 of the id of an instance that the caller opened and closes: the run is played on that one alone. A run
    that `is_sealed` is graded by its caller alone: its grade and end state are not recorded here.
    """

    type: Literal["RunTermsSet"] = "RunTermsSet"
    run: Name
    max_micro_dollars: Count | None
    max_seconds: Count | None
    page_headers: tuple[tuple[str, str], ...]
    instance: Annotated[Digest | None, Field(exclude_if=lambda instance: instance is None)] = None
    is_sealed: Annotated[bool, Field(exclude_if=lambda is_sealed: not is_sealed)] = False
