"""Completion blobs of model calls: the fields from which rows are built, and what no row could hold. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

import msgspec

from ..engine.decoders import convert, decoder_of

MOST_ID: Final = 2**31 - 1
"""The largest token id. No vocabulary comes near, and an embedding takes no larger one."""

MOST_LOGPROB: Final = 1e-6
"""The largest logprob: zero, with room for rounding in single precision."""


class StoredSample(msgspec.Struct):
    """One answer of a model."""

    text: str = ""
    finish: str | None = None
    token_ids: list[int] | None = None
    logprobs: list[float | None] | None = None
    tool_calls: list[Any] | None = None


class StoredCompletion(msgspec.Struct):
    """The fields of a completion blob from which rows are built."""

    samples: list[StoredSample]
    prompt_token_ids: list[int] | None = None
    tokenizer: str | None = None
    chat_template: str | None = None
    processed_logprobs: bool = False
    constrained: bool = False
    distribution: str | None = None


@dataclass(frozen=True, slots=True)
class CompletionFault:
    """What a completion has that no row can hold: the path of the field, what it is, and what was expected."""

    where: str
    actual: str
    expected: str


def read_completion_blob(body: bytes) -> StoredCompletion | None:
    """Parse a completion blob, including one with NaN or infinity; None if it is not a completion of Unicode text."""
    try:
        found: StoredCompletion = decoder_of(StoredCompletion).decode(body)
    except msgspec.DecodeError:
        try:
            found = convert(json.loads(body), StoredCompletion)
            for text in (*(each.text for each in found.samples), found.tokenizer or "", found.chat_template or ""):
                text.encode()  # such JSON may hold lone surrogates
        except (ValueError, OverflowError, RecursionError):
            return None
    return found


def are_token_ids(ids: Sequence[int]) -> bool:
    """True if each number can be the id of a token."""
    return not ids or (min(ids) >= 0 and max(ids) <= MOST_ID)


def fault_of_completion(body: bytes) -> CompletionFault | None:
    """The first thing in a completion blob that no row can hold; None if there is none. What it lacks is no fault."""
    found = read_completion_blob(body)
    if found is None or not found.samples:
        actual = "no completion" if found is None else "without samples"
        return CompletionFault("", actual, "an object with samples, as in docs/datasets.md")
    return next(_faults(found), None)


def _faults(found: StoredCompletion) -> Iterator[CompletionFault]:
    named = [("prompt_token_ids", found.prompt_token_ids)]
    named += [(f"samples.{place}.token_ids", each.token_ids) for place, each in enumerate(found.samples)]
    for where, ids in named:
        odd = next((each for each in ids or () if not 0 <= each <= MOST_ID), None)
        if odd is not None:
            yield CompletionFault(where, str(odd)[:40], f"token ids of 0 to {MOST_ID}")
    for place, sample in enumerate(found.samples):
        where, logprobs, ids = f"samples.{place}.logprobs", sample.logprobs, sample.token_ids
        if logprobs is not None and ids is not None and len(logprobs) != len(ids):
            yield CompletionFault(where, f"{len(logprobs)} numbers", f"one for each of {len(ids)} token ids")
        for each in logprobs or ():
            if each is not None and not (isfinite(each) and each <= MOST_LOGPROB):
                yield CompletionFault(where, str(each), "finite natural logarithms of at most 0, or null")
