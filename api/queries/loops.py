"""Delegation loops, and the skills and tools that their workers wrote."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict

from agents.delegation.files import merge_files
from eventlog.blobs import BlobStore
from eventlog.store import EventStore
from projections.delegation.budgets import LOOP_BUDGETS, LoopBudget
from projections.delegation.loop_state import LOOP_MARK, LOOP_STEM, LoopState
from projections.delegation.loops import LOOPS
from projections.delegation.skills import SKILLS, SkillState
from projections.delegation.stalls import LOOP_STALLS, StallState
from projections.delegation.tools import LOOP_TOOLS, TOOLS, ToolRegistry, ToolState
from projections.engine.paging import PAGE
from projections.engine.projection import Fold
from projections.engine.views import Views
from projections.pieces import PieceState

from ..errors import NoFiles, RunSealed
from .facts import find_state
from .paging import Page, filter_page
from .pieces import PieceRecord, record_piece
from .skill_pieces import SkillStanding, standings_of_skills
from .untold import find_hidden_loops

S = TypeVar("S", bound=msgspec.Struct)
W = TypeVar("W", bound=SkillState | ToolState)

LOOPS_WAY_OUT = "List them with `flywheel delegate list`."


class LoopRow(msgspec.Struct, frozen=True, kw_only=True):
    """A delegation loop in a list. Confidences are millionths."""

    loop: str
    status: str
    iteration: int
    confidence: int
    task: str
    reason: str
    parent: str | None


class LoopAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A delegation loop with its budget, its stall detector and its tools, and its result once it has ended."""

    loop: LoopState
    budget: LoopBudget
    stall: StallState
    tools: ToolRegistry
    result: dict[str, Any] | None


class LoopList(msgspec.Struct, frozen=True, kw_only=True):
    """Delegation loops in order of name; `next` is the name to continue after, null where no more follow."""

    loops: tuple[LoopRow, ...]
    next: str | None


class SkillRow(SkillState, frozen=True, kw_only=True):
    """The latest version of a skill, and how it stands as a piece of memory."""

    memory: tuple[SkillStanding, ...] = ()


class SkillList(msgspec.Struct, frozen=True, kw_only=True):
    """The latest skills by name; `next` is the name to continue after, null where no more follow."""

    skills: tuple[SkillRow, ...]
    next: str | None


class SkillAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A skill, its text, and the evidence for it as a piece of memory."""

    skill: SkillState
    text: str
    pieces: tuple[PieceRecord[PieceState], ...]


class ToolList(msgspec.Struct, frozen=True, kw_only=True):
    """The latest tools by name; `next` is the name to continue after, null where no more follow."""

    tools: tuple[ToolState, ...]
    next: str | None


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool and its definition."""

    tool: ToolState
    definition: dict[str, Any]


def list_loops(views: Views, *, after: str | None = None, limit: int | None = None) -> LoopList:
    """A page of loops in order of name, without those of runs that may not be told of."""
    page, following = _page(views, LOOPS, _tell_loops, after, limit)
    return LoopList(loops=tuple(_row(state) for state in page.values()), next=following)


def newest_loop(views: Views, name: str) -> str | None:
    """The loop of this name, or the last loop of the delegated run of this name; None if there is neither."""
    if views.get(LOOPS, name) is not None:
        return name
    found = views.find(LOOPS, f"{name[:LOOP_STEM]}{LOOP_MARK}")
    roots = [(state.opened_at, loop) for loop, state in found.items() if state.parent is None]
    return max(roots)[1] if roots else None


def show_loop(views: Views, blobs: BlobStore, loop: str) -> LoopAnswer:
    """A loop and what it came to. Raises Unknown, RunSealed, BlobErased."""
    state = find_state(views, LOOPS, loop, what="delegation loop", way_out=LOOPS_WAY_OUT)
    refuse_hidden_loop(views, loop)
    return LoopAnswer(
        loop=state,
        budget=views.get(LOOP_BUDGETS, loop) or LoopBudget(),
        stall=views.get(LOOP_STALLS, loop) or StallState(),
        tools=views.get(LOOP_TOOLS, loop) or ToolRegistry(),
        result=None if state.result is None else _record(blobs, state.result),
    )


