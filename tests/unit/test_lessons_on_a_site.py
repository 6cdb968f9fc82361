"""Lessons on a site: of the other pieces of memory, no content is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents.learning.memory_file import MemoryFileEntry
from api.sweeps.reflect import lessons_on
from eventlog.blobs import MemoryBlobs
from eventlog.events import Occasion, PairedRule, PieceKind
from tests.unit.test_agent_samples import a_store, add, views

HERE = Occasion(environment="quay", type="navigate", intent="", page="", cluster="boats")
ELSEWHERE = HERE.model_copy(update={"environment": "shop"})


def lesson(kind: PieceKind, occasion: Occasion) -> MemoryFileEntry:
    entry: Any = {"kind": kind, "occasion": occasion, "title": "a title", "text": f"{kind} on {occasion.environment}"}
    return MemoryFileEntry(**entry)


@pytest.mark.parametrize("kinds", [("instruction",), ("skill", "instruction")])
def test_the_content_of_other_kinds_and_other_sites_is_not_read(kinds: tuple[PieceKind, ...]) -> None:
    store, blobs = a_store(), MemoryBlobs()
    for occasion in (HERE, ELSEWHERE):
        for kind in ("skill", "instruction"):
            entry = lesson(kind, occasion)
            add(store, f"{kind}/{entry.piece}", entry.event(PairedRule.current()))
            if occasion == HERE and kind in kinds:
                blobs.put([entry.content])
    house: Any = SimpleNamespace(blobs=blobs)
    found = lessons_on(house, views(store), "quay", ("candidate",), kinds)
    assert [each.text for each in found] == [f"{kind} on quay" for kind in kinds]
    assert lessons_on(house, views(store), "quay", ("promoted",), kinds) == []
