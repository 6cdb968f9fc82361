"""Delegation loops, and the skills and tools that their workers wrote."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import msgspec

from agents.delegation.files import merge_files
from eventlog.blobs import BlobStore
from projections.delegation.budgets import LOOP_BUDGETS, LoopBudget
from projections.delegation.loop_state import LOOP_MARK, LOOP_STEM, LoopState
from projections.delegation.loops import LOOPS
from projections.delegation.skills import SKILLS, SkillState
from projections.delegation.stalls import LOOP_STALLS, StallState
from projections.delegation.tools import LOOP_TOOLS, TOOLS, ToolRegistry, ToolState
from projections.engine.views import Views

from ..errors import NoFiles, RunSealed
from .facts import find_state
from .paging import Page, filter_page, page_after
from .untold import find_hidden_loops

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


class SkillAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A skill, its text, and the addresses of its versions."""

    skill: SkillState
    text: str


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool and its definition."""

    tool: ToolState
    definition: dict[str, Any]


def list_loops(views: Views, *, after: str | None = None, limit: int | None = None) -> tuple[list[LoopRow], str | None]:
    """A page of loops in order of name, without those of runs that may not be told of, and where to continue."""
    most = sys.maxsize if limit is None else limit
    page, following = filter_page(views, LOOPS, partial(_tell_loops, views), after=after, limit=most, most_read=None)
    return [_row(state) for state in page.values()], following


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


def list_skills(views: Views, *, after: str | None = None, limit: int | None = None) -> Page[SkillState]:
    """A page of the latest skills, by name."""
    return page_after(views, SKILLS, after, limit)


def show_skill(views: Views, blobs: BlobStore, skill: str) -> SkillAnswer:
    """A skill and its text. Raises Unknown, BlobErased."""
    found = find_state(views, SKILLS, skill, what="skill", way_out="List them with `flywheel skills list`.")
    return SkillAnswer(skill=found, text=blobs.get(found.content).body.decode())


def list_tools(views: Views, *, after: str | None = None, limit: int | None = None) -> Page[ToolState]:
    """A page of the latest tools, by name."""
    return page_after(views, TOOLS, after, limit)


def show_tool(views: Views, blobs: BlobStore, tool: str) -> ToolAnswer:
    """A tool and its definition. Raises Unknown, BlobErased."""
    found = find_state(views, TOOLS, tool, what="tool", way_out="List them with `flywheel tools list`.")
    return ToolAnswer(tool=found, definition=_record(blobs, found.content))


def refuse_hidden_loop(views: Views, loop: str) -> None:
    """Raise RunSealed if a loop plays a run of which what it did may not be told."""
    for run in find_hidden_loops(views, [loop]).values():
        raise RunSealed(run=run.run, benchmark=run.benchmark)


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
