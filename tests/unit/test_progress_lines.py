"""Progress where standard error is no terminal, and bars where it is one."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from api.cli import output, progress_lines
from api.cli.progress_lines import PAUSE_S, print_progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as the last number of a list."""
    now = [0.0]
    monkeypatch.setattr(progress_lines, "monotonic", lambda: now[-1])
    return now


def test_a_long_phase_is_told_while_it_goes_on_and_at_its_end(clock: list[float]) -> None:
    said: list[str] = []
    with print_progress("sweep s1", 48, said.append) as update:
        update(advance=1)
        assert said == []
        clock.append(PAUSE_S)
        update(advance=15, note="loss 0.3")
        update(advance=31)
        assert said == ["sweep s1 16/48 0:00:05  loss 0.3"]
        clock.append(3 * PAUSE_S)
        update(advance=1)
    assert said[1:] == ["sweep s1 48/48 0:00:15"]


def test_steps_of_unknown_number_are_counted_and_no_steps_are_not(clock: list[float]) -> None:
    said: list[str] = []
    with print_progress("counting", None, said.append) as update:
        update(completed=1_200)
    with print_progress("making the rows", None, said.append):
        clock.append(61.0)
    assert said == ["counting 1,200 0:00:00", "making the rows 0:01:01"]


def test_a_bar_of_unknown_length_shows_what_was_done_and_no_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = StringIO()
    monkeypatch.setattr(output, "ERR", Console(file=shown, force_terminal=True, width=80))
    with output.bar("counting", None) as advance:
        advance(1_200)
    assert "1,200" in shown.getvalue()
    assert "?" not in shown.getvalue().replace("[?25", "")  # how a terminal hides its cursor
