"""Lessons on a site: of pieces of memory that nothing is learned from, no content is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents.learning.memory import EVERY_KIND
from agents.learning.memory_file import MemoryFileEntry
from agents.rewards import compute_reward
from api.sweeps.lessons import lessons_from
from api.sweeps.reflect import lessons_on
from eventlog.blobs import MemoryBlobs
from eventlog.events import Occasion, PairedRule, PieceKind, PieceTried, SeedsRule, SweepPlanned, Usage
from projections.memories import candidacies
from tests.unit.test_agent_samples import BOOK, EMPTY, a_store, add, finished, spec, started, template, views

USAGE = Usage(actions=1, wall_microseconds=1, input_tokens=0, output_tokens=0)

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


@pytest.mark.parametrize(("passed", "kind"), [(True, "exemplar"), (False, "skill"), (False, "instruction")])
def test_what_was_promoted_is_read_only_for_tasks_that_failed_and_only_where_it_may_be_a_lesson(
    *, passed: bool, kind: PieceKind
) -> None:
    store, planned = a_store(), spec("r0")
    entry = lesson(kind, HERE.model_copy(update={"environment": "marketplace"}))
    add(store, f"{kind}/{entry.piece}", entry.event(SeedsRule()))
    for number in range(3):
        won = PieceTried(
            piece=entry.piece,
            kind=kind,
            run=f"t{number}",
            control_runs=(),
            control_successes=0,
            won=True,
            withheld=False,
        )
        add(store, f"{kind}/{entry.piece}", won)
    assert {state.status for state in candidacies(views(store)).values()} == {"promoted"}
    reward = compute_reward(planned.spec_id, planned.group_id, 0, (), USAGE, BOOK, passed=passed, conduct=None)
    add(store, f"run/{planned.spec_id}", started(planned), finished(planned), reward)
    sweep = SweepPlanned(
        sweep="s1", environment="marketplace", templates=(template(),), specs=(planned,), artifact=EMPTY, rng_seed=0
    )
    house: Any = SimpleNamespace(blobs=MemoryBlobs(), store=store, views=lambda: views(store))
    head = store.head()
    lessons_from(house, sweep, PairedRule(), EVERY_KIND)
    assert store.head() == head
