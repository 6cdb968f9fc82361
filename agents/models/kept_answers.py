"""The answers that a model gave in a run, kept so that another attempt at the run goes on where the last one stopped.

An answer is used again only for the request that it answered. Where an instance shows something else than before, the
model is asked from there on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from pydantic import BaseModel

from .model import Completion, CompletionRequest, Model, Offers


class KeptAnswer(BaseModel):
    """An answer, and the digest of its request."""

    request: str
    completion: Completion


@dataclass
class AnswerLog:
    """Answers of all attempts at one run, in order, and what stores them. `answers` are those of former attempts."""

    answers: list[KeptAnswer]
    save: Callable[[bytes], object]

    @classmethod
    def parse(cls, body: bytes | None, save: Callable[[bytes], object]) -> AnswerLog:
        """The log that was saved as these bytes."""
        return cls([KeptAnswer.model_validate_json(line) for line in (body or b"").splitlines()], save)

    def cut(self, place: int, answer: KeptAnswer) -> None:
        """Replace the answers from a place on by one, and save them all."""
        self.answers[place:] = [answer]
        self.save(b"\n".join(each.model_dump_json().encode() for each in self.answers))


@dataclass
class RememberingModel:
    """A model in one attempt at a run: it answers from a log as long as its requests are those of the log."""

    model: Model
    log: AnswerLog
    asked: int = field(default=0, init=False)

    @property
    def name(self) -> str:
        """See Model."""
        return self.model.name

    @property
    def offers(self) -> Offers:
        """See Model."""
        return self.model.offers

    def complete(self, request: CompletionRequest) -> Completion:
        """See Model.complete."""
        digest, place = sha256(repr(request).encode()).hexdigest(), self.asked
        self.asked += 1
        known = self.log.answers[place] if place < len(self.log.answers) else None
        if known is not None and known.request == digest:
            return known.completion
        completion = self.model.complete(request)
        self.log.cut(place, KeptAnswer(request=digest, completion=completion))
        return completion
