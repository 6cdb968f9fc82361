"""Tools: those of each delegation loop as its registry, and the latest of each name over all loops."""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from ..engine.projection import EventRow, Fold, FoldState
from .budgets import loop_stream


class ToolEntry(Struct, frozen=True, kw_only=True):
    """A tool in a registry: its version, its hash, the address of its definition, who wrote it.

    `earlier` is the definition that stood when this iteration began; empty if there was none.
    """

    version: int
    code_hash: str
    content: str
    line: str = ""
    worker: str = ""
    iteration: int = 0
    repairs: int = 0
    earlier: str = ""


class ToolMetrics(Struct, frozen=True, kw_only=True):
    """How tools of a loop came about. Refusals are counted by category."""

    forged: int = 0
    cache_hits: int = 0
    repaired: int = 0
    refused: dict[str, int] = field(default_factory=dict)


class ToolRegistry(FoldState, frozen=True, kw_only=True):
    """The tools that the workers of a loop may call, by name, and every hash that was ever registered, by hash."""

    tools: dict[str, ToolEntry] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    metrics: ToolMetrics = ToolMetrics()


class ToolState(FoldState, frozen=True, kw_only=True):
    """The latest version of a tool over all loops."""

    tool: str = ""
    loop: str = ""
    worker: str = ""
    version: int = 0
    line: str = ""
    code_hash: str = ""
    content: str = ""
    since: int = 0


def _registry(state: ToolRegistry, row: EventRow) -> ToolRegistry:
    match row.type:
        case "LoopOpened":
            offered = row.records("tools")
            tools = {
                each["tool"]: ToolEntry(version=0, code_hash=each["code_hash"], content=each["content"])
                for each in offered
            }
            return ToolRegistry(tools=tools, hashes={each["code_hash"]: each["tool"] for each in offered})
        case "ToolForged":
            return _forge(state, row)
        case _:
            return replace(state, metrics=_count(state.metrics, row))


def _forge(state: ToolRegistry, row: EventRow) -> ToolRegistry:
    name, repairs, metrics = row.text("tool"), row.number("repairs"), state.metrics
    before, iteration = state.tools.get(name), row.number("iteration")
    earlier = "" if before is None else before.earlier if before.iteration == iteration else before.content
    entry = ToolEntry(
        version=row.number("version"),
        code_hash=row.text("code_hash"),
        content=row.text("content"),
        line=row.text("line"),
        worker=row.text("worker"),
        iteration=iteration,
        repairs=repairs,
        earlier=earlier,
    )
    counted = replace(metrics, forged=metrics.forged + 1, repaired=metrics.repaired + (repairs > 0))
    hashes = {**state.hashes, entry.code_hash: name}
    return replace(state, tools={**state.tools, name: entry}, hashes=hashes, metrics=counted)


def _count(metrics: ToolMetrics, row: EventRow) -> ToolMetrics:
    refused = dict(metrics.refused)
    for category in row.records("refused"):
        refused[category] = refused.get(category, 0) + 1
    return replace(metrics, cache_hits=metrics.cache_hits + row.number("cache_hits"), refused=refused)


def _latest(state: ToolState, row: EventRow) -> ToolState:
    return ToolState(
        tool=row.text("tool"),
        loop=row.text("loop"),
        worker=row.text("worker"),
        version=state.version + 1,
        line=row.text("line"),
        code_hash=row.text("code_hash"),
        content=row.text("content"),
        since=row.position,
    )


LOOP_TOOLS = Fold(
    name="loop_tools",
    version=2,
    reads={
        "LoopOpened": ("loop", "tools"),
        "ToolForged": (
            "loop",
            "iteration",
            "worker",
            "tool",
            "version",
            "code_hash",
            "content",
            "line",
            "repairs",
        ),
        "WorkerReturned": ("loop", "cache_hits", "refused"),
    },
    initial=ToolRegistry(),
    key=lambda row: row.text("loop"),
    fold=_registry,
    stream_of=loop_stream,
)

TOOLS = Fold(
    name="tools",
    version=2,
    reads={"ToolForged": ("loop", "worker", "tool", "code_hash", "content", "line")},
    initial=ToolState(),
    key=lambda row: row.text("tool"),
    fold=_latest,
)
