"""Rows of many requests in one thread: who is told what, when something breaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from threading import Event, current_thread
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.models.errors import AdapterUnfit, DrawingFailed, LogitsBroken, ModelClosed
from agents.models.local.adapters import Adapter
from agents.models.local.batches import Batches
from agents.models.local.cells import Beginnings, Cells
from agents.models.local.engine import Network
from agents.models.local.samples import Ask, SampledTokens
from eventlog.events import Sampling

END = 3


class Counting:
    """The next token is the last and one more. `broken` weights give no numbers, "late" ones only in a step.

    A step waits until it is `let`, and raises the `problem` where there is one.
    """

    def __init__(self, *broken: str) -> None:
        self.broken = broken
        self.let = Event()
        self.problem: Exception | None = None
        self.is_closed = False

    most_kept = 1000

    def new_cells(self, _weights: str, _kept: Beginnings) -> Cells:
        return Cells()

    def close(self) -> None:
        self.is_closed = True

    def attach(self, _adapter: Adapter) -> None:
        if self.problem is not None:
            raise self.problem

    def read(self, weights: str, _cells: Cells, _row: int, ids: Sequence[int], _first: int) -> NDArray[Any]:
        found: NDArray[Any] = self._logits("" if weights == "late" else weights, [ids[-1]])[0]
        return found

    def step(self, weights: str, _cells: Cells, tokens: Sequence[int], _places: Sequence[int]) -> NDArray[Any]:
        self.let.wait()
        if self.problem is not None:
            raise self.problem
        return self._logits(weights, tokens)

    def _logits(self, weights: str, tokens: Sequence[int]) -> NDArray[Any]:
        found = np.full((len(tokens), 5), np.nan if weights in self.broken else 0.0, dtype=np.float32)
        for row, token in zip(found, tokens, strict=True):
            row[token + 1] += 1
        return found


def ask(weights: str, first: int = 0) -> Ask:
    return Ask(weights, (first,), Sampling(temperature_micro=0, max_tokens=9), 0, frozenset({END}))


@contextmanager
def drawing(network: Counting) -> Iterator[Batches]:
    with closing(Batches("tiny", lambda: cast("Network", network))) as batches:
        yield batches
        network.let.set()


def test_the_weights_are_freed_once_nobody_draws_any_more() -> None:
    network = Counting()
    network.let.set()
    with drawing(network) as batches:
        batches.draw(ask("base")).result(10)
        assert not network.is_closed
    assert network.is_closed


@pytest.mark.parametrize("broken", ["early", "late"])
def test_broken_logits_end_the_rows_of_their_weights_and_no_others(broken: str) -> None:
    """At the prompt, and at a step after it."""
    network = Counting(broken)
    with drawing(network) as batches:
        sound, bad = batches.draw(ask("sound")), [batches.draw(ask(broken)) for _ in range(2)]
        network.let.set()
        for each in bad:
            with pytest.raises(LogitsBroken):
                each.result()
        assert sound.result().ids == (1, 2, END)


def test_what_a_library_raises_is_told_as_a_failure_of_the_model_and_the_next_request_is_served() -> None:
    network = Counting()
    adapter = Adapter("a" * 64, cast("Any", None), b"", {})
    with drawing(network) as batches:
        network.problem = RuntimeError("out of memory\nof the device")
        network.let.set()
        with pytest.raises(DrawingFailed, match="RuntimeError: out of memory;") as told:
            batches.draw(ask("base")).result()
        assert told.value.__cause__ is network.problem
        with pytest.raises(DrawingFailed):
            batches.attach(adapter)
        network.problem = AdapterUnfit(path="p", actual="x", expected="y")
        with pytest.raises(AdapterUnfit):
            batches.attach(adapter)
        network.problem = None
        assert batches.draw(ask("base")).result().ids == (1, 2, END)
    with pytest.raises(ModelClosed):
        batches.draw(ask("base"))


def test_an_answer_that_ended_is_given_out_whatever_comes_of_keeping_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Beginnings, "keep", full)
    with drawing(Counting()) as batches:
        assert batches.draw(ask("base", 2)).result().ids == (END,)


def test_rows_that_are_sampled_side_by_side_get_the_tokens_that_they_get_one_after_another() -> None:
    class Seen(Counting):
        """Logits of many words, and the threads that sample from them."""

        def _logits(self, _weights: str, tokens: Sequence[int]) -> NDArray[Any]:
            draw = np.random.default_rng([*tokens])
            return draw.normal(size=(len(tokens), 5000)).astype(np.float32)

    def play(threads: int) -> tuple[list[SampledTokens], set[str]]:
        network, names = Seen(), set[str]()

        def note(_: object) -> bool:
            names.add(current_thread().name)
            return False

        with closing(Batches("tiny", lambda: cast("Network", network), threads)) as batches:
            sampling = Sampling(temperature_micro=700_000, top_p_micro=950_000, max_tokens=6, seed=3)
            asked = [Ask("base", (row,), sampling, row, frozenset(), note) for row in range(4)]
            found = [batches.draw(each) for each in asked]
            network.let.set()
            return [each.result() for each in found], names

    (one, alone), (several, beside) = play(1), play(3)
    assert [(each.ids, each.logprobs) for each in several] == [(each.ids, each.logprobs) for each in one]
    assert len(alone) == 1
    assert any("samples from" in name for name in beside)


def test_a_prompt_that_a_running_row_begins_with_too_is_not_read_again() -> None:
    class Noting(Counting):
        """Whence each prompt was read, and what was copied from which row."""

        def __init__(self) -> None:
            super().__init__()
            self.read_from: list[tuple[tuple[int, ...], int]] = []
            self.shared: list[tuple[int, int, int]] = []

        def new_cells(self, _weights: str, _kept: Beginnings) -> Cells:
            cells, shared = Cells(), self.shared

            def note(row: int, to: int, length: int) -> None:
                shared.append((row, to, length))

            cells.share = note  # type: ignore[method-assign]
            return cells

        def read(self, weights: str, cells: Cells, row: int, ids: Sequence[int], first: int) -> NDArray[Any]:
            self.read_from.append((tuple(ids), first))
            return super().read(weights, cells, row, ids, first)

    network = Noting()
    with drawing(network) as batches:
        prompts = [(0, 1, 2, 0), (0, 1, 2, 0), (0, 1, 1, 0), (2, 1, 2, 0)]
        ends = frozenset({END})
        found = [
            batches.draw(Ask("base", each, Sampling(temperature_micro=0, max_tokens=9), 0, ends)) for each in prompts
        ]
        network.let.set()
        assert {each.result().ids for each in found} == {(1, 2, END)}
    assert network.read_from == [*zip(prompts, (0, 3, 2, 0), strict=True)]
    assert network.shared[:2] == [(0, 1, 3), (0, 2, 2)]
