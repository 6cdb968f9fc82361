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
    return BaseState(
        base=row.text("base"),
        name=row.text("name"),
        architecture=row.text("architecture"),
        parameters=row.number("parameters"),
        vocabulary=row.number("vocabulary"),
        longest=row.number("longest"),
        tokenizer=row.text("tokenizer"),
        chat_template=row.text("chat_template"),
        source=row.text("source"),
        source_digest=row.text("source_digest"),
        licence=row.maybe_text("licence"),
        since=row.position,
    )


BASES = Fold(
    name="bases",
    version=1,
    reads={"BaseAdded": (*_TEXTS, *_NUMBERS, "licence")},
    initial=BaseState(),
    key=lambda row: row.text("base"),
    fold=_fold,
)
