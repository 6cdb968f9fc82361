from __future__ import annotations

import pytest

from agents.models.errors import AnswerUnstructured, NotOffered, ScriptEnded
from agents.models.model import ChatMessage, CompletionRequest, Image, Model, Offers, Token
from agents.models.scripted import Scripted
from agents.models.structured import complete_as
from eventlog.events import FrozenModel, Sampling

ASK = (ChatMessage("user", ("Say é.",)),)
GREEDY = Sampling(temperature_micro=0, max_tokens=50)


class Yes(FrozenModel):
    yes: bool


def request(messages: tuple[ChatMessage, ...] = ASK, /, **changes: object) -> CompletionRequest:
    return CompletionRequest(messages, GREEDY.model_copy(update=changes))


def test_a_list_is_said_in_order_and_ends() -> None:
    model: Model = Scripted(["a", "b", "c"])
    assert [s.text for s in model.complete(request(samples=2)).samples] == ["a", "b"]
    assert model.complete(request()).samples[0].text == "c"
    with pytest.raises(ScriptEnded, match="3 answers"):
        model.complete(request())


def test_a_function_answers_what_it_is_asked_and_the_questions_are_kept() -> None:
    model = Scripted(lambda asked: asked.messages[-1].text.upper(), name="loud")
    assert model.complete(request()).samples[0].text == "SAY É."
    assert (model.name, model.requests) == ("scripted:loud", (request(),))


def test_its_tokens_are_the_bytes_that_it_was_certain_of() -> None:
    found = Scripted(["né"]).complete(request(wants_logprobs=True))
    (sample,) = found.samples
    assert sample.token_ids == tuple("né".encode())
    assert sample.tokens == tuple(Token(chr(byte), 0.0) for byte in "né".encode())
    assert (found.input_tokens, found.output_tokens) == (len("Say é.".encode()), 3)
    assert Scripted(["n"]).complete(request()).samples[0].tokens is None


@pytest.mark.parametrize(
    ("changes", "text", "finish"),
    [({"max_tokens": 3}, "ab", "length"), ({"stop": ("c", "é")}, "ab", "stop"), ({"stop": ("x",)}, "abéc", "stop"),
     ({"max_tokens": 5}, "abéc", "stop"), ({"max_tokens": 1, "stop": ("b",)}, "a", "stop")],
)  # fmt: skip
def test_it_stops_where_it_is_told_to_and_never_within_a_letter(
    changes: dict[str, object], text: str, finish: str
) -> None:
    (sample,) = Scripted(["abéc"]).complete(request(**changes)).samples
    assert (sample.text, sample.finish) == (text, finish)


def test_what_is_not_offered_is_refused() -> None:
    model = Scripted(["a"], offers=Offers(logprobs=False, token_ids=False, seed=False, images=False, schema=False))
    picture = (ChatMessage("user", (Image("image/png", b"x"),)),)
    for asked in (request(wants_logprobs=True), request(seed=1), request(picture)):
        with pytest.raises(NotOffered, match="scripted"):
            model.complete(asked)
    with pytest.raises(NotOffered, match="structured output"):
        complete_as(model, ASK, GREEDY, Yes)
    (sample,) = model.complete(request()).samples
    assert (sample.text, sample.token_ids) == ("a", None)


def test_an_answer_cut_short_says_that_it_ran_out_of_tokens() -> None:
    with pytest.raises(AnswerUnstructured, match="length"):
        complete_as(Scripted(['{"yes": true}']), ASK, GREEDY.model_copy(update={"max_tokens": 5}), Yes)


@pytest.mark.parametrize(
    "bad",
    [{"temperature_micro": -1}, {"temperature_micro": 2_000_001}, {"max_tokens": 0}, {"top_p_micro": 0},
     {"seed": -1}, {"stop": ("",)}, {"samples": 0}, {"temperature_micro": 0.5}],
)  # fmt: skip
def test_a_sampling_that_no_one_can_mean_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        Sampling.model_validate({"temperature_micro": 0, "max_tokens": 1, **bad})
