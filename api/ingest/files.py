"""Import files: exported traces in the JSON form of OTLP, and chat logs with a JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from eventlog.blobs.postgres import without_flush
from eventlog.store import Append, Committed, Conflict, KeyReused

from ..house import House
from ..serving.calls import read_object
from ..serving.errors import BadCall
from .chats import ChatRun, chat_run
from .errors import BadLine, BadTraces, UnreadableTwice
from .otlp_json import spans_of_json
from .spans import Span
from .traces import SpanReceipt, TraceLog, TraceSender

ACTOR: Final = "import"
AT_ONCE: Final = 200
"""Lines whose runs are appended together."""

_FORMS: Final = "a chat with `messages`, or traces with `resourceSpans`"


@dataclass(frozen=True, slots=True)
class ImportLine:
    """What a line of a file holds: a chat or spans."""

    file: Path
    number: int
    content: ChatRun | tuple[Span, ...]


@dataclass
class ImportReport:
    """What an import did: runs of chats and spans recorded now, those that were known, and what was refused."""

    chats: int = 0
    known_chats: int = 0
    spans: int = 0
    known_spans: int = 0
    refused_spans: int = 0
    runs: set[str] = field(default_factory=set)
    why: dict[str, None] = field(default_factory=dict)


def read_lines(file: Path) -> Iterator[ImportLine]:
    """The lines of a file, or the one object that fills it. Raises BadLine."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            if number == 1 and not _is_json(line) and _is_json(file.read_bytes()):
                yield ImportLine(file, 1, _content(file, 1, file.read_bytes()))
                return
            yield ImportLine(file, number, _content(file, number, line))


def import_files(house: House, files: Sequence[Path]) -> ImportReport:
    """Record files, after all lines of all of them were read. What is recorded already changes nothing.

    Raises BadLine, LogUnavailable, UnreadableTwice.
    """
    for file in files:
        if not file.is_file():
            raise UnreadableTwice(file=file)
    for file in files:
        for _ in read_lines(file):
            pass
    report, traces = ImportReport(), TraceLog(house)
    lines = (line for file in files for line in read_lines(file))
    while batch := list(islice(lines, AT_ONCE)):
        _record_chats(house, batch, report)
        spans = [span for line in batch if not isinstance(line.content, ChatRun) for span in line.content]
        if spans:
            _count_spans(
                report, len(spans), traces.record(TraceSender(ACTOR, ACTOR, may_write_others=True), spans, "file")
            )
    return report


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def _content(file: Path, number: int, line: bytes) -> ChatRun | tuple[Span, ...]:
    try:
        found: dict[str, Any] = read_object(line)
        if "resourceSpans" in found:
            return spans_of_json(line)
        if "messages" in found:
            return chat_run(found)
    except BadTraces as problem:
        raise _broken(file, number, problem.facts) from problem
    except BadCall as problem:
        facts = {**problem.facts, "actual": f"{problem.facts['where']} is {problem.facts['actual']}"}
        raise _broken(file, number, facts) from problem
    raise BadLine(file=file, line=number, actual=f"an object with {', '.join(found) or 'nothing'}", expected=_FORMS)


def _broken(file: Path, number: int, facts: dict[str, object]) -> BadLine:
    return BadLine(file=file, line=number, actual=facts["actual"], expected=facts["expected"])


def _record_chats(house: House, batch: Sequence[ImportLine], report: ImportReport) -> None:
    chats = [(line, line.content) for line in batch if isinstance(line.content, ChatRun)]
    if not chats:
        return
    blobs = {blob.digest: blob for _, chat in chats for blob in chat.blobs}
    without_flush(house.blobs).put(list(blobs.values()))
    appends = [Append(f"run/{chat.run}", chat.events, ACTOR, expect=0, key=f"import:{chat.run}") for _, chat in chats]
    for (line, chat), outcome in zip(chats, house.store.append(appends), strict=True):
        if isinstance(outcome, Conflict | KeyReused):
            actual = f"the run {chat.run} is recorded with other content"
            raise BadLine(file=line.file, line=line.number, actual=actual, expected="the same content, or another `id`")
        is_new = isinstance(outcome, Committed)
        report.chats += is_new
        report.known_chats += not is_new
        report.runs.add(chat.run)


def _count_spans(report: ImportReport, sent: int, receipt: SpanReceipt) -> None:
    report.spans += receipt.recorded
    report.refused_spans += receipt.refused
    report.known_spans += sent - receipt.recorded - receipt.refused
    report.runs |= receipt.runs
    report.why.update(receipt.why)
