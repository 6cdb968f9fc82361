"""Builds the rows of a dataset in batches of groups, so memory use does not grow with the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import polars as pl

from eventlog.blobs import Inventory
from eventlog.blobs.fetch import fetch_blobs
from eventlog.database import read_connection
from eventlog.disowned import read_in_force
from eventlog.events import DpoQuery, GrpoQuery, Query, SftQuery, is_asked_for
from eventlog.postgres import PostgresStore
from eventlog.store import EventStore, Position
from projections.benchmarks import BENCHMARKS, benchmark_instances
from projections.datasets.conversations import Nodes, StoredTurn, messages_at, read_message, texts_at
from projections.datasets.curation import (
    ROW_READS,
    Knowledge,
    Reading,
    RunFacts,
    SelectedSibling,
    judged_by_log,
    judged_by_tokens,
    looked_at,
    run_facts,
)
from projections.datasets.packing import Content, row_digest
from projections.datasets.plan_rows import (
    SCHEMA,
    judge_sft,
    oracle_tasks,
    sft_rows,
    step_digest,
    to_frame,
)
from projections.datasets.row_columns import SCHEMAS
from projections.datasets.sampled import CallFact, read_demonstrated, read_sampled, read_sampled_or_text
from projections.datasets.token_rows import frame_of, token_rows
from projections.engine.paging import page_states
from projections.engine.reader import columns_of_reads, rows_in_streams
from projections.engine.rows import EventRow, row_of
from projections.engine.views import Views
from projections.groups import GROUPS, GroupState, find_group, page_groups, pick_groups
from projections.judges import opinions_of
from projections.rewards import REWARDS
from projections.runs import RUNS, RunState
from projections.taint import left_out

from .demonstrations import tokenise_with

GROUPS_AT_ONCE = 64
"""Number of groups per batch."""

_RUNS_AT_ONCE = 256
_TEXTS_KEPT = 1024
_NO_RUNS: Mapping[str, RunState] = {}

Place = tuple[tuple[str, ...], int]
"""Identity of a row: the run or runs it is built from, and its index among their rows."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows as a frame, the place and digest of each, the number of groups, and refused runs by reason."""

    frame: pl.DataFrame
    digests: tuple[bytes, ...]
    groups: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def row_schema(query: Query) -> Mapping[str, pl.DataType]:
    """Columns of a query's rows."""
    return SCHEMA if is_of_plans(query) else SCHEMAS[query.kind]


def is_of_plans(query: Query) -> bool:
    """True if rows are built from plan steps instead of a policy's tokens."""
    return isinstance(query, SftQuery) and query.runs == "plan"


def batches(
    store: EventStore, blobs: Inventory, views: Views, query: Query, groups_at_once: int = GROUPS_AT_ONCE
) -> Iterator[RowBatch]:
    """Yield the rows that a query selects at the views' position; rows and order do not depend on the batch size.

    Raises BrokenRun, BlobMissing, BlobDamaged, BlobErased, NotAConversation.
    """
    if isinstance(query, SftQuery) and query.runs == "plan":
        yield from _of_plans(store, blobs, views, query)
    else:
        yield from _of_policies(store, blobs, views, query, groups_at_once)


def knowledge(store: EventStore, views: Views) -> Knowledge:
    """Facts from outside a group that can refuse its runs."""
    instances = benchmark_instances(views.find(BENCHMARKS).values())
    planned = read_in_force(store, upto=views.upto, types=("SweepPlanned", "BenchmarkFrozen")) if instances else ()
    return Knowledge(instances, oracle_tasks(planned), left_out(views))


