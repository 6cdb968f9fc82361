"""Bearer tokens: shown once when issued; only their hash is stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eventlog.errors import FlywheelError
from eventlog.events import TokenIssued, TokenRevoked, TokenRole
from eventlog.postgres import PostgresStore
from eventlog.store import Append, EventStore, KeyReused, Position
from projections.access import ACCESS, TokenState
from projections.engine.views import PostgresViews, Views

from .errors import Unknown

STREAM = "access"
_CHANGES: Final = ("TokenIssued", "TokenRevoked", "EventsDisowned")
"""The types of the events that change which tokens are accepted."""
_PREFIX = "fw_"
_BYTES = 32

DEFAULT_ROLE: Final[TokenRole] = "ingest"
"""The least role that may write: it records runs of other agents, and has none of ours played."""


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


@dataclass(frozen=True, slots=True)
class TokenSnapshot:
    """The tokens that were accepted at a position, by the digest of their text."""

    upto: Position
    tokens: Mapping[str, TokenState]


class TokenCache:
    """The accepted tokens, for as long as the log holds nothing that changes them: one statement for each look.

    Without it each call of a model would fold the log first, whose head the call before has moved. Thread-safe.
    """

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._known: TokenSnapshot | None = None

    def find(self, presented: str) -> TokenState | None:
        """The token; None if it is not known to be accepted now."""
        return self.find_each([presented])[0]

    def find_each(self, presented: Sequence[str]) -> list[TokenState | None]:
        """Each token as `find` has it, by one statement."""
        known = self._known
        found = [None if known is None else known.tokens.get(_hash_token(each)) for each in presented]
        if known is None or not any(found) or self._store.may_hold(_CHANGES, after=known.upto):
            return [None] * len(presented)
        return found

    def keep(self, views: PostgresViews) -> None:
        """Keep what the views hold."""
        accepted = {state.digest: state for state in views.find(ACCESS).values() if not state.is_revoked}
        self._known = TokenSnapshot(views.upto, accepted)


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
