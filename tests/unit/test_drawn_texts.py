"""What may be told of a text while it is drawn, and how it reaches the event loop of its caller."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.models.drawn_texts import settled_text
from agents.models.model import Completion
from api.serving.drawn_stream import DrawnStream


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


def test_pieces_come_in_the_order_they_were_told_and_end_with_the_completion() -> None:
    async def main() -> list[tuple[int, str]]:
        drawn = DrawnStream()

        def draw() -> Completion:
            drawn.begin("m", 3)
            for sample, text in ((0, "a"), (1, "x"), (0, "a"), (0, "abc"), (1, "xy")):
                assert not drawn.tell(sample, text)
            return Completion("m", (), 3, 5)

        with ThreadPoolExecutor(1) as pool:
            drawing = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(pool, draw))
            drawn.follow(drawing)
            await drawn.begun()
            assert (drawn.model, drawn.input_tokens) == ("m", 3)
            return [piece async for piece in drawn.pieces()]

    assert asyncio.run(main()) == [(0, "a"), (1, "x"), (0, "bc"), (1, "y")]


def test_who_draws_is_told_when_nobody_waits_any_more() -> None:
    async def main() -> DrawnStream:
        drawn = DrawnStream()
        assert not drawn.tell(0, "a")
        drawn.has_left = True
        assert drawn.tell(0, "ab")
        drawn.has_left = False
        return drawn

    assert asyncio.run(main()).tell(0, "abc")  # the loop is closed
