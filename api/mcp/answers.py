"""Answers of the tools: plain data of bounded size, with no result of sealed runs.

An agent that knows how sealed instances went can fit the next challenger to them, so it is told decisions, also of a
benchmark that was retired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from eventlog.events import PieceKind, RunFinished, RunMissing
from gate.decision import explain_decision, tell_reasons

from ..datasets.first_rows import first_rows
from ..house import House
from ..queries.champion import champion_history, show_champion
from ..queries.datasets import find_dataset, page_datasets
from ..queries.encoding import encode_value
from ..queries.evaluations import list_benchmark_ledgers, list_evaluations
from ..queries.failures import MOST_FAILED, list_open_failures
from ..queries.pieces import page_pieces, pick_reports
from ..queries.runs import GradedRun, RunFilter, find_runs, pick_runs, unknown_run
from ..queries.timelines import read_timeline, recent_runs
from ..queries.untold import tell_status
from ..queries.verdicts import find_verdict

MOST: Final = 50
"""The most entries of any list."""

MOST_MOVES: Final = 10
MOST_STEPS: Final = 100
MOST_TEXT: Final = 600
"""Characters of any text; a longer one is cut, and says so."""

_READ: Final = 2_000
_EXAMPLES: Final = 5
_RESULTS: Final = frozenset({"completed", "halted", "out_of_budget"})

Answer = dict[str, Any]


def answer_failures(house: House, environment: str | None, limit: int, after: str | None) -> Answer:
    """The largest clusters of a page of failed runs outside benchmarks."""
    found = list_open_failures(house.views(), environment=environment, after=after, limit=MOST_FAILED)
    rows = [
        {
            "environment": each.environment,
            "template": each.template,
            "failure": each.failure_class,
            "step": each.step_intent,
            "count": len(each.runs),
            "examples": each.runs[:_EXAMPLES],
        }
        for each in found.clusters[:limit]
    ]
    return _cut_answer({"clusters": rows, "not_shown": max(0, len(found.clusters) - limit), "next": found.next})


def answer_champion(house: House) -> Answer:
    """The champion and its last moves."""
    views = house.views()
    now = show_champion(views).champion
    moves = champion_history(views).history[-MOST_MOVES:][::-1]
    names = ("name", "by", "reason", "evaluation", "since")
    return _cut_answer(
        {
            "position": int(views.upto),
            "champion": {name: getattr(now, name) for name in names},
            "moves": [
                {"since": each.since, "name": state.name, "by": state.by, "reason": state.reason}
                for each in moves
                if (state := each.state) is not None
            ],
        }
    )


def answer_verdict(house: House, evaluation: str | None) -> Answer:
    """One evaluation and its decision; without a name the newest ones, and what their benchmarks have left."""
    views = house.views()
    if evaluation is None:
        newest = list_evaluations(views, limit=MOST_MOVES)
        return _cut_answer({"evaluations": newest.evaluations, "benchmarks": list_benchmark_ledgers(views)})
    state = find_verdict(views, evaluation)
    reached = state.verdict_reached()
    champion, challenger = state.artifacts()
    told = {} if reached is None else {label: text for label, text in explain_decision(reached) if label != "not told"}
    return _cut_answer(
        {
            "evaluation": evaluation,
            "benchmark": state.benchmark,
            "decision": state.decision or "still playing",
            "champion": str(champion),
            "challenger": str(challenger),
            "reasons": () if reached is None else tell_reasons(reached),
            "told": told,
            "note": "Of the sealed part only the decision is told.",
        }
    )


def answer_dataset(house: House, digest: str | None, limit: int, after: str | None) -> Answer:
    """One dataset with its first rows; without a digest a page of datasets."""
    views = house.views()
    if digest is None:
        page = page_datasets(views, after=after, limit=limit)
        rows = [{"dataset": each.dataset, "rows": each.rows, "query": each.query} for each in page.datasets]
        return _cut_answer({"datasets": rows, "next": page.next})
    state = find_dataset(views, digest)
    return _cut_answer({"dataset": state, "rows": first_rows(house, views, state, limit)})


def answer_lessons(house: House, kind: PieceKind, status: str | None, limit: int, after: str | None) -> Answer:
    """A page of pieces of memory of one kind, with what each says and the evidence for it."""
    views, now = house.views(), datetime.now(UTC)
    page = page_pieces(views, kind, now, status=status, after=after, limit=limit)
    reports = pick_reports(house.blobs, views, kind, [row.piece for row in page.pieces], now)
    rows = [
        {
            "piece": row.piece,
            "status": row.summary.status,
            "says": None if report.content is None else report.content.says,
            "does": row.summary.does if report.content is None else report.content.does,
            "trials": row.summary.trials,
            "why": row.summary.why,
        }
        for row, report in zip(page.pieces, reports, strict=True)
    ]
    return _cut_answer({"kind": kind, "lessons": rows, "next": page.next})


def answer_runs(
    house: House, names: Mapping[str, str | None], result: str | None, limit: int, after: str | None
) -> Answer:
    """A page of runs; the newest where nothing is asked for. A filter by results leaves out sealed runs."""
    views = house.views()
    wanted = RunFilter(**names, is_failed=result == "failed", is_passed=result == "passed")
    found: Sequence[GradedRun]
    if wanted.is_any and after is None:
        found, following = recent_runs(house.store, views, limit), None
    else:
        found, following = find_runs(views, wanted, after=after, limit=limit, most_read=_READ)
    is_of_results = result is not None or names.get("status") in _RESULTS
    shown = [each for each in found if not (is_of_results and each.run.is_sealed)]
    return _cut_answer({"runs": [_run(each) for each in shown], "next": following})


def answer_run(house: House, name: str) -> Answer:
    """One run with its steps and its grade; of a sealed run only that it was played."""
    views = house.views()
    found = pick_runs(views, [name]).get(name)
    if found is None:
        raise unknown_run(name)
    if found.run.is_sealed:
        return _cut_answer({"run": _run(found), "note": "The run is sealed: the gate alone tells what such runs did."})
    timeline = read_timeline(house.store, views, name)
    steps = [
        {"index": turn.step.index, "action": turn.step.action, "intent": turn.step.intent, "outcome": turn.step.outcome}
        for turn in timeline.turns
    ]
    end = timeline.end
    ended = end.reason if isinstance(end, RunMissing) else end.status if isinstance(end, RunFinished) else None
    grades = [{"position": at, "passed": each.passed, "reasons": each.reasons} for at, each in timeline.grades]
    return _cut_answer(
        {
            "run": _run(found),
            "instruction": None if timeline.start is None else timeline.start.task_spec.instruction,
            "steps": steps[:MOST_STEPS],
            "steps_not_shown": max(0, len(steps) - MOST_STEPS),
            "ended": ended,
            "grades": grades,
        }
    )


def encode_answer(answer: Answer) -> str:
    """An answer as JSON text."""
    return msgspec.json.encode(answer).decode()


def _run(found: GradedRun) -> Answer:
    state, reward = found.run, found.reward
    names = ("run", "environment", "template", "sweep", "evaluation", "status", "is_sealed", "withdrawn")
    told = {name: getattr(state, name) for name in names}
    if state.is_sealed:
        told["status"] = tell_status(state)
    if state.is_sealed or reward is None:
        return {**told, "reward": None}
    return {**told, "reward": {"score": reward.score, "passed": reward.passed, "cost": reward.cost}}


def _cut_answer(value: Answer) -> Answer:
    """The answer as plain data, with long texts and lists cut."""
    plain: Answer = _cut(msgspec.to_builtins(value, enc_hook=encode_value))
    return plain


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MOST_TEXT:
        return f"{value[:MOST_TEXT]}… ({len(value) - MOST_TEXT} more characters)"
    if isinstance(value, Mapping):
        return {str(name): _cut(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        rest = len(value) - max(MOST, MOST_STEPS)
        return [*(_cut(each) for each in value[: max(MOST, MOST_STEPS)]), *([f"… and {rest} more"] if rest > 0 else [])]
    return value
