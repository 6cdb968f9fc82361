"""Tokenisers of demonstrations: a base model's tokenizer and chat template, stored in the log's blobs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from eventlog.blobs import Blob, BlobStore
from eventlog.events import Tokens
from eventlog.weights_folder import TEMPLATE, TOKENIZER, read_base
from projections.datasets.plan_rows import ConversationMessage
from projections.datasets.sampled import Tokenise
from trainer.tokenising import tokeniser_of


def tokens_of(base: Path) -> Tokens:
    """Digests of a base model's tokenizer and chat template; stores nothing. Raises BaseMissing."""
    found = read_base(base)
    return Tokens(tokenizer=found.tokenizer, chat_template=found.chat_template)


def keep_tokens(blobs: BlobStore, base: Path) -> Tokens:
    """Store tokenizer and chat template, to rebuild rows without the base. Raises OSError if the files are missing."""
    tokenizer, template = blobs.put(
        [
            Blob("application/json", (base / TOKENIZER).read_bytes()),
            Blob("text/plain; charset=utf-8", (base / TEMPLATE).read_bytes()),
        ]
    )
    return Tokens(tokenizer=tokenizer, chat_template=template)


def tokenise_with(blobs: BlobStore, tokens: Tokens) -> Tokenise:
    """Load the tokenising function of a stored tokenizer and chat template. Raises BlobMissing, TemplateUnfit."""
    tokeniser = tokeniser_of(blobs.get(tokens.tokenizer).body, blobs.get(tokens.chat_template).body.decode())

    def tokenise(asked: Sequence[ConversationMessage], answer: str) -> tuple[list[int], list[int]]:
        return tokeniser.tokenise([{"role": each.role, "content": each.content} for each in asked], answer)

    return tokenise
