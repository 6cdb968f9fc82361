"""Upcasters carry a payload from one schema version of its event type to the next. Pure; stored rows never change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .errors import UpcasterMissing, UpcastFailed

Payload = dict[str, Any]
Upcaster = Callable[[Payload], Payload]


def _add_shaping(payload: Payload) -> Payload:
    """RewardGraded 1 -> 2: version 1 had no shaping, so its fields are None, and it had no regrading."""
    terms = {**payload["terms"], "process": None, "progress": None}
    return {**payload, "terms": terms, "shaping": None, "shaped": None, "again": False}


def _add_rules(rules: Payload) -> Payload:
    """Rules from before tests could be chosen: the bootstrap of the seed documents, on any number of pairs."""
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
    """BenchmarkFrozen 1 -> 2: plans moved to the evaluation, and an old benchmark allows ten challengers."""
    kept = ("template_id", "cluster", "oracle_task_id", "instruction", "max_steps")
    templates = [{name: template[name] for name in kept} for template in payload["templates"]]
    return {**payload, "templates": templates, "alpha": 50_000, "challengers": 10, "successor_of": None}


def _add_spending(payload: Payload) -> Payload:
    """EvaluationOpened 1 -> 2: it spent no alpha, had no challenge number, and its plans were in the benchmark."""
    return {**payload, "rules": _add_rules(payload["rules"]), "challenge": 0, "alpha": 0, "suite": []}


def _add_test_results(payload: Payload) -> Payload:
    """VerdictReached 1 -> 2: numbers that the bootstrap does not compute are None."""
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
    """CourseClosed 1 -> 2: in version 1 every course was of the fast loop."""
    return {**payload, "loop": "fast"}


def _of_one_role(payload: Payload) -> Payload:
    """TokenIssued 1 -> 2: in version 1 `admin` was the only role."""
    return {**payload}


def _without_argument(payload: Payload) -> Payload:
    """StepTaken 1 -> 2: in version 1 every action was a step on a page, which has no argument of its own."""
    return {**payload, "argument": None}


def _never_forgets(payload: Payload) -> Payload:
    """SubstrateChosen 1 -> 2: version 1 chose by the mean of all credited runs."""
    return {**payload, "forgetting": None}


def _of_fewer_kinds(payload: Payload) -> Payload:
    """To the version whose pieces may be skills and instructions: in the version before, none was."""
    return {**payload}


def _without_commands(payload: Payload) -> Payload:
    """LoopOpened 1 -> 2: no commands were recorded, and neither gates of evaluation nor namespaces apart existed."""
    config = payload["config"]
    evaluation = {**config["evaluation"], "gates": False}
    tools = {**config["tools"], "namespace_capabilities": {}}
    unsaid = {"grader": None, "validator": None, "refines": None, "commands_known": False}
    return {**payload, **unsaid, "config": {**config, "evaluation": evaluation, "tools": tools}}


def _without_wording(payload: Payload) -> Payload:
    """LoopOpened 2 -> 3: no wording was recorded, and of what a critique and gates do since then nothing was done."""
    config = payload["config"]
    since = {
        "mode": "rules",
        "repair_budget_fraction": 1_000_000,
        "defect_category_diagnose_threshold": 0,
        "defect_category_hard_cap": 0,
        "phase_aware_incomplete": False,
    }
    parts = {
        "critique": {**config["critique"], **since},
        "planning": {**config["planning"], "diagnose_below": 0},
        "completion": {**config["completion"], "file_gates": False, "required_outputs": []},
    }
    return {"commands_known": True, **payload, "prompts": None, "config": {**config, **parts}}


def _without_defects(payload: Payload) -> Payload:
    """WorkerReturned 1 -> 2: critiques were by rules, and what they found was not kept."""
    critic = None if payload["critique"] is None else "rules"
    return {**payload, "critic": critic, "defects": [], "critique_tokens": 0}


UPCASTERS: Mapping[tuple[str, int], Upcaster] = {
    ("RewardGraded", 1): _add_shaping,
    ("BenchmarkFrozen", 1): _planless,
    ("EvaluationOpened", 1): _add_spending,
    ("VerdictReached", 1): _add_test_results,
    ("CourseClosed", 1): _of_the_fast_loop,
    ("TokenIssued", 1): _of_one_role,
    ("StepTaken", 1): _without_argument,
    ("SubstrateChosen", 1): _never_forgets,
    ("SubstrateChosen", 2): _of_fewer_kinds,
    ("SubstrateCredited", 1): _of_fewer_kinds,
    ("PieceTried", 1): _of_fewer_kinds,
    ("MemoryQuarantined", 1): _of_fewer_kinds,
    ("RunStarted", 1): _of_fewer_kinds,
    ("LoopOpened", 1): _without_commands,
    ("LoopOpened", 2): _without_wording,
    ("WorkerReturned", 1): _without_defects,
}
"""One upcaster for each superseded version: `(type, n)` maps a payload of version n to version n + 1."""


def upcast(
    kind: str,
    schema_version: int,
    current: int,
    payload: Payload,
    steps: Mapping[tuple[str, int], Upcaster] = UPCASTERS,
) -> Payload:
    """Upcast a payload from its schema version to the current one. Raises UpcasterMissing, UpcastFailed.

    A missing upcaster is a bug that tests catch. A failing upcaster means that the payload does not fit its version.
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
