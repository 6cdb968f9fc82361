"""What may be told of a text while it is drawn, and how it reaches the event loop of its caller."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE

from agents.models.drawn_texts import DrawnText, settled_text
from agents.models.local.dialogue import Dialogue
from agents.models.model import Completion
from api.serving.drawn_stream import DrawnStream
from api.serving.errors import UpstreamLost


@pytest.mark.parametrize(
    ("text", "stops", "settled"),
    [
        ("Open /", (), "Open /"),
        ("Caf\ufffd", (), "Caf"),
        ("a\ufffdb", (), "a\ufffdb"),
        ("one\n", ("\n\n",), "one"),
        ("one <en", ("<end>", "n"), "one "),
        ("one <end", ("END",), "one <end"),
        ("", ("x",), ""),
    ],
)
def test_half_a_character_and_the_beginning_of_a_stop_text_are_held_back(
    text: str, stops: tuple[str, ...], settled: str
) -> None:
    assert settled_text(text, stops) == settled


@given(st.text("ab", max_size=12), st.lists(st.text("ab", min_size=1, max_size=3), max_size=2))
def test_what_is_told_is_never_taken_back_by_a_stop_text(text: str, stops: list[str]) -> None:
    whole = text[: min((text.find(stop) for stop in stops if stop in text), default=len(text))]
    for end in range(len(text) + 1):
        if not any(stop in text[:end] for stop in stops):
            assert whole.startswith(settled_text(text[:end], stops))


def test_bytes_are_held_back_until_a_token_follows_that_is_none() -> None:
    found = Dialogue.__new__(Dialogue)
    found._marks = Tokenizer(BPE({"a": 0, "<0x0A>": 1, "<0xFF>": 2, "<0x>": 3}, [], byte_fallback=True))
    told = {ids: tuple(found.without_open_bytes(ids)) for ids in ((0, 1), (0, 1, 2), (1, 0), (2, 0, 1), (1,), (), (3,))}
    assert told == {(0, 1): (0,), (0, 1, 2): (0,), (1, 0): (1, 0), (2, 0, 1): (2, 0), (1,): (), (): (), (3,): (3,)}


def text_of(sample: int, text: str) -> DrawnText:
    return DrawnText("m", 3, sample, text)


def test_pieces_come_as_they_were_told_and_end_with_the_completion() -> None:
    async def main() -> list[tuple[int, str]]:
        drawn, may = DrawnStream(), threading.Event()

        def draw() -> Completion:
            for sample, text in ((0, "a"), (1, ""), (1, "x")):
                assert not drawn(text_of(sample, text))
            assert may.wait(10)
            for sample, text in ((0, "a"), (0, "ab"), (0, "abc"), (1, "xy")):
                assert not drawn(text_of(sample, text))
            return Completion("m", (), 3, 5)

        found = []
        with ThreadPoolExecutor(1) as pool:
            drawing = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(pool, draw))
            drawn.follow(drawing)
            await drawn.wait_for_begin()
            assert (drawn.model, drawn.input_tokens) == ("m", 3)
            async for piece in drawn.pieces():
                found.append(piece)
                if drawn.shown == {0: "a", 1: "x"}:
                    may.set()
        assert drawn.rest(0, "abcd") == "d"
        assert drawn.rest(2, "z") == "z"
        with pytest.raises(UpstreamLost, match="changed"):
            drawn.rest(0, "abd")
        return found

    found = asyncio.run(main())
    assert {sample: "".join(piece for at, piece in found if at == sample) for sample in (0, 1)} == {0: "abc", 1: "xy"}
    assert found[:2] == [(0, "a"), (1, "x")]


def test_a_completion_that_fails_before_its_first_token_has_no_pieces() -> None:
    async def main() -> None:
        drawn = DrawnStream()
        drawing: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        drawn.follow(drawing)
        drawing.set_exception(ValueError("it failed"))
        await drawn.wait_for_begin()
        assert drawn.model is None
        assert [piece async for piece in drawn.pieces()] == []
        with pytest.raises(ValueError, match="it failed"):
            await drawing

    asyncio.run(main())


def test_who_draws_is_told_when_nobody_waits_any_more() -> None:
    async def main() -> DrawnStream:
        drawn = DrawnStream()
        assert not drawn(text_of(0, "a"))
        drawn.has_left = True
        assert drawn(text_of(0, "ab"))
        drawn.has_left = False
        return drawn

    assert asyncio.run(main())(text_of(0, "abc"))  # the loop is closed
