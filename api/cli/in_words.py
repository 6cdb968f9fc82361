"""Pieces of memory and datasets as facts that people read: no nested objects, no micro-units."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from gate.figures import count_noun, decimal
from projections.datasets.refusals import REFUSALS
from projections.evidence import Paired, Rule, Seeds
from projections.pieces import PieceState
from projections.rewrites import RewriteState

from ..queries.datasets import Frozen, frozen_row
from ..queries.pieces import PieceReport

_MICRO = frozenset({"min_score", "margin", "least"})
_SECOND = 1_000_000

Facts = list[tuple[str, object]]


def piece_facts(report: PieceReport[Any]) -> Facts:
    """Effect of a piece, its status and its evidence."""
    state, summary, content = report.state, report.summary, report.content
    evidence = f"{count_noun(summary.trials, 'trial')}, U {summary.u}, V {summary.v}"
    facts = {
        **_own_facts(state),
        "status": summary.status,
        "why": summary.why,
        "step": summary.step,
        "says": None if content is None else content.says,
        "does": summary.does if content is None else content.does,
        "found by": state.source.replace("_", " "),
        "found in": state.proposed_by,
        "rule": describe_rule(state.rule),
        "trial runs": f"{state.wins} won, {state.losses} lost",
        "evidence": evidence,
        "controls passed": summary.controls_passed,
        "looked at next": None if summary.next_look is None else f"after {count_noun(summary.next_look, 'trial')}",
        "worth": f"{decimal(summary.worth)} (estimated success rate)",
        "corrected uplift": None
        if summary.uplift_corrected is None
        else f"{decimal(summary.uplift_corrected)}, because only what is above a bound is promoted",
        "promoted since": state.promoted_since and f"position {state.promoted_since}",
        "last changed": datetime.fromtimestamp(state.last_at / _SECOND, UTC).isoformat(" ", "seconds"),
    }
    return [(name, value) for name, value in facts.items() if value not in (None, "")]


def _own_facts(state: RewriteState | PieceState) -> dict[str, object]:
    if isinstance(state, RewriteState):
        return {"rewrite": state.rewrite, "confidence": decimal(state.confidence)}
    return {"piece": state.piece, "kind": state.kind, "title": state.title, "form": state.form}


def describe_rule(rule: Rule | None) -> str:
    """The rule that decides a piece, in words."""
    match rule:
        case Seeds():
            ways = f"{rule.wins_to_promote} wins in a row promote, {rule.losses_to_demote} losses in a row demote"
        case Paired():
            looks = ", ".join(map(str, rule.looks))
            ways = f"each trial is compared with {count_noun(rule.controls, 'sibling')}, looked at after {looks} trials"
            if rule.odds:
                ways += f", or promoted at once at an e-value of {rule.e_value}"
            if rule.unit == "seed":
                ways += "; one trial counts at a seed"
        case None:
            return ""
    return f"{ways}; cold after {rule.cold_after_days} idle days"


def dataset_facts(state: Frozen) -> Facts:
    """A dataset's size, its query and what was left out of it."""
    row: dict[str, Any] = msgspec.to_builtins(frozen_row(state))
    query = row.pop("query")
    facts = {
        **{name.replace("_", " "): value for name, value in row.items() if name != "refused"},
        "query": _in_words({name: value for name, value in query.items() if name != "kind"}),
        "left out": refusals_in_words(state.refused),
    }
    return [(name, value) for name, value in facts.items() if value not in (None, "")]


def refusals_in_words(refused: Mapping[str, int]) -> str:
    """How many runs were left out for each reason, a line each, with its way out."""
    return "\n".join(
        f"{count_noun(runs, 'run')}, {reason}: {REFUSALS.get(reason, 'no explanation is known')}"
        for reason, runs in refused.items()
    )


def _in_words(record: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {_value_in_words(name, value)}"
        for name, value in record.items()
        if value is not None
    )


def _value_in_words(name: str, value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int() if name in _MICRO:
            return decimal(value)
        case dict():
            return f"({_in_words(value)})"
        case list():
            return " and ".join(map(str, value))
        case _:
            return str(value)
