"""Graders of the further tasks: pure over the catalogue and the recorded mutations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from ...contract import Mutation
from ..site import FULL, OracleGrade
from .catalog import Boat, Catalogue
from .further_tasks import (
    CONTACT_ID,
    CONTACT_WANTED,
    DRAW_ID,
    EMAIL,
    SPEC_ID,
    SPEC_WANTED,
    WATCH_ID,
    WATCH_WANTED,
    right_boat,
)
from .oracle import PHONE, grade_single
from .papers import RATIO, RATIO_PAPER, entry_key

CONTACT: Final = "contact_started"
ENTRY: Final = "entry_saved"
WATCH: Final = "watch_started"
DRAW: Final = "draw_entered"


def grade_spec(catalogue: Catalogue, mutations: Sequence[Mutation]) -> OracleGrade:
    """Pass if the true gear ratio of the correct boat was saved, and nothing else changed."""
    return grade_single(right_boat(catalogue, SPEC_WANTED), mutations, ENTRY, _spec_faults)


def grade_contact(catalogue: Catalogue, mutations: Sequence[Mutation]) -> OracleGrade:
    """Pass if the number of the correct boat was shown; a contact request for it does not count as another change."""
    right = right_boat(catalogue, CONTACT_WANTED)
    counted = [each for each in mutations if (each.operation, each.target_id) != (CONTACT, str(right.id))]
    return grade_single(right, counted, PHONE, _contact_faults)


def grade_watch(catalogue: Catalogue, mutations: Sequence[Mutation]) -> OracleGrade:
    """Pass one watch of the correct boat for the requested email address, and nothing else."""
    return grade_single(right_boat(catalogue, WATCH_WANTED), mutations, WATCH, _watch_faults)


def grade_draw(_catalogue: Catalogue, mutations: Sequence[Mutation]) -> OracleGrade:
    """Pass a drawn entry without any other change. Whether it is drawn was settled at the reset."""
    reasons = [f"{each.operation} {each.id}: it was not asked for" for each in mutations if each.operation != DRAW]
    entries = [each for each in mutations if each.operation == DRAW]
    reasons += [] if entries else [f"the right {DRAW} is missing"]
    for entry in entries:
        reasons += [] if entry.payload["email"] == EMAIL else [f"{DRAW} {entry.id}: its email is not the one asked for"]
        reasons += [] if entry.payload["drawn"] is True else [f"{DRAW} {entry.id}: it was not drawn"]
    diff: dict[str, JsonValue] = {"expected": {"operation": DRAW}, "entries": len(entries)}
    return OracleGrade(passed=not reasons, score_e4=0 if reasons else FULL, reasons=tuple(reasons), diff=diff)


FURTHER_GRADERS: Final[Mapping[str, Callable[[Catalogue, Sequence[Mutation]], OracleGrade]]] = {
    SPEC_ID: grade_spec,
    CONTACT_ID: grade_contact,
    WATCH_ID: grade_watch,
    DRAW_ID: grade_draw,
}


def _spec_faults(mutation: Mutation, right: Boat) -> list[str]:
    if mutation.operation != ENTRY:
        return ["it was not asked for"]
    faults = [] if mutation.target_id == str(right.id) else ["it is of another boat"]
    where = (mutation.payload["paper"], mutation.payload["entry"])
    return faults if where == (RATIO_PAPER, entry_key(RATIO)) else [*faults, "it is not the entry asked for"]


def _contact_faults(mutation: Mutation, right: Boat) -> list[str]:
    if mutation.operation == CONTACT:
        return ["it was started for another boat"]
    if mutation.operation != PHONE:
        return ["it was not asked for"]
    return [] if mutation.target_id == str(right.id) else ["it was shown for another boat"]


def _watch_faults(mutation: Mutation, right: Boat) -> list[str]:
    if mutation.operation != WATCH:
        return ["it was not asked for"]
    faults = [] if mutation.target_id == str(right.id) else ["it is of another boat"]
    return faults if mutation.payload["email"] == EMAIL else [*faults, "its email is not the one asked for"]
