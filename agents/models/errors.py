"""Errors of models. No message contains a key or a prompt."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class ModelFailure(FlywheelError):
    """{message}."""


class BadEndpoint(ModelFailure):
    """The model endpoint {url!r} cannot be used: {actual}; expected {expected}."""


class ModelUnreachable(ModelFailure):
    """The model endpoint {url} does not answer: {actual}, at try {tries}. Expected an answer within {timeout_s} s.
    Start the server or check the address, then retry."""


class ModelOverloaded(ModelFailure):
    """The model endpoint {url} is overloaded, status {actual} at try {tries}: {said}. Expected an answer;
    retry later (Retry-After: {retry_after_s} s) or send fewer requests at a time."""


class ModelRefused(ModelFailure):
    """The model endpoint {url} rejected the key with status {actual}: {said}. Expected a valid key; check the one in the
    settings."""


class ModelUnknown(ModelFailure):
    """The model endpoint {url} does not know the address or the model (status 404): {said}. Expected a model that it serves, and
    the base address from its documentation, which usually ends in /v1."""


class RequestRejected(ModelFailure):
    """The model endpoint {url} rejected the request with status {actual}: {said}. Expected a request within the model's limits:
    send fewer tokens, or omit features that it does not offer."""


class AnswerBroken(ModelFailure):
    """The model endpoint {url} returned an invalid answer: {actual}; expected {expected}."""


class LogprobsMissing(AnswerBroken):
    """The model endpoint {url} returned no logprobs: expected them with every answer, because runs without them cannot be trained on.
    To play without them, set FLYWHEEL_MODEL_LOGPROBS=false and run the command again."""


class LogprobsRaw(ModelFailure):
    """The model endpoint {url} returns raw logprobs: half the temperature stretched the differences of tokens by {actual}, expected by 2.
    Start vLLM with --logprobs-mode processed_logprobs, or set FLYWHEEL_MODEL_PROCESSED_LOGPROBS=false."""


class AnswerUnstructured(ModelFailure):
    """The model {model} did not answer as {shape}: {actual}; expected JSON of that shape.
    Allow more tokens if it ran out of them (finish reason {finish!r}), or use a model that follows JSON schemas."""


class NotOffered(ModelFailure):
    """The model {model} does not offer {actual}: expected a request without it, or another backend."""


class ScriptEnded(ModelFailure):
    """The script of {model} has only {expected} answers: expected no further request."""


class BaseUnfit(ModelFailure):
    """The base model {path} cannot be used: {actual}; expected {expected}. Name the folder of a base model that training wrote."""


class AdapterUnfit(ModelFailure):
    """The checkpoint {path} does not fit the base model: {actual}; expected {expected}."""


class LibrariesMissing(ModelFailure):
    """The model {path} needs libraries that are not installed: {actual}; expected those of the extra `{extra}`. Install it:
    pip install 'flywheel[{extra}]'."""

    def __init__(self, *, extra: str = "train", **facts: object) -> None:
        super().__init__(extra=extra, **facts)


class LibraryUnfit(ModelFailure):
    """The library {path} cannot be used as llama.cpp: {actual}. Install the version that requirements/serving.txt names."""


class LogitsBroken(ModelFailure):
    """The weights produced a logit that is not finite: expected finite logits. Train again from a checkpoint without this fault."""


class DrawingFailed(ModelFailure):
    """The model {model} could not sample tokens: {actual}; expected no failure of its libraries. Check the device's memory and
    the weights."""


class ModelClosed(ModelFailure):
    """The model {model} is closed: expected it to stay open until its last request has ended."""


class UsageUnknown(ModelFailure):
    """The model {model} does not say how many tokens an answer took: expected that it does, because the run may cost only so
    much. Ask for the run without a limit of its cost, or use a model that reports its usage."""
