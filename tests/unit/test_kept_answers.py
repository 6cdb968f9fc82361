"""Answers that are kept for another attempt at a run: they are given again for the same requests alone."""

from __future__ import annotations

from agents.models.kept_answers import AnswerLog, RememberingModel
from agents.models.model import ChatMessage, CompletionRequest, Image
from agents.models.scripted import Scripted
from eventlog.events import Sampling


def asking(*texts: str, seed: int = 1) -> CompletionRequest:
    message = ChatMessage("user", (*texts, Image("image/png", b"\x89PNG")))
    return CompletionRequest((message,), Sampling(temperature_micro=0, max_tokens=8, seed=seed, wants_logprobs=True))


def test_answers_are_given_again_until_a_request_differs_and_are_then_replaced() -> None:
    saved: list[bytes] = []
    model = Scripted(["one", "two", "three", "four"])
    first = RememberingModel(model, AnswerLog.parse(None, saved.append))
    answers = [first.complete(asking(text)) for text in ("a", "b")]
    again = RememberingModel(model, AnswerLog.parse(saved[-1], saved.append))
    assert [again.complete(asking(text)) for text in ("a", "b")] == answers
    assert len(model.requests) == 2
    other = RememberingModel(model, AnswerLog.parse(saved[-1], saved.append))
    assert other.complete(asking("a")) == answers[0]
    assert other.complete(asking("b", seed=2)).samples[0].text == "three"
    last = AnswerLog.parse(saved[-1], saved.append)
    assert [each.completion.samples[0].text for each in last.answers] == ["one", "three"]
