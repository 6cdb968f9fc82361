"""What a training stage shows while it goes on, under a controller and under `flywheel train`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from api.cli import output
from api.cli.output import TerminalReporter, bar
from api.cli.train import training_bar
from api.training.stages import Watch, watch_progress

STEP = {"kind": "step", "step": 1, "loss": 0.693147, "kl": 0.0012, "clip_fraction": 0.25, "ratio": 1.5, "reward": 0.5}


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """What is written to a terminal of 80 columns."""
    screen = StringIO()
    monkeypatch.setattr(output, "ERR", Console(file=screen, force_terminal=True, width=80))
    return screen


def lines(written: StringIO) -> list[str]:
    """What was written, line by line, without what moves and hides the cursor."""
    plain = (Text.from_ansi(line).plain.rstrip() for line in written.getvalue().splitlines())
    return [line for line in plain if line]


@contextmanager
def as_a_controller_does(title: str, steps: int) -> Iterator[Watch]:
    reporter = TerminalReporter()
    with reporter.phase(title, steps) as advance:
        yield watch_progress(advance, reporter.say)


@pytest.mark.parametrize("shown", [as_a_controller_does, training_bar])
def test_a_step_is_shown_with_what_it_measured_and_rows_with_what_was_dropped(
    written: StringIO, shown: Callable[[str, int], AbstractContextManager[Watch]]
) -> None:
    with shown("grpo-0123456789abcdef", 2) as watch:
        watch({"kind": "groups", "groups": 3, "flat_groups_dropped": 2})
        watch({"kind": "staleness", "mean": 0.01, "max": 0.2})
        watch({**STEP, "kl": None})
        watch({**STEP, "step": 2})
        watch({"kind": "saved", "checkpoint": "c1", "path": "/x"})
    told = lines(written)
    assert "  groups: groups 3, flat groups dropped 2" in told
    assert "  staleness: mean 0.01, max 0.2" in told
    counted, measured = told[-2:]
    assert counted.startswith("grpo-0123456789abcdef ")
    assert "2/2" in counted
    assert measured == "  loss 0.693147, kl 0.0012, clip fraction 0.25, ratio 1.5, reward 0.5"


def test_a_bar_without_notes_is_one_line_and_moves_on_by_any_number(written: StringIO) -> None:
    with bar("counting", 5) as advance:
        advance()
        advance(4)
    *_, last = lines(written)
    assert last.startswith("counting ")
    assert "5/5" in last
