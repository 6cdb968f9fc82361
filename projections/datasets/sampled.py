"""Sampled tokens of a policy's calls, joined into stretches of tokens for dataset rows. Pure.

Calls are joined by their tokens only: if a prompt starts with the previous call's prompt and completion, the rest is an
observation. Sampled text is never tokenised again. A demonstration has only text, which is tokenised once, here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, cast

import msgspec

from eventlog.events import Tokens

from .completions import StoredCompletion, StoredSample, are_token_ids, read_completion_blob
from .plan_rows import ConversationMessage

_MICRO: Final = 1_000_000


class CallFact(msgspec.Struct, frozen=True):
    """One call of a policy according to the log. `messages` and `completion` are blob addresses."""

    index: int
    model: str
    sampling: dict[str, Any]
    messages: str
    completion: str


@dataclass(frozen=True, slots=True)
class BehaviourPolicy:
    """The policy that sampled; equal values mean the same distribution. Sampling parameters are in millionths."""

    weights: str
    model: str
    tokenizer: str
    chat_template: str
    temperature: int
    top_p: int


@dataclass(frozen=True, slots=True)
class SampledCall:
    """One call with its tokens. `logprobs` is None if there are none.

    `is_exact` means that they are of the distribution that was sampled from, `is_cut` that the answer was cut at the
    token limit, so its last token is not an end token, `is_constrained` that it was bound to a schema or grammar.
    `distribution` is "changed" if it was drawn by more than temperature and top_p, "unknown" if that is not known.
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
    is_constrained: bool = False
    distribution: str | None = None

    def policy(self, weights: str) -> BehaviourPolicy:
        """The behaviour policy that sampled the call, given the weights."""
        sampling = self.fact.sampling
        drawn_at = int(sampling["temperature_micro"]), int(sampling["top_p_micro"])
        return BehaviourPolicy(weights, self.fact.model, self.tokenizer, self.chat_template, *drawn_at)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Calls that form one row. All lists except `prompt_ids` have one entry for each completion token.

    The mask is 1 for the model's tokens, and 0 for the environment's, whose logprob is 0.0.
    """

    calls: tuple[SampledCall, ...]
    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]
    mask: list[int]


def read_sampled(fact: CallFact, body: bytes) -> SampledCall | str:
    """A call with the tokens of its completion blob, or the reason to refuse it."""
    found = read_completion_blob(body)
    sample = _only_sample(found)
    if found is None or isinstance(sample, str):
        return str(sample)
    if not found.prompt_token_ids or not sample.token_ids:
        return "no_token_ids"
    if not (are_token_ids(found.prompt_token_ids) and are_token_ids(sample.token_ids)):
        return "bad_token_ids"
    if found.tokenizer is None or found.chat_template is None:
        return "no_tokenizer"
    sampling = fact.sampling
    is_plain = sampling["temperature_micro"] == sampling["top_p_micro"] == _MICRO
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
        found.constrained,
        found.distribution,
    )


Tokenise = Callable[[Sequence[ConversationMessage], str], tuple[list[int], list[int]]]
"""Tokenises messages and the answer to them: the prompt's ids, and the answer's ids to the end of its turn."""


def read_demonstrated(
    fact: CallFact,
    body: bytes,
    said: Callable[[str], Sequence[ConversationMessage] | None],
    tokenise: Tokenise,
    tokens: Tokens,
) -> SampledCall | str:
    """A call of a demonstration, which has only text, tokenised as a policy's prompt and completion.

    Returns the reason instead if it is not a demonstration, or if what it says or was told is more than text. `said`
    returns the messages at an address, None if they are more than text.
    """
    found = read_completion_blob(body)
    sample = _only_sample(found)
    if found is None or isinstance(sample, str):
        return str(sample)
    if found.prompt_token_ids or sample.token_ids:
        return "sampled"
    if sample.tool_calls or not sample.text:  # nothing but thoughts, which are not kept
        return "tool_calls"
    asked = said(fact.messages)
    if asked is None:
        return "not_text"
    prompt, answer = tokenise(asked, sample.text)
    is_cut = sample.finish == "length"
    own = tokens.tokenizer, tokens.chat_template
    return SampledCall(fact, sample.text, prompt, answer, None, *own, is_exact=False, is_cut=is_cut)


def read_sampled_or_text(
    fact: CallFact,
    body: bytes,
    said: Callable[[str], Sequence[ConversationMessage] | None],
    tokenise: Tokenise,
    tokens: Tokens,
) -> SampledCall | str:
    """A call with its sampled tokens; if the endpoint returned only text, that text tokenised once, without logprobs.

    Such a call can be imitated or preferred, but never enter a ratio. Returns the reason if it cannot be read.
    """
    found = read_sampled(fact, body)
    if found != "no_token_ids":
        return found
    text_only = read_demonstrated(fact, body, said, tokenise, tokens)
    return found if text_only == "sampled" else text_only


def _only_sample(found: StoredCompletion | None) -> StoredSample | str:
    """The sample that the agent acted on; the reason to refuse the call if none is, or if one of several is."""
    if found is None or not found.samples:
        return "unreadable"
    return "several_samples" if len(found.samples) > 1 else found.samples[0]


def unfit_for_ratio(call: SampledCall) -> str | None:
    """Why a call's logprobs cannot be used for the ratio of a policy gradient; None if they can."""
    logprobs = call.logprobs
    if call.is_constrained:
        return "constrained"  # forced tokens are logged at 0.0, and the full vocabulary gives -5 (measured on vLLM)
    if call.distribution is not None:
        return f"{call.distribution}_distribution"
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
    """Split the calls of a run, in order, into stretches of calls that extend one another."""
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
    """The tokens that a prompt adds to a stretch; None if it does not start with the whole stretch."""
    head = len(last.prompt_ids)
    size = head + len(last.completion_ids)
    if len(prompt) < size or prompt[:head] != last.prompt_ids or prompt[head:size] != last.completion_ids:
        return None
    return prompt[size:]


def _logprobs(call: SampledCall) -> list[float]:
    """One logprob for each token; 0.0 for unknown ones, which is safe because queries that use logprobs refuse them."""
    known = call.logprobs
    if known is None or len(known) != len(call.completion_ids):
        return [0.0] * len(call.completion_ids)
    return [0.0 if each is None else each + 0.0 for each in known]


def _ones(call: SampledCall) -> list[int]:
    return [1] * len(call.completion_ids)
