"""Rights of a token's holder over HTTP, by role. Pure.

Each role may do what the roles before it may. An event type that `EVENTS` does not list is refused to every role.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, get_args

from eventlog.events import TokenRole
from projections.access import TokenState

from .errors import RoleTooLow

ALL_RESULTS: Final[TokenRole] = "admin"
"""The role that reads raw events of sealed runs while their benchmark can judge."""

RUNS_OF_OTHERS: Final[TokenRole] = "operate"
"""The least role that may write to runs which another token opened."""

RANKS: Final[tuple[str, ...]] = get_args(TokenRole)

ROUTES: Final[Mapping[tuple[str, str], TokenRole]] = {
    ("GET", "/v1/blobs"): "admin",
    ("GET", "/v1/tokens"): "admin",
    ("GET", "/v1/webhooks"): "admin",
    ("GET", "*"): "read",
    ("POST", "/v1/blobs"): "ingest",
    ("POST", "/v1/events"): "ingest",
    ("POST", "/v1/runs/*/opinion"): "ingest",
    ("POST", "/v1/runs/*/reward"): "ingest",
    ("POST", "/v1/predict"): "operate",
    ("POST", "/v1/predict/*/cancel"): "operate",
    ("POST", "/v1/predict/*/resume"): "operate",
    ("POST", "/v1/slices"): "operate",
    ("POST", "/v1/traces"): "ingest",
}
"""The least role that may call a route: the first that fits; `*` is any text. What is not listed needs `admin`."""

EVENTS: Final[Mapping[str, TokenRole]] = {
    "RunStarted": "ingest",
    "InstanceReset": "ingest",
    "StepTaken": "ingest",
    "ModelCalled": "ingest",
    "RunFinished": "ingest",
    "RunMissing": "ingest",
    "RewardGraded": "ingest",
    "PriceBookSet": "operate",
}
"""The least role that may append an event of a type. What our own runs cost and are worth rests on prices."""


def least_role(method: str, path: str) -> TokenRole:
    """The least role that may call a route."""
    named = (role for (verb, pattern), role in ROUTES.items() if verb == method and fnmatchcase(path, pattern))
    return next(named, "admin")


def has_role(holder: TokenState, least: TokenRole) -> bool:
    """True if a token's role is at least `least`."""
    return holder.role in RANKS and RANKS.index(holder.role) >= RANKS.index(least)


def check_role(holder: TokenState, least: TokenRole, what: str) -> None:
    """Raise RoleTooLow unless a token's role is at least `least`. `what` says what its holder wants to do."""
    if not has_role(holder, least):
        raise RoleTooLow(what=what, token=holder.token, actual=holder.role, expected=least)
