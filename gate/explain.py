"""A verdict in words: rows of a table. Pure."""

from __future__ import annotations

from eventlog.events import ArmSummary, Interval, Verdict

from .figures import counted, decimal, dollars


def explain(verdict: Verdict) -> list[tuple[str, str]]:
    """Label and text of each row; what could not be computed reads `not computed`."""
    return [
        ("decision", verdict.decision),
        ("reasons", "; ".join(verdict.reasons)),
        ("champion", _arm(verdict.champion)),
        ("challenger", _arm(verdict.challenger)),
        ("mean difference", _with_interval(verdict.mean_delta, verdict.interval)),
        ("probability of improvement", _number(verdict.prob_improvement)),
        ("win rate", _number(verdict.win_rate)),
        ("regressions", ", ".join(verdict.regressions) or "none"),
        ("costs", f"challenger {dollars(verdict.challenger.cost)}, champion {dollars(verdict.champion.cost)}"),
        ("compared costs", _compared(verdict)),
        ("missing", f"{counted(verdict.missing, 'run pair')}, {counted(verdict.pairs, 'sealed instance')} compared"),
    ]


def _compared(verdict: Verdict) -> str:
    over = "all pairs" if verdict.rules.cost_basis == "all_pairs" else "pairs that both arms passed"
    challenger, champion = verdict.challenger.compared_cost, verdict.champion.compared_cost
    return f"challenger {dollars(challenger)}, champion {dollars(champion)}, over {over}"


def _arm(arm: ArmSummary) -> str:
    if arm.runs == 0:
        return f"{arm.artifact}: no run compared"
    passed = f"{arm.passed} of {counted(arm.runs, 'run')} passed ({_interval(arm.success)})"
    return f"{arm.artifact}: {passed}, mean score {_number(arm.mean_score)}"


def _number(millionths: int | None) -> str:
    return "not computed" if millionths is None else decimal(millionths)


def _with_interval(millionths: int | None, interval: Interval | None) -> str:
    return _number(millionths) if interval is None else f"{_number(millionths)} ({_interval(interval)})"


def _interval(interval: Interval) -> str:
    return f"95 % interval {decimal(interval.low)} to {decimal(interval.high)}"
