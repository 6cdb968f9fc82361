"""Upcasting: (type, schema version) -> the next version's payload. Pure; stored rows are never edited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .errors import UpcasterMissing, UpcastFailed

Payload = dict[str, Any]
Upcaster = Callable[[Payload], Payload]


def _add_shaping(payload: Payload) -> Payload:
    """RewardGraded 1 -> 2: what was not made then is None, and every run was graded for the first time."""
    terms = {**payload["terms"], "process": None, "progress": None}
    return {**payload, "terms": terms, "shaping": None, "shaped": None, "again": False}


def _add_rules(rules: Payload) -> Payload:
    """Rules before there was a choice of tests: the bootstrap of the seed documents, on any number of pairs."""
    return {
        **rules,
        "test": "bootstrap",
        "min_pairs": 1,
        "max_missing_p": 0,
        "confirm_repeats": 12,
        "confirm_p": 50_000,
        "draws_per_alpha": 20,
        "max_exact": 1_000_000,
    }


def _planless(payload: Payload) -> Payload:
    """BenchmarkFrozen 1 -> 2: plans are an evaluation's; what was frozen then may be played ten times."""
    kept = ("template_id", "cluster", "oracle_task_id", "instruction", "max_steps")
    templates = [{name: template[name] for name in kept} for template in payload["templates"]]
    return {**payload, "templates": templates, "alpha": 50_000, "challengers": 10, "successor_of": None}


def _add_spending(payload: Payload) -> Payload:
    """EvaluationOpened 1 -> 2: it spent nothing, was not counted, and its plans stood in the benchmark."""
    return {**payload, "rules": _add_rules(payload["rules"]), "challenge": 0, "alpha": 0, "suite": []}


def _add_test_results(payload: Payload) -> Payload:
    """VerdictReached 1 -> 2: what the bootstrap does not say is None."""
    unsaid = dict.fromkeys(
        (
            *("missing_p", "p_value", "draws", "looked_at", "e_value"),
            *("wins", "ties", "losses", "mcnemar", "power", "pairs_needed", "visible"),
        )
    )
    empty = {"screened": [], "confirmations": [], "strata": [], "alpha": 0, "alpha_spent": 0}
    verdict = payload["verdict"]
    return {**payload, "verdict": {**verdict, **unsaid, **empty, "rules": _add_rules(verdict["rules"])}}


def _of_the_fast_loop(payload: Payload) -> Payload:
    """CourseClosed 1 -> 2: there were no courses but the fast loop's."""
    return {**payload, "loop": "fast"}


UPCASTERS: Mapping[tuple[str, int], Upcaster] = {
    ("RewardGraded", 1): _add_shaping,
    ("BenchmarkFrozen", 1): _planless,
    ("EvaluationOpened", 1): _add_spending,
    ("VerdictReached", 1): _add_test_results,
    ("CourseClosed", 1): _of_the_fast_loop,
}
"""One function for each version that was left behind; `(type, n)` gives the payload of version n + 1."""


def upcast(
    kind: str,
    schema_version: int,
    current: int,
    payload: Payload,
    steps: Mapping[tuple[str, int], Upcaster] = UPCASTERS,
) -> Payload:
    """Carry a payload from its version to the current one. Raises UpcasterMissing, UpcastFailed.

    A missing step is a bug, caught by tests; a payload that a step cannot carry has not the shape of its version.
    """
    for version in range(schema_version, current):
        step = steps.get((kind, version))
        if step is None:
            raise UpcasterMissing(type=kind, actual=version, expected=current)
        try:
            payload = step(payload)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise UpcastFailed(type=kind, version=version, actual=repr(error)) from error
    return payload
