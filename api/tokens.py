"""Bearer tokens: shown once when issued, known afterwards only by their hash."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from eventlog.errors import FlywheelError
from eventlog.events import TokenIssued, TokenRevoked
from eventlog.store import Append, EventStore, KeyReused
from projections.access import ACCESS
from projections.engine.views import Views

from .errors import Unknown

STREAM = "access"
_PREFIX = "fw_"
_BYTES = 32


class TokenNameTaken(FlywheelError):
    """A token called {actual!r} was issued before: expected a new name, also after a revocation; choose another one."""


def issue(store: EventStore, name: str, actor: str) -> str:
    """A new token, in plain text this once. Raises TokenNameTaken: an actor in the log is one token for ever."""
    plain = _PREFIX + secrets.token_urlsafe(_BYTES)
    event = TokenIssued(token=name, digest=_hash_token(plain), role="admin")
    (outcome,) = store.append([Append(stream=STREAM, events=(event,), actor=actor, key=f"token-issue:{name}")])
    if isinstance(outcome, KeyReused):
        raise TokenNameTaken(actual=name)
    return plain


def revoke(store: EventStore, views: Views, name: str, reason: str, actor: str) -> None:
    """From here on the token is not accepted; revoking it again changes nothing. Raises Unknown."""
    state = views.get(ACCESS, name)
    if state is None:
        raise Unknown(what="token", actual=name, way_out="List the names with `flywheel token list`.")
    if not state.is_revoked:
        store.append([Append(stream=STREAM, events=(TokenRevoked(token=name, reason=reason),), actor=actor)])


def holder(views: Views, presented: str) -> str | None:
    """The name of the token that was presented, or None where it is not accepted."""
    digest = _hash_token(presented)
    found = None
    for state in views.find(ACCESS).values():
        is_same = hmac.compare_digest(state.digest, digest)
        if is_same and not state.is_revoked:
            found = state.token
    return found


def is_accepted(views: Views, presented: str) -> bool:
    """Whether a presented token is known and not revoked."""
    return holder(views, presented) is not None


def has_any(views: Views) -> bool:
    """Whether any token would be accepted."""
    return any(not state.is_revoked for state in views.find(ACCESS).values())


def _hash_token(plain: str) -> str:
    return hashlib.sha256(plain.encode("utf-8", errors="surrogatepass")).hexdigest()
