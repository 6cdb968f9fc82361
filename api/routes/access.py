"""Access over HTTP: a bearer token whose hash the log knows and whose role suffices.

Only the projection of tokens has to be up for this.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from eventlog.events import TokenRole
from eventlog.store import Position
from projections.access import ACCESS, TokenState
from projections.engine.builds import bookmarks
from projections.engine.views import PostgresViews
from projections.errors import ProjectionParked

from ..house import House
from ..tokens import has_any, holder
from .as_of import HouseOf, mark
from .errors import NotAuthorized
from .rates import take_request
from .roles import check_role, least_role

_BEARER = HTTPBearer(auto_error=False, description="a token of `flywheel token issue NAME`")

Presented = Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]


def caller(request: Request, house: HouseOf, presented: Presented) -> TokenState:
    """The caller's token, whose role may call this route.

    Raises NotAuthorized, TooManyRequests, RoleTooLow, ProjectionParked.
    """
    return admit_token(request, house, presented, least_role(request.method, request.scope["path"]))


def admit_token(
    request: Request, house: House, presented: HTTPAuthorizationCredentials | None, least: TokenRole
) -> TokenState:
    """The token that was presented, if its role suffices. Raises as `caller` does."""
    if presented is None:
        raise NotAuthorized(actual="No bearer token was presented")
    found = house.known_tokens.find(presented.credentials)
    if found is None:
        found, upto = _read_token(house, presented.credentials)
        mark(request, upto)
    return allow_token(request, house, found, least)


def allow_token(request: Request, house: House, found: TokenState, least: TokenRole) -> TokenState:
    """An accepted token, if its role suffices, counted among its requests. Raises TooManyRequests, RoleTooLow."""
    take_request(request, house, f"The token {found.token!r}")
    check_role(found, least, f"call {request.method} {request.scope['path']}")
    return found


def _read_token(house: House, presented: str) -> tuple[TokenState, Position]:
    """The token in the log, and the position of the reading. Raises NotAuthorized, ProjectionParked."""
    views = access_views(house)
    found = holder(views, presented)
    if found is None:
        known = "The bearer token is not accepted" if has_any(views) else "No token was issued yet"
        raise NotAuthorized(actual=known)
    house.known_tokens.keep(views)
    return found, views.upto


Caller = Annotated[TokenState, Depends(caller)]


def access_views(house: House) -> PostgresViews:
    """Views of the tokens at the head; the other projections are not waited for. Raises ProjectionParked."""
    reached = house.gatekeeper.catch_up()
    (bookmark,) = bookmarks(house.engine, (ACCESS,))
    if bookmark.parked_at is not None:
        raise ProjectionParked(
            projection=bookmark.projection, position=bookmark.parked_at, actual=bookmark.parked_error
        )
    return PostgresViews(house.engine, house.store, reached)
