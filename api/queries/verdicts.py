"""Verdicts: the evaluations, and what the gate decided, as far as their benchmarks allow it to be told."""

from __future__ import annotations

import msgspec
from msgspec.structs import asdict, replace

from eventlog.events import Verdict
from gate.decision import hide_figures
from projections.engine.views import Views
from projections.verdicts import VERDICTS, VerdictState

from .facts import find_state
from .paging import page_after
from .untold import may_tell, untold_among


class VerdictList(msgspec.Struct, frozen=True):
    """Evaluations with their verdicts in order of evaluation; `next` is the one to continue after, or null.

    While a benchmark can judge, its verdicts tell the decision: all else of their sealed part is null or empty, and
    their looks are left out.
    """

    verdicts: tuple[VerdictState, ...]
    next: str | None = None


class VerdictAnswer(msgspec.Struct, frozen=True):
    """One evaluation with its verdict."""

    verdict: VerdictState


class VerdictRow(VerdictState, frozen=True, kw_only=True):
    """An evaluation with the names of its champion and its challenger."""

    champion_name: str
    challenger_name: str


def list_verdicts(views: Views, *, after: str | None = None, limit: int | None = None) -> VerdictList:
    """The first `limit` evaluations that sort after `after` (None: all), as far as they may be told."""
    page, following = page_after(views, VERDICTS, after, limit)
    untold = untold_among(views, page)
    return VerdictList(tuple(_tell(state, is_told=key not in untold) for key, state in page.items()), following)


def show_verdict(views: Views, evaluation: str) -> VerdictAnswer:
    """One evaluation, as far as it may be told. Raises Unknown."""
    return VerdictAnswer(verdict=tell_verdict(views, find_verdict(views, evaluation)))


def find_verdict(views: Views, evaluation: str) -> VerdictState:
    """One evaluation with every figure, for whoever recomputes it. Raises Unknown."""
    way_out = "List them with `flywheel gate list` or GET /v1/verdicts."
    return find_state(views, VERDICTS, evaluation, what="evaluation", way_out=way_out)


def tell_as_text(verdict: Verdict, *, is_told: bool) -> str:
    """A verdict as JSON, with its sealed part only where it may be told."""
    if is_told:
        return verdict.model_dump_json()
    return msgspec.json.encode(hide_figures(verdict.model_dump(mode="json"), verdict)).decode()


def tell_verdict(views: Views, state: VerdictState) -> VerdictState:
    """The evaluation, while its benchmark can judge as before its first look, and of its verdict the decision."""
    return _tell(state, is_told=may_tell(views, state.benchmark, state.evaluation))


def _tell(state: VerdictState, *, is_told: bool) -> VerdictState:
    if is_told:
        return state
    told, read = replace(state, looks=(), runs=0, most_runs=0), state.verdict_reached()
    if read is None or state.verdict is None:
        return told
    return replace(told, verdict=hide_figures(state.verdict, read))


def verdict_row(views: Views, state: VerdictState) -> VerdictRow:
    """An evaluation as the commands list it, as far as it may be told."""
    return row_of_told(tell_verdict(views, state))


def row_of_told(told: VerdictState) -> VerdictRow:
    """An evaluation as the commands list it, of one that holds only what may be told."""
    champion, challenger = told.artifacts()
    return VerdictRow(**asdict(told), champion_name=str(champion), challenger_name=str(challenger))
