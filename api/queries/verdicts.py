"""Verdicts: the evaluations, and what the gate decided."""

from __future__ import annotations

import msgspec
from msgspec.structs import asdict

from projections.engine.views import Views
from projections.verdicts import VERDICTS, VerdictState

from .facts import find_state


class VerdictList(msgspec.Struct, frozen=True):
    """Every evaluation with its verdict, in order of evaluation."""

    verdicts: tuple[VerdictState, ...]


class VerdictAnswer(msgspec.Struct, frozen=True):
    """One evaluation with its verdict."""

    verdict: VerdictState


class VerdictRow(VerdictState, frozen=True, kw_only=True):
    """An evaluation with the names of its champion and its challenger."""

    champion_name: str
    challenger_name: str


def list_verdicts(views: Views) -> VerdictList:
    """Every evaluation."""
    return VerdictList(verdicts=tuple(views.find(VERDICTS).values()))


def show_verdict(views: Views, evaluation: str) -> VerdictAnswer:
    """One evaluation. Raises Unknown."""
    way_out = "List them with `flywheel gate list` or GET /v1/verdicts."
    return VerdictAnswer(verdict=find_state(views, VERDICTS, evaluation, what="evaluation", way_out=way_out))


def verdict_row(state: VerdictState) -> VerdictRow:
    """An evaluation as the commands list it."""
    champion, challenger = state.artifacts()
    return VerdictRow(**asdict(state), champion_name=str(champion), challenger_name=str(challenger))
