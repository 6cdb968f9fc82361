"""Quarantining a piece by hand: at the position that was looked at, with a reason, once."""

from __future__ import annotations

import pytest

from eventlog.events import MemoryQuarantined
from eventlog.memory import MemoryStore
from gate.errors import ChampionMoved, NothingBefore, PieceQuarantined, PieceUnknown, ReasonMissing
from gate.promote import back, quarantine_piece
from gate.return_plan import plan_return
from projections.rewrites import REWRITES
from tests.golden.test_golden_samples import sample
from tests.unit.test_gate_promote import NEW, OLD, a_store, add, champion_events, views

PIECE = "rw-80280fbd00d0"


@pytest.fixture
def store() -> MemoryStore:
    found = a_store(OLD, NEW)
    add(found, f"rewrite/{PIECE}", sample("RewriteProposed"))
    return found


def test_a_piece_is_quarantined_and_the_champion_stays(store: MemoryStore) -> None:
    quarantine_piece(store, views(store), PIECE, "it misleads", "dashboard:op")
    state = views(store).get(REWRITES, PIECE)
    assert state is not None
    assert state.status == "quarantined"
    last = champion_events(store)[-1]
    assert isinstance(last, MemoryQuarantined)
    assert (last.piece, last.kind, last.restored, last.reason) == (PIECE, "rewrite", 9, "it misleads")


def test_what_cannot_be_quarantined_is_refused_and_nothing_is_written(store: MemoryStore) -> None:
    head, seen = store.head(), views(store)
    with pytest.raises(PieceUnknown):
        quarantine_piece(store, seen, "rw-none", "why", "op")
    with pytest.raises(ReasonMissing):
        quarantine_piece(store, seen, PIECE, " ", "op")
    assert store.head() == head
    quarantine_piece(store, seen, PIECE, "why", "op")
    with pytest.raises(PieceQuarantined):
        quarantine_piece(store, views(store), PIECE, "why", "op")
    with pytest.raises(ChampionMoved):
        quarantine_piece(store, seen, PIECE, "why", "op")


def test_the_plan_of_a_return_is_what_going_back_does(store: MemoryStore) -> None:
    plan = plan_return(views(store))
    assert (plan.left, plan.restored) == (NEW, OLD)
    done = back(store, views(store), "why", "op")
    assert (done.artifact, done.quarantined) == (plan.restored, plan.quarantined)
    with pytest.raises(NothingBefore):
        plan_return(views(store))
