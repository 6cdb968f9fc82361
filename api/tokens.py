"""Bearer tokens: shown once when issued; only their hash is stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

from eventlog.errors import FlywheelError
from eventlog.events import TokenIssued, TokenRevoked, TokenRole
from eventlog.store import Append, EventStore, KeyReused
from projections.access import ACCESS, TokenState
from projections.engine.views import Views

from .errors import Unknown

STREAM = "access"
_PREFIX = "fw_"
_BYTES = 32

DEFAULT_ROLE: Final[TokenRole] = "ingest"
"""The least role that may call every route."""


class TokenNameTaken(FlywheelError):
    """A token called {actual!r} was issued before. Choose a new name; names of revoked tokens stay taken."""


def issue(store: EventStore, name: str, actor: str, role: TokenRole = DEFAULT_ROLE) -> str:
    """Issue a token and return its plain text. Raises TokenNameTaken: a name means one token forever."""
    plain = _PREFIX + secrets.token_urlsafe(_BYTES)
    event = TokenIssued(token=name, digest=_hash_token(plain), role=role)
    (outcome,) = store.append([Append(stream=STREAM, events=(event,), actor=actor, key=f"token-issue:{name}")])
    if isinstance(outcome, KeyReused):
        raise TokenNameTaken(actual=name)
    return plain


def revoke(store: EventStore, views: Views, name: str, reason: str, actor: str) -> None:
    """Stop accepting a token. Revoking it again changes nothing. Raises Unknown."""
    state = views.get(ACCESS, name)
    if state is None:
        raise Unknown(what="token", actual=name, way_out="List the names with `flywheel token list`.")
    if not state.is_revoked:
        store.append([Append(stream=STREAM, events=(TokenRevoked(token=name, reason=reason),), actor=actor)])


def holder(views: Views, presented: str) -> TokenState | None:
    """The presented token's name and role; None if it is not accepted."""
    digest = _hash_token(presented)
    found = None
    for state in views.find(ACCESS).values():
        is_same = hmac.compare_digest(state.digest, digest)
        if is_same and not state.is_revoked:
            found = state
    return found


def find_token(views: Views, name: str) -> TokenState | None:
    """A token by its name; None if there is none or it was revoked."""
    state = views.get(ACCESS, name)
    return None if state is None or state.is_revoked else state


def is_accepted(views: Views, presented: str) -> bool:
    """True if a presented token is known and not revoked."""
    return holder(views, presented) is not None


def has_any(views: Views) -> bool:
    """True if there is any token that is not revoked."""
    return any(not state.is_revoked for state in views.find(ACCESS).values())


def _hash_token(plain: str) -> str:
    return hashlib.sha256(plain.encode("utf-8", errors="surrogatepass")).hexdigest()
