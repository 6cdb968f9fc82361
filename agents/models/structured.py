"""Structured answers: request JSON of a given shape, and reject anything else; texts also of models without JSON."""

from __future__ import annotations

import re
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from eventlog.errors import first_fault
from eventlog.events import Sampling

from .errors import AnswerUnstructured
from .model import ChatMessage, Completion, CompletionRequest, Model, Sample, Schema

B = TypeVar("B", bound=BaseModel)
NOTHING: Final = "none"
"""What a model that is asked for a text alone answers where it has nothing to say."""

_FENCE = re.compile(r"^\s*```(?:json|text)?\s*(?:\n|$)(.*?)(?:\n?\s*`{0,3}\s*)?$", re.DOTALL)
"""A code fence, also one that was cut off before its end."""


def answer_schema(shape: type[BaseModel]) -> Schema:
    """The JSON schema of a shape. It should be closed (`extra="forbid"`) and have no defaults: hosts require both.

    The docstring of a shape is the description in its schema, which models are sent and runs record: other words there
    are another request.
    """
    return Schema(shape.__name__, shape.model_json_schema())


def complete_as(
    model: Model, messages: tuple[ChatMessage, ...], sampling: Sampling, shape: type[B]
) -> tuple[B, Completion]:
    """Request a sample and parse it as `shape`. Raises AnswerUnstructured, whose message omits the answer's text."""
    completion = model.complete(CompletionRequest(messages, sampling, answer_schema(shape)))
    return read_as(model.name, completion.samples[0], shape), completion


def read_as(model: str, sample: Sample, shape: type[B]) -> B:
    """Parse an answer, bare or in a code fence. Raises AnswerUnstructured, whose message omits the answer's text."""
    try:
        return shape.model_validate_json(_without_fence(sample.text))
    except ValidationError as problem:
        raise AnswerUnstructured(
            model=model, shape=shape.__name__, actual=first_fault(problem), finish=sample.finish
        ) from problem


def read_text(model: Model, sample: Sample, shape: type[BaseModel]) -> str:
    """The one text of an answer: the only field of a `shape`, or all that a model said which offers no schemas.

    Such a model is asked for the text alone: a small one hardly ever writes valid JSON unforced. Empty where it answers
    NOTHING. Raises AnswerUnstructured, also for JSON of another shape.
    """
    try:
        (found,) = read_as(model.name, sample, shape).model_dump().values()
    except AnswerUnstructured:
        found = _without_fence(sample.text)
        if model.offers.schema or found.lstrip().startswith(("{", "[")):
            raise
    said = str(found).strip()
    return "" if said.strip(".'\"").casefold() == NOTHING else said


def _without_fence(text: str) -> str:
    fenced = _FENCE.match(text)
    return fenced[1] if fenced else text
