"""Tokens: who holds one, in which role; never the tokens themselves or their digests."""

from __future__ import annotations

import msgspec

from projections.access import ACCESS
from projections.engine.views import Views

from .paging import page_after


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A token by its name, its role, and whether it was revoked."""

    token: str
    role: str
    revoked: bool


class TokenList(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens in order of name; `next` is the name to continue after, null where no more follow."""

    tokens: tuple[TokenRow, ...]
    next: str | None


def list_tokens(views: Views, *, after: str | None = None, limit: int | None = None) -> TokenList:
    """A page of the tokens, in order of name."""
    page, following = page_after(views, ACCESS, after, limit)
    rows = (TokenRow(token=each.token, role=each.role, revoked=each.is_revoked) for each in page.values())
    return TokenList(tokens=tuple(rows), next=following)
