"""What a worker is told on the command line."""

from __future__ import annotations

import pytest
import typer

from api.cli import worker as command
from api.sweeps.executors import Way


@pytest.mark.parametrize("executor", [Way.POLICY, Way.DEMONSTRATION, Way.MINIWOB_SCRIPT])
def test_a_controller_whose_runs_teach_memory_nothing_is_refused_before_anything_is_opened(
    executor: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "open_project", lambda: pytest.fail("the log was opened"))
    with pytest.raises(typer.BadParameter, match="do not use memory"):
        command.worker(roles="runner,controller", executor=executor)
