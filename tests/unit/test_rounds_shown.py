"""The rounds of a course as somebody at a terminal sees them."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from rich.console import Console

from api.cli import output, rounds
from api.cli.rounds import RoundsReporter, table_of
from api.controllers.rounds import FastRound, SiteStatus, news
from eventlog.events import SweepPlanned
from tests.unit.test_agent_samples import EMPTY, a_store, decide_rewrite, propose, views

ROUND = FastRound(
    number=2,
    sweep="marketplace-2",
    artifact="base@120",
    runs=48,
    ended=47,
    plain=36,
    plain_passed=31,
    proposed=5,
    failing=("3 × price_watch: oracle_failed", "1 × phone_reveal: step_failed"),
    cost=1_250_000,
)
STANDING = SiteStatus(on_trial=4, promoted=1, verdicts=(("marketplace-1", "promote"), ("marketplace-2", "running")))


def console(out: StringIO, *, is_terminal: bool) -> Console:
    return Console(file=out, force_terminal=is_terminal, color_system=None, width=140, height=40)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """What a terminal is sent; a reporter that is made after it shows there."""
    out = StringIO()
    monkeypatch.setattr(rounds, "ERR", console(out, is_terminal=True))
    return out


def lines(screen: StringIO) -> list[str]:
    """What the terminal was told to show, without what moves its cursor; the last frame is last."""
    told = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    return [line.strip() for line in told.splitlines() if line.strip()]


def test_a_round_is_a_row_and_memory_and_verdicts_are_below() -> None:
    out = StringIO()
    console(out, is_terminal=False).print(table_of((ROUND,), STANDING))
    head, _, row, *below = (line.strip() for line in out.getvalue().splitlines())
    assert [each.strip() for each in head.split("┃")] == [
        "round",
        "memory",
        "runs",
        "passed, no trial",
        "proposed",
        "cost",
        "main failures",
    ]
    assert [each.strip() for each in row.split("│")] == [
        "2 marketplace-2",
        "base@120",
        "47 of 48",
        "31 of 36",
        "5",
        "$1.25",
        "3 × price_watch: oracle_failed; 1 × phone_reveal: step_failed",
    ]
    assert below == ["memory: 4 on trial, 1 promoted; gate: marketplace-1 promote, marketplace-2 running"]


def test_somebody_at_a_terminal_sees_the_rounds_above_the_bar_of_the_phase_under_way(screen: StringIO) -> None:
    reporter = RoundsReporter()
    with reporter.show_live():
        reporter.watch((ROUND,), STANDING)
        with reporter.phase("sweep marketplace-3 with base@180", 2) as advance:
            advance()
    *_, row, below, bar = lines(screen)
    assert row.startswith("2 marketplace-2")
    assert "4 on trial, 1 promoted" in below
    assert bar.startswith("sweep marketplace-3 with base@180")
    assert "1/2" in bar


def test_only_the_newest_bars_stay_in_view(screen: StringIO) -> None:
    reporter = RoundsReporter()
    with reporter.show_live():
        for number in range(8):
            with reporter.phase(f"phase {number}", 1) as advance:
                advance()
    assert [line.split("━")[0].strip() for line in lines(screen)[-6:]] == [f"phase {number}" for number in range(2, 8)]


def test_where_nobody_watches_a_phase_is_a_line_and_no_table_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    for module in (rounds, output):
        monkeypatch.setattr(module, "ERR", console(out, is_terminal=False))
    reporter = RoundsReporter()
    with reporter.show_live():
        reporter.watch((ROUND,), STANDING)
        with reporter.phase("sweep s3", 1) as advance:
            advance()
    (line,) = out.getvalue().splitlines()
    assert line.startswith("sweep s3")
    assert "1/1" in line


def test_a_promotion_by_wins_in_a_row_tells_the_deciding_wins_from_the_later_ones() -> None:
    store, name = a_store(), "rw-a"
    propose(store, name)
    decide_rewrite(store, name, *[True] * 8)
    sweep = SweepPlanned(sweep="s1", environment="site", templates=(), specs=(), artifact=EMPTY, rng_seed=7)
    (line,) = news(views(store), sweep, {name: "candidate"})
    assert line == "promoted rw-a: 3 wins in a row; 8 of 8 trial runs won so far"
