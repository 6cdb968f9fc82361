"""What a worker counts of the runs that it played, and says of them."""

from __future__ import annotations

from typing import Any

import pytest

from agents.rollouts.dispatching.durable import Kind, Notice
from api.cli.worker_notices import PlayedCount, notice_as_text


def notice(kind: Kind, **facts: Any) -> Notice:
    return Notice(kind, facts=facts)


@pytest.mark.parametrize(
    ("notices", "is_in_vain"),
    [
        ([], False),
        ([notice("played", status="missing")], True),
        ([notice("timed_out")], True),
        ([notice("played", status="missing"), notice("played", status="completed", passed=False)], False),
        ([notice("added"), notice("rescued")], False),
    ],
)
def test_a_worker_played_in_vain_if_no_run_of_its_own_was_graded(notices: list[Notice], is_in_vain: bool) -> None:
    count = PlayedCount()
    assert [count.count(each) for each in notices] == notices
    assert count.is_in_vain is is_in_vain


def test_runs_that_could_not_be_graded_are_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    notice_as_text("ungraded", count=3)
    assert "none of 3 runs could be graded" in capsys.readouterr().err
