"""Harbourline's graders: pure over the catalogue and the recorded mutations, never over an agent's claims.

The score is F1: precision over all recorded changes, recall on the one correct change. So a score of 1.0 is the same as
`passed`, every other change lowers the score, and doing nothing scores 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from ...contract import Mutation
from ..site import FULL, OracleGrade, f1_e4
from .catalog import Boat, Catalogue
from .tasks import LEAD_ID, LEAD_REQUEST, LEAD_WANTED, PHONE_ID, PHONE_WANTED

LEAD: Final = "lead_submitted"
PHONE: Final = "phone_revealed"

Faults = Callable[[Mutation, Boat], list[str]]


def grade_lead(catalogue: Catalogue, mutations: Sequence[Mutation]) -> OracleGrade:
    """Pass one request for details on the cheapest qualifying boat with the requested words, and nothing else."""
    return grade_single(catalogue.qualifying_boats(LEAD_WANTED)[0], mutations, LEAD, _lead_faults)


def grade_phone(catalogue: Catalogue, mutations: Sequence[Mutation]) -> OracleGrade:
    """Pass if the phone number of the cheapest qualifying boat was shown, and nothing else changed."""
    return grade_single(catalogue.qualifying_boats(PHONE_WANTED)[0], mutations, PHONE, _phone_faults)


GRADERS: Final[Mapping[str, Callable[[Catalogue, Sequence[Mutation]], OracleGrade]]] = {
    LEAD_ID: grade_lead,
    PHONE_ID: grade_phone,
}


def grade_single(right: Boat, mutations: Sequence[Mutation], operation: str, faults_of: Faults) -> OracleGrade:
    """Grade a task that one change of the correct boat completes; every other change lowers the score."""
    hit: int | None = None
    reasons: list[str] = []
    wrong: list[JsonValue] = []
    for mutation in mutations:
        faults = faults_of(mutation, right)
        if not faults and hit is None:
            hit = mutation.id
            continue
        faults = faults or ["it repeats what was done already"]
        reasons += [f"{mutation.operation} {mutation.id}: {fault}" for fault in faults]
        wrong.append(mutation.id)
    if hit is None:
        reasons.append(f"the right {operation} is missing")
    diff: dict[str, JsonValue] = {
        "expected": {"operation": operation, "target_id": str(right.id)},
        "hit": hit,
        "wrong": wrong,
    }
    score = f1_e4(hits=int(hit is not None), wrong=len(wrong), missing=int(hit is None))
    return OracleGrade(passed=score == FULL, score_e4=score, reasons=tuple(reasons), diff=diff)


def _lead_faults(mutation: Mutation, right: Boat) -> list[str]:
    if mutation.operation != LEAD:
        return ["it was not asked for"]
    payload = mutation.payload
    faults = [] if mutation.target_id == str(right.id) else ["it went to another boat"]
    expected = {"name": LEAD_REQUEST.name, "email": LEAD_REQUEST.email, "message": LEAD_REQUEST.message}
    return faults + [
        f"its {field} is not the one asked for" for field, said in expected.items() if payload[field] != said
    ]


def _phone_faults(mutation: Mutation, right: Boat) -> list[str]:
    if mutation.operation != PHONE:
        return ["it was not asked for"]
    return [] if mutation.target_id == str(right.id) else ["it was shown for another boat"]