def result_files(views: Views, blobs: BlobStore, loop: str) -> dict[str, str]:
    """The files of an ended loop's result, texts by name. Raises Unknown, RunSealed, BlobErased, NoFiles."""
    found = show_loop(views, blobs, loop)
    files = merge_files([{"files": (found.result or {}).get("files")}])
    if not files:
        ended = f"it is {found.loop.status}" if found.loop.is_open else f"it ended as {found.loop.status} without files"
        raise NoFiles(loop=loop, actual=ended)
    return files


def list_skills(views: Views, now: datetime, *, after: str | None = None, limit: int | None = None) -> SkillList:
    """A page of the latest skills by name, without those of runs that may not be told of; standing at `now`."""
    page, following = _page(views, SKILLS, tell_writers, after, limit)
    standings = standings_of_skills(views, now) if page else {}
    rows = (SkillRow(**asdict(state), memory=standings.get(name, ())) for name, state in page.items())
    return SkillList(skills=tuple(rows), next=following)


def show_skill(store: EventStore, blobs: BlobStore, views: Views, skill: str, now: datetime) -> SkillAnswer:
    """A skill, its text and its pieces at `now`. Raises Unknown, RunSealed, BlobErased."""
    found = find_state(views, SKILLS, skill, what="skill", way_out="List them with `flywheel skills list`.")
    _refuse_hidden_writer(views, found.loop)
    own = standings_of_skills(views, now).get(skill, ())
    records = tuple(record_piece(store, blobs, views, "skill", each.piece, now) for each in own)
    return SkillAnswer(skill=found, text=blobs.get(found.content).body.decode(), pieces=records)


def list_tools(views: Views, *, after: str | None = None, limit: int | None = None) -> ToolList:
    """A page of the latest tools by name, without those that runs wrote which may not be told of."""
    page, following = _page(views, TOOLS, tell_writers, after, limit)
    return ToolList(tools=tuple(page.values()), next=following)


def show_tool(views: Views, blobs: BlobStore, tool: str) -> ToolAnswer:
    """A tool and its definition. Raises Unknown, RunSealed, BlobErased."""
    found = find_state(views, TOOLS, tool, what="tool", way_out="List them with `flywheel tools list`.")
    _refuse_hidden_writer(views, found.loop)
    return ToolAnswer(tool=found, definition=_record(blobs, found.content))


def refuse_hidden_loop(views: Views, loop: str) -> None:
    """Raise RunSealed if a loop plays a run of which what it did may not be told."""
    for run in find_hidden_loops(views, [loop]).values():
        raise RunSealed(run=run.run, benchmark=run.benchmark)


def _refuse_hidden_writer(views: Views, loop: str | None) -> None:
    if loop is not None:
        refuse_hidden_loop(views, loop)


def tell_writers(views: Views, page: dict[str, W]) -> dict[str, W]:
    """Those skills or tools whose latest version is not of a loop that may not be told of."""
    hidden = find_hidden_loops(views, {state.loop for state in page.values() if state.loop is not None})
    return {name: state for name, state in page.items() if state.loop not in hidden}


def _page(
    views: Views,
    fold: Fold[S],
    tell: Callable[[Views, dict[str, S]], dict[str, S]],
    after: str | None,
    limit: int | None,
) -> Page[S]:
    """A page of the states that may be told of (None: all of them), read in parts no larger than it needs."""
    keep = partial(tell, views)
    if limit is None:
        return filter_page(views, fold, keep, after=after, limit=sys.maxsize, most_read=None)
    return filter_page(views, fold, keep, after=after, limit=limit, size=min(PAGE, limit + 1))


def _tell_loops(views: Views, page: dict[str, LoopState]) -> dict[str, LoopState]:
    hidden = find_hidden_loops(views, page.keys())
    return {loop: state for loop, state in page.items() if loop not in hidden}


def _row(state: LoopState) -> LoopRow:
    return LoopRow(
        loop=state.loop,
        status=state.status,
        iteration=state.iteration,
        confidence=state.history[-1].confidence if state.history and state.is_open else state.confidence,
        task=state.task_line,
        reason=state.reason,
        parent=state.parent,
    )


def _record(blobs: BlobStore, address: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(blobs.get(address).body)
    return found
