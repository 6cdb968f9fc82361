"""What a log with runs and pieces lacks for every reading command to have something to print."""

from __future__ import annotations

import json

from api.house import House
from eventlog.blobs import Blob
from eventlog.events import AnyEvent
from eventlog.store import Append
from tests.golden.test_golden_samples import sample

LOOP, SKILL, TOOL = "loop-7f3a", "reading_sales_files", "dynamic.add_up"
SKILL_PIECE = "sk-5d1c0a9e8b7f"
_MARKDOWN = "# Reading sales files\n\nCount the columns first, and then read them by name.\n"


def plant_loops(house: House) -> None:
    """Append a delegation loop with a skill and a tool, a suite, a base, a webhook, and a forged event."""
    text, lesson, definition, result = house.blobs.put(
        [
            Blob("text/plain; charset=utf-8", _MARKDOWN.encode()),
            Blob("application/json", json.dumps({"change": None, "text": _MARKDOWN}).encode()),
            Blob("application/json", b'{"name":"dynamic.add_up","code":"def add_up(rows):\\n    return sum(rows)\\n"}'),
            Blob("application/json", b'{"result":{"total":"42"}}'),
        ]
    )
    _append(
        house,
        f"loop/{LOOP}",
        sample("LoopOpened", loop=LOOP),
        sample("IterationDecided", loop=LOOP),
        sample("SkillSaved", loop=LOOP, skill=SKILL, content=text),
        sample("ToolForged", loop=LOOP, tool=TOOL, content=definition),
        sample("LoopClosed", loop=LOOP, result=result),
    )
    _append(house, f"skill/{SKILL_PIECE}", sample("PieceProposed", piece=SKILL_PIECE, title=SKILL, content=lesson))
    _append(house, "suite/shop", sample("SuiteRegistered"))
    _append(house, "base/smollm2", sample("BaseAdded"))
    _append(house, "webhooks", sample("WebhookAdded"), sample("WebhookAttempted"))
    _append(house, "course/fast/elsewhere", sample("CourseOpened", environment="elsewhere"), actor="api:mallory")


def _append(house: House, stream: str, *events: AnyEvent, actor: str = "operator") -> None:
    house.store.append([Append(stream, events, actor)])
