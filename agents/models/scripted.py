"""A model with scripted answers, for tests, demonstrations and dry runs. Deterministic."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from .errors import ScriptEnded
from .model import Completion, CompletionRequest, Finish, Offers, Sample, Token, refuse_unoffered

Script = Callable[[CompletionRequest], str] | Sequence[str]


class Scripted:
    """Takes its answers from a list, in order and one per sample, or from a function of the request.

    Its tokens are the bytes of the answer, each with logprob 0, because the answer is certain. An answer longer than
    `max_tokens` bytes is cut there and finishes with "length".
    """

    def __init__(self, script: Script, *, name: str = "scripted", offers: Offers | None = None) -> None:
        self.name = name if name.startswith("scripted") else f"scripted:{name}"
        self.offers = offers or Offers(logprobs=True, token_ids=True, seed=True, images=True, schema=True)
        self._script = script
        self._asked: list[CompletionRequest] = []
        self._said = 0
        self._lock = threading.Lock()

    @property
    def requests(self) -> tuple[CompletionRequest, ...]:
        """Every request so far, in order."""
        return tuple(self._asked)

    def complete(self, request: CompletionRequest) -> Completion:
        """See Model.complete. Raises ScriptEnded."""
        refuse_unoffered(self.name, self.offers, request)
        with self._lock:
            self._asked.append(request)
            answers = [self._next(request) for _ in range(request.sampling.samples)]
        samples = tuple(self._sample(answer, request) for answer in answers)
        spent = sum(len(sample.text.encode()) for sample in samples)
        asked = b"".join(message.text.encode() for message in request.messages)
        ids = tuple(asked) if self.offers.token_ids else None
        return Completion(self.name, samples, len(asked), spent, ids)

    def _next(self, request: CompletionRequest) -> str:
        if callable(self._script):
            return self._script(request)
        if self._said >= len(self._script):
            raise ScriptEnded(model=self.name, expected=len(self._script))
        self._said += 1
        return self._script[self._said - 1]

    def _sample(self, answer: str, request: CompletionRequest) -> Sample:
        sampling = request.sampling
        found = [answer.find(stop) for stop in sampling.stop if stop in answer]
        stopped = answer[: min(found)] if found else answer
        body = stopped.encode()[: sampling.max_tokens]
        text = body.decode(errors="ignore")
        body = text.encode()
        tokens = tuple(Token(chr(byte), 0.0) for byte in body) if sampling.wants_logprobs else None
        finish: Finish = "stop" if text == stopped else "length"
        return Sample(text, finish, tokens, tuple(body) if self.offers.token_ids else None)
