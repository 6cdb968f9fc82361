"""Items of many callers that wait at the same time are answered by one call of a blocking function."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from threading import Event

import anyio
import pytest

from api.serving.together import Together


class Working:
    """Answers items with their double, keeps its batches, and waits for `may_go` at the first."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.may_go = Event()

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        assert self.may_go.wait(10)
        if 0 in items:
            raise ValueError("nothing to double")
        return [2 * item for item in items]


def start(together: Together[int, int], items: Sequence[int]) -> list[asyncio.Task[int]]:
    return [asyncio.create_task(together.answer(item)) for item in items]


async def begun(working: Working, batches: int) -> None:
    while len(working.batches) < batches:
        await asyncio.sleep(0.001)


def test_what_comes_while_others_are_answered_goes_together_and_each_gets_its_own() -> None:
    async def main() -> None:
        working = Working()
        together = Together(working)
        first = start(together, [1])
        await begun(working, 1)
        further = start(together, [2, 3, 4])
        await asyncio.sleep(0.01)
        assert working.batches == [[1]]
        working.may_go.set()
        assert await asyncio.gather(*first, *further) == [2, 4, 6, 8]
        assert working.batches == [[1], [2, 3, 4]]
        assert await together.answer(5) == 10

    asyncio.run(main())


def test_a_failure_is_raised_for_each_of_its_batch_and_the_next_goes_on() -> None:
    async def main() -> None:
        working = Working()
        together = Together(working)
        failing = start(together, [0, 1])
        await begun(working, 1)
        following = start(together, [2])
        await asyncio.sleep(0.01)
        working.may_go.set()
        found = await asyncio.gather(*failing, *following, return_exceptions=True)
        assert [type(each) for each in found] == [ValueError, ValueError, int]
        assert found[2] == 4

    asyncio.run(main())


def test_a_caller_that_leaves_takes_no_answer_from_the_others() -> None:
    async def main() -> None:
        working = Working()
        together = Together(working)
        leaving, staying = start(together, [1, 2])
        await begun(working, 1)
        leaving.cancel()
        working.may_go.set()
        assert await staying == 4
        with pytest.raises(asyncio.CancelledError):
            await leaving

    asyncio.run(main())


def test_a_caller_whose_scope_is_cancelled_has_its_item_answered_before_it_leaves() -> None:
    async def main() -> None:
        working = Working()
        together = Together(working)
        first = start(together, [1])
        await begun(working, 1)
        async with anyio.create_task_group() as group:
            group.start_soon(together.answer, 2)
            await asyncio.sleep(0.01)
            group.cancel_scope.cancel()
            asyncio.get_running_loop().call_later(0.02, working.may_go.set)
        assert working.batches == [[1], [2]]
        assert await first[0] == 2

    asyncio.run(main())


def test_once_its_loop_was_closed_under_it_no_item_of_before_is_answered() -> None:
    working = Working()
    together = Together(working)

    async def leave() -> None:
        start(together, [1])
        await begun(working, 1)
        start(together, [2])
        await asyncio.sleep(0.01)
        working.may_go.set()

    async def again() -> int:
        return await together.answer(3)

    asyncio.run(leave())
    assert asyncio.run(again()) == 6
    assert working.batches == [[1], [3]]
