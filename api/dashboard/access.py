"""Access to pages: signing in with a token, the session's cookie, the secret of forms, the roles of actions."""

from __future__ import annotations

import hmac
import secrets
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import Response

from eventlog.events import TokenRole
from projections.access import TokenState

from ..house import House
from ..routes.access import access_views
from ..routes.as_of import HouseOf, mark
from ..routes.errors import RoleTooLow
from ..routes.rates import take_request
from ..routes.roles import RANKS, check_role
from ..tokens import find_token, has_any, holder
from .errors import ForgedForm, SignedOut, TokenRefused
from .pages import PREFIX, redirect_to, render_page
from .sessions import LIFETIME_S, DashboardSession, Sessions

COOKIE: Final = "flywheel_session"
VISITOR: Final = "flywheel_visitor"
"""The cookie of a browser that is about to sign in; the form of the sign-in page repeats it."""

ACTOR: Final = "dashboard:{}"
"""The actor of what somebody does here; the braces stand for the name of the token."""

LEAST: Final[TokenRole] = "read"
OPERATOR: Final[TokenRole] = "operate"
"""The least role of whoever moves the champion, quarantines or withdraws."""

Text = Annotated[str, Form(max_length=400)]

router = APIRouter()


def sessions_of(request: Request) -> Sessions:
    """The sessions of the process."""
    found: Sessions = request.app.state.sessions
    return found


def signed_in(request: Request, house: HouseOf) -> TokenState:
    """The session of a request, with the present role of its token. Raises SignedOut, RoleTooLow, ProjectionParked."""
    session = sessions_of(request).find(request.cookies.get(COOKIE, ""))
    if session is None:
        raise SignedOut
    views = access_views(house)
    found = find_token(views, session.token)
    if found is None:
        raise SignedOut
    mark(request, views.upto)
    check_role(found, LEAST, "see the dashboard")
    request.state.session, request.state.role = session, found.role
    request.state.may_operate = found.role in RANKS and RANKS.index(found.role) >= RANKS.index(OPERATOR)
    return found


Visitor = Annotated[TokenState, Depends(signed_in)]


def check_origin(request: Request) -> None:
    """Raise ForgedForm where a form comes from another site, or nothing says where it comes from.

    Browsers say it in Sec-Fetch-Site; older ones in Origin or Referer, whose host and port must be those asked.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        if site not in {"same-origin", "none"}:
            raise ForgedForm(actual=f"the browser calls it {site}")
        return
    source = request.headers.get("Origin") or request.headers.get("Referer")
    if source is None:
        raise ForgedForm(actual="neither Sec-Fetch-Site nor Origin nor Referer says where it comes from")
    if urlsplit(source).netloc != request.headers.get("Host", ""):
        raise ForgedForm(actual=f"it comes from {source[:200]!r}")


def current_operator(request: Request, visitor: Visitor, csrf: Text = "") -> TokenState:
    """The operator who sends a form of this session. Raises ForgedForm, RoleTooLow, and as `signed_in`."""
    check_origin(request)
    session: DashboardSession = request.state.session
    if not session.accepts(csrf):
        raise ForgedForm(actual="it lacks the secret of the session")
    check_role(visitor, OPERATOR, "change anything from the dashboard")
    return visitor


Operator = Annotated[TokenState, Depends(current_operator)]


@router.get("/sign-in")
def sign_in_page(request: Request, house: HouseOf) -> Response:
    """The page where a token is asked for."""
    return _ask(request, house, None)


@router.post("/sign-in")
def sign_in(request: Request, house: HouseOf, token: Text = "", visitor: Text = "") -> Response:
    """Begin a session for the holder of a token."""
    check_origin(request)
    take_request(request, house, f"The address {request.client.host if request.client else 'unknown'}")
    held = request.cookies.get(VISITOR, "")
    if not held or not hmac.compare_digest(held.encode(), visitor.encode(errors="replace")):
        raise ForgedForm(actual="it lacks the secret of the sign-in page")
    found = holder(access_views(house), token.strip())
    if found is None:
        return _ask(request, house, str(TokenRefused()))
    try:
        check_role(found, LEAST, "see the dashboard")
    except RoleTooLow as refused:
        return _ask(request, house, str(refused))
    answer = redirect_to(request, "/")
    answer.delete_cookie(VISITOR, path=_path(request))
    _set_cookie(request, answer, COOKIE, sessions_of(request).open(found.token), LIFETIME_S)
    return answer


@router.post("/sign-out")
def sign_out(request: Request, csrf: Text = "") -> Response:
    """End the session."""
    check_origin(request)
    name = request.cookies.get(COOKIE, "")
    session = sessions_of(request).find(name)
    if session is not None and not session.accepts(csrf):
        raise ForgedForm(actual="it lacks the secret of the session")
    sessions_of(request).close(name)
    answer = redirect_to(request, "/sign-in")
    answer.delete_cookie(COOKIE, path=_path(request))
    return answer


def _ask(request: Request, house: House, refused: str | None) -> Response:
    secret = secrets.token_urlsafe(32)
    status = 200 if refused is None else 401
    is_new = not has_any(access_views(house))
    answer = render_page(request, "sign_in.html", http_status=status, visitor=secret, refused=refused, is_new=is_new)
    _set_cookie(request, answer, VISITOR, secret, LIFETIME_S)
    return answer


def _set_cookie(request: Request, answer: Response, name: str, value: str, seconds: int) -> None:
    """Set a cookie that no script reads, no other site sends, and over TLS only where the page came over TLS."""
    kept: dict[str, Any] = {"httponly": True, "samesite": "strict", "secure": request.url.scheme == "https"}
    answer.set_cookie(name, value, max_age=seconds, path=_path(request), **kept)


def _path(request: Request) -> str:
    return str(request.scope.get("root_path") or PREFIX)