def _of_plans(store: EventStore, blobs: Inventory, views: Views, query: SftQuery) -> Iterator[RowBatch]:
    """Rows of plan steps, in order of run. A page of runs is judged at a time, with the whole groups of these runs."""

    @lru_cache(maxsize=_TEXTS_KEPT)
    def text_of(digest: str) -> str:
        return blobs.get(digest).body.decode("utf-8", errors="replace")

    known = knowledge(store, views)
    yield RowBatch(to_frame(()), ())
    for page in page_states(views, RUNS, _RUNS_AT_ONCE):
        judged = _judge_page(views, query, page, known)
        taken = [run for run in page if run in judged.taken]
        rewards = views.pick(REWARDS, taken)
        rows = [
            row
            for run in taken
            for row in sft_rows(page[run], rewards[run], store.read(stream=f"run/{run}", upto=views.upto), text_of)
        ]
        yield RowBatch(to_frame(rows), tuple(map(step_digest, rows)), judged.groups, judged.refused)


@dataclass(frozen=True, slots=True)
class _JudgedPage:
    """The selected runs of a page, the refused ones by reason, and the groups whose first selected run is here."""

    taken: frozenset[str]
    refused: Counter[str]
    groups: int


def _judge_page(views: Views, query: SftQuery, page: Mapping[str, RunState], known: Knowledge) -> _JudgedPage:
    asked = [run for run in page.values() if is_asked_for(query, run.environment, run.sweep, run.group)]
    reasons = judge_groups(views, query, {run.group for run in asked}, known, page)
    own = {run: reason for run, reason in reasons.items() if run in page}
    first: dict[str, str] = {}
    for run, (group, reason) in sorted(reasons.items(), key=lambda item: item[0].encode()):
        if reason is None:
            first.setdefault(group, run)
    return _JudgedPage(
        taken=frozenset(run for run, (_, reason) in own.items() if reason is None),
        refused=Counter(reason for _, reason in own.values() if reason is not None),
        groups=sum(run in page for run in first.values()),
    )


def judge_groups(
    views: Views, query: SftQuery, named: Collection[str], known: Knowledge, more: Mapping[str, RunState] = _NO_RUNS
) -> dict[str, tuple[str, str | None]]:
    """The group of each run of some groups that a query asks for, and why it is refused (None: it is selected).

    `more` are further runs to judge, such as withdrawn ones, which are in no group.
    """
    groups = pick_groups(views, named)
    siblings = {sibling.run for group in groups.values() for sibling in group.siblings}
    runs = {**views.pick(RUNS, siblings - more.keys()), **more}
    rewards = views.pick(REWARDS, runs.keys())
    reasons = judge_sft(query, runs, rewards, known.instances, known.oracles, groups, known.left_out)
    return {run: (runs[run].group, reason) for run, reason in reasons.items()}


def _of_policies(
    store: EventStore, blobs: Inventory, views: Views, query: SftQuery | DpoQuery | GrpoQuery, groups_at_once: int
) -> Iterator[RowBatch]:
    known = knowledge(store, views)
    yield RowBatch(frame_of(query.kind, ()), (), 0, _count_withdrawn(query, views, known))
    readings = _readings(blobs, query)
    for page in _pages(views, query, groups_at_once):
        groups = [group for group in page if looked_at(query, group)]
        if groups:
            yield _batch(store, blobs, views, query, groups, known, readings)


def _pages(views: Views, query: Query, size: int) -> Iterator[Iterable[GroupState]]:
    if query.group is None:
        yield from (page.values() for page in page_groups(page_states(views, GROUPS), size))
    elif (group := find_group(views, query.group)) is not None:
        yield (group,)


def _count_withdrawn(query: Query, views: Views, known: Knowledge) -> Counter[str]:
    """Count withdrawn runs, which are no longer in any group."""
    found: Counter[str] = Counter()
    for run, reason in known.left_out.items():
        state = views.get(RUNS, run) if reason == "withdrawn" else None
        if state is not None and is_asked_for(query, state.environment, state.sweep, state.group):
            found["benchmark" if state.evaluation is not None else reason] += 1
    return found


