"""What a policy drew in a run, token by token, and the rows of tokens that its calls make. Pure.

Calls are joined by their tokens alone: where a prompt begins with prompt and completion of the call before it, the rest
is an observation. Nothing is ever tokenised again. A demonstration has words alone: those are tokenised once, here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, cast

import msgspec

from eventlog.events import Tokens

from .plan_rows import ConversationMessage

_MICRO: Final = 1_000_000


class CallFact(msgspec.Struct, frozen=True):
    """What the log says of one call of a policy. `messages` and `completion` are addresses."""

    index: int
    model: str
    sampling: dict[str, Any]
    messages: str
    completion: str


class _Sample(msgspec.Struct):
    text: str = ""
    finish: str | None = None
    token_ids: list[int] | None = None
    logprobs: list[float | None] | None = None


class _Completion(msgspec.Struct):
    """The fields of a completion's blob that rows are made of."""

    samples: list[_Sample]
    prompt_token_ids: list[int] | None = None
    tokenizer: str | None = None
    chat_template: str | None = None
    processed_logprobs: bool = False
    constrained: bool = False


_DECODER = msgspec.json.Decoder(_Completion)


@dataclass(frozen=True, slots=True)
class BehaviourPolicy:
    """Which policy drew: equal ones have drawn alike. Sampling is in millionths, digests are in hexadecimal."""

    weights: str
    model: str
    tokenizer: str
    chat_template: str
    temperature: int
    top_p: int


@dataclass(frozen=True, slots=True)
class SampledCall:
    """One call with its tokens. `logprobs` None: there are none.

    `is_exact` says that they are of the distribution that was drawn from, `is_cut` that the answer ended at its length:
    its last token is no end token.
    """

    fact: CallFact
    text: str
    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float | None] | None
    tokenizer: str
    chat_template: str
    is_exact: bool
    is_cut: bool = False

    def policy(self, weights: str) -> BehaviourPolicy:
        """Who drew it."""
        sampling = self.fact.sampling
        drawn_at = int(sampling["temperature_micro"]), int(sampling["top_p_micro"])
        return BehaviourPolicy(weights, self.fact.model, self.tokenizer, self.chat_template, *drawn_at)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Calls that make one row. Lists but `prompt_ids` have an entry for each token of the completion.

    The mask is 1 where the model said it and 0 where the environment did; there the logprob is 0.0.
    """

    calls: tuple[SampledCall, ...]
    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]
    mask: list[int]


def read_sampled(fact: CallFact, body: bytes) -> SampledCall | str:
    """A call with the tokens of its completion's blob, or why no row of tokens can be made of it."""
    found = _completion(body)
    if found is None or not found.samples:
        return "unreadable"
    sample = found.samples[0]  # the one that was acted on
    if not found.prompt_token_ids or not sample.token_ids:
        return "no_token_ids"
    if found.tokenizer is None or found.chat_template is None:
        return "no_tokenizer"
    sampling = fact.sampling
    is_plain = sampling["temperature_micro"] == sampling["top_p_micro"] == _MICRO and not found.constrained
    return SampledCall(
        fact,
        sample.text,
        found.prompt_token_ids,
        sample.token_ids,
        sample.logprobs,
        found.tokenizer,
        found.chat_template,
        is_plain or found.processed_logprobs,
        sample.finish == "length",
    )


Tokenise = Callable[[Sequence[ConversationMessage], str], tuple[list[int], list[int]]]
"""Messages and the answer to them as token ids: the prompt that asks for it, and the answer to the end of its turn."""


def read_demonstrated(
    fact: CallFact,
    body: bytes,
    said: Callable[[str], Sequence[ConversationMessage]],
    tokenise: Tokenise,
    tokens: Tokens,
) -> SampledCall | str:
    """A call that has words alone, with the tokens that a policy would have been prompted with, and would have drawn.

    Or why it is no demonstration. `said` are the messages of an address.
    """
    found = _completion(body)
    if found is None or not found.samples:
        return "unreadable"
    sample = found.samples[0]
    if found.prompt_token_ids or sample.token_ids:
        return "sampled"
    prompt, answer = tokenise(said(fact.messages), sample.text)
    return SampledCall(fact, sample.text, prompt, answer, None, tokens.tokenizer, tokens.chat_template, is_exact=False)


def _completion(body: bytes) -> _Completion | None:
    """A completion's blob, also one with numbers that are none; None where it is something else."""
    try:
        return _DECODER.decode(body)
    except msgspec.DecodeError:
        pass
    try:
        return msgspec.convert(json.loads(body), _Completion)
    except (ValueError, RecursionError):
        return None


def unfit_for_ratio(call: SampledCall) -> str | None:
    """Why the ratio of a policy gradient cannot be taken against a call's logprobs; None where it can."""
    logprobs = call.logprobs
    if logprobs is None:
        return "no_logprobs"
    if len(logprobs) != len(call.completion_ids):
        return "lengths_differ"
    if None in logprobs:
        return "no_logprobs"
    if not all(map(isfinite, cast("list[float]", logprobs))):
        return "not_finite"
    if call.fact.sampling["temperature_micro"] == 0:
        return "greedy"
    return None if call.is_exact else "raw_logprobs"


def stretches(calls: Sequence[SampledCall]) -> tuple[Stretch, ...]:
    """The rows that the calls of a run make, in order: each holds as many calls as extend one another."""
    found: list[Stretch] = []
    for call in calls:
        last = found[-1] if found else None
        beyond = None if last is None else _beyond(last, call.prompt_ids)
        if last is None or beyond is None:
            begun = Stretch((call,), call.prompt_ids, [*call.completion_ids], _logprobs(call), _ones(call))
            found.append(begun)
        else:
            found[-1] = Stretch(
                (*last.calls, call),
                last.prompt_ids,
                [*last.completion_ids, *beyond, *call.completion_ids],
                [*last.logprobs, *([0.0] * len(beyond)), *_logprobs(call)],
                [*last.mask, *([0] * len(beyond)), *_ones(call)],
            )
    return tuple(found)


def _beyond(last: Stretch, prompt: list[int]) -> list[int] | None:
    """What a prompt adds to a row, None where it does not begin with all of it."""
    head = len(last.prompt_ids)
    size = head + len(last.completion_ids)
    if len(prompt) < size or prompt[:head] != last.prompt_ids or prompt[head:size] != last.completion_ids:
        return None
    return prompt[size:]


def _logprobs(call: SampledCall) -> list[float]:
    """One for each token; where they are not all known nobody may ask for them, and they stand as 0.0."""
    known = call.logprobs
    if known is None or len(known) != len(call.completion_ids):
        return [0.0] * len(call.completion_ids)
    return [0.0 if each is None else each + 0.0 for each in known]


def _ones(call: SampledCall) -> list[int]:
    return [1] * len(call.completion_ids)
