"""Access: the issued and revoked API tokens, by hash."""

from __future__ import annotations

from msgspec.structs import replace

from .engine.projection import EventRow, Fold, FoldState


class TokenState(FoldState, frozen=True, kw_only=True):
    """A token's hash and role."""

    token: str = ""
    digest: str = ""
    role: str = ""
    is_revoked: bool = False


def _fold(state: TokenState, row: EventRow) -> TokenState:
    if row.type == "TokenIssued":
        return TokenState(token=row.text("token"), digest=row.text("digest"), role=row.text("role"))
    return replace(state, token=row.text("token"), is_revoked=True)


ACCESS = Fold(
    name="access",
    version=2,
    reads={"TokenIssued": ("token", "digest", "role"), "TokenRevoked": ("token",)},
    initial=TokenState(),
    key=lambda row: row.text("token"),
    fold=_fold,
)