def _batch(
    store: EventStore,
    blobs: Inventory,
    views: Views,
    query: SftQuery | DpoQuery | GrpoQuery,
    groups: Sequence[GroupState],
    known: Knowledge,
    readings: Callable[[Iterable[CallFact]], Reading],
) -> RowBatch:
    """Rows of some groups: one read for the runs' streams, one for completions, and one per level of messages."""
    refused: Counter[str] = Counter()
    facts = read_group_facts(store, views, groups)
    fit, known = [], with_opinions(views, query, groups, known)
    for group in groups:
        siblings, reasons = judged_by_log(query, group, facts, known)
        refused.update(reasons.values())
        fit.append((group, siblings))
    calls = [call for _, own in fit for sibling in own for call in facts[sibling.run].calls]
    bodies = {address: blob.body for address, blob in fetch_blobs(blobs, {call.completion for call in calls})}
    read = readings(calls)
    kept_groups: list[tuple[GroupState, tuple[SelectedSibling, ...]]] = []
    for group, siblings in fit:
        kept, reasons = judged_by_tokens(query, group, siblings, facts, bodies, read)
        refused.update(reasons.values())
        kept_groups.append((group, kept))
    said = partial(
        messages_at, _nodes(blobs, [call.fact for _, kept in kept_groups for each in kept for call in each.calls])
    )
    rows: list[Content] = []
    giving = 0
    for group, kept in kept_groups:
        made = token_rows(query, group, kept, said)
        refused.update(made.refused.values())
        rows += made.rows
        giving += bool(made.rows)
    return RowBatch(frame_of(query.kind, rows), tuple(map(row_digest, rows)), giving, refused)


def with_opinions(views: Views, query: Query, groups: Iterable[GroupState], known: Knowledge) -> Knowledge:
    """The context with what the judge of a query said of the runs of these groups."""
    if not isinstance(query, SftQuery) or query.judged_by is None:
        return known
    runs = {sibling.run for group in groups for sibling in group.siblings}
    return replace(known, opinions=opinions_of(views, query.judged_by, runs))


def read_group_facts(store: EventStore, views: Views, groups: Iterable[GroupState]) -> dict[str, RunFacts]:
    """Facts of all runs of some groups, read at once."""
    streams = [f"run/{sibling.run}" for group in groups for sibling in group.siblings]
    return run_facts(_rows(store, streams, views.upto))


def _rows(store: EventStore, streams: Sequence[str], upto: Position) -> list[EventRow]:
    if isinstance(store, PostgresStore):
        with read_connection(store.engine) as connection:
            return rows_in_streams(connection, store, columns_of_reads([ROW_READS]), streams, upto)
    found = (event for stream in streams for event in store.read(stream=stream, upto=upto))
    return [row_of(event, ROW_READS[event.event.type]) for event in found if event.event.type in ROW_READS]


def _readings(blobs: Inventory, query: Query) -> Callable[[Iterable[CallFact]], Reading]:
    """Function that reads calls: text is tokenised where the query has a tokenizer, tokens come from the log."""
    tokens = None if isinstance(query, GrpoQuery) else query.tokens
    if tokens is None:
        return lambda _calls: read_sampled
    tokenise = tokenise_with(blobs, tokens)
    shows = isinstance(query, SftQuery) and query.runs == "demonstration"
    read = read_demonstrated if shows else read_sampled_or_text

    def read_calls(calls: Iterable[CallFact]) -> Reading:
        nodes = _nodes(blobs, calls)

        return partial(read, said=partial(texts_at, nodes), tokenise=tokenise, tokens=tokens)

    return read_calls


def _nodes(blobs: Inventory, calls: Iterable[CallFact]) -> Nodes:
    """All messages of all calls, read one level of parents at a time."""
    found: dict[str, StoredTurn] = {}
    wanted = {call.messages for call in calls}
    while wanted:
        found.update((address, read_message(address, blob)) for address, blob in fetch_blobs(blobs, wanted))
        wanted = {parent for address in wanted if (parent := found[address].parent) is not None} - found.keys()
    return found
