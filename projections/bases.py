"""Bases: every base model that was added from outside, with its licence and its source."""

from __future__ import annotations

from .engine.projection import EventRow, Fold, FoldState


class BaseState(FoldState, frozen=True, kw_only=True):
    """An added base model. A base that is added again under another name or from another source has the newest ones."""

    base: str = ""
    name: str = ""
    architecture: str = ""
    parameters: int = 0
    vocabulary: int = 0
    longest: int = 0
    tokenizer: str = ""
    chat_template: str = ""
    source: str = ""
    source_digest: str = ""
    licence: str | None = None
    since: int = 0


_TEXTS = ("base", "name", "architecture", "tokenizer", "chat_template", "source", "source_digest")
_NUMBERS = ("parameters", "vocabulary", "longest")


def _fold(_state: BaseState, row: EventRow) -> BaseState:
    texts, numbers = {name: row.text(name) for name in _TEXTS}, {name: row.number(name) for name in _NUMBERS}
    return BaseState(**texts, **numbers, licence=row.maybe_text("licence"), since=row.position)


BASES = Fold(
    name="bases",
    version=1,
    reads={"BaseAdded": (*_TEXTS, *_NUMBERS, "licence")},
    initial=BaseState(),
    key=lambda row: row.text("base"),
    fold=_fold,
)
