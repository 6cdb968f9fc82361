"""What a worker is told on the command line."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
import typer

from agents.rollouts.dispatching.durable import Notice
from api.cli import worker as command
from api.cli.course_options import refuse_memoryless
from api.sweeps.executors import Way
from api.sweeps.worker import stop_at_signals


@pytest.mark.parametrize("executor", [Way.DEMONSTRATION, Way.DELEGATION_PLAN, Way("miniwob-script")])
def test_a_controller_whose_runs_teach_memory_nothing_is_refused_before_anything_is_opened(
    executor: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "open_project", lambda: pytest.fail("the log was opened"))
    with pytest.raises(typer.BadParameter, match="do not use memory"):
        command.worker(roles="runner,controller", executor=executor)


@pytest.mark.parametrize("executor", [Way.PLAN, Way.POLICY, Way.DELEGATION])
def test_what_memory_teaches_is_not_refused(executor: Way) -> None:
    refuse_memoryless(executor)


def test_a_process_that_is_told_twice_to_stop_says_so_once() -> None:
    notices: list[Notice] = []

    async def be_told_twice() -> None:
        stop = asyncio.Event()
        stop_at_signals(stop, notices.append)
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0)
        await asyncio.wait_for(stop.wait(), 60)
        await asyncio.sleep(0.1)

    before = signal.getsignal(signal.SIGINT)
    try:
        asyncio.run(be_told_twice())
    finally:
        signal.signal(signal.SIGINT, before)
    assert [notice.kind for notice in notices] == ["stopping"]
