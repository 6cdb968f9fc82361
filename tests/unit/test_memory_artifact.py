from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.learning.memory import build_memory_artifact, forget_everything, piece_of, pieces_from
from agents.plans import Piece, apply_overlay
from eventlog.events import MemoryQuarantined, Step
from eventlog.memory import MemoryStore
from eventlog.store import Position
from projections.engine.views import ReplayedViews
from projections.rewrites import REWRITES
from tests.unit.test_agent_samples import OPEN, a_store, add, decide_rewrite, propose, views

WON = (True,) * 3


def a_log() -> tuple[MemoryStore, dict[str, Position]]:
    """Two rewrites are promoted one after another, a third stays a candidate, the first is quarantined."""
    store = a_store()
    for rewrite in ("rw-b", "rw-a", "rw-c"):
        propose(store, rewrite)
    marks = {"proposed": store.head()}
    marks["one"] = decide_rewrite(store, "rw-b", *WON)
    marks["two"] = decide_rewrite(store, "rw-a", False, *WON)
    decide_rewrite(store, "rw-c", True, False, True)
    marks["candidate"] = store.head()
    gone = MemoryQuarantined(piece="rw-b", kind="rewrite", restored=0, reason="why")
    marks["quarantined"] = add(store, "champion", gone)
    return store, marks


def rewrites_in(content: bytes) -> tuple[Piece, ...]:
    """The pieces of a memory that holds rewrites alone."""
    held = pieces_from(content, lambda _address: None)
    assert all(isinstance(piece, Piece) for piece in held)
    return tuple(piece for piece in held if isinstance(piece, Piece))


def digests(store: MemoryStore, marks: dict[str, Position]) -> dict[str, str]:
    return {
        name: build_memory_artifact(ReplayedViews(store, upto), "base")[0].memory.digest for name, upto in marks.items()
    }


def test_the_empty_memory_has_one_digest_for_ever() -> None:
    artifact, blob = forget_everything("base")
    assert blob.body == b'{"rewrites":[]}'
    assert artifact.memory.digest == blob.digest
    assert blob.digest == "800f01a4f5abe6e557bd17d9be87ab1e77d7995fcaaba5646740447c58796ccf"
    assert (str(artifact), artifact.memory.without, rewrites_in(blob.body)) == ("base@0", (), ())
    assert build_memory_artifact(views(a_store()), "base") == (artifact, blob)


def test_only_what_is_promoted_at_that_position_is_remembered() -> None:
    store, marks = a_log()
    held = {
        name: [piece.piece for piece in rewrites_in(build_memory_artifact(ReplayedViews(store, upto), "base")[1].body)]
        for name, upto in marks.items()
    }
    assert held == {
        "proposed": [],
        "one": ["rw-b"],
        "two": ["rw-a", "rw-b"],
        "candidate": ["rw-a", "rw-b"],
        "quarantined": ["rw-a"],
    }


def test_memory_at_a_position_is_the_same_whenever_it_is_asked_for() -> None:
    store, marks = a_log()
    before = digests(store, marks)
    decide_rewrite(store, "rw-c", *WON)
    decide_rewrite(store, "rw-a", False, False)
    assert digests(store, marks) == before
    assert before["two"] == before["candidate"]
    assert len(set(before.values())) == 4
    assert before["proposed"] == forget_everything("base")[0].memory.digest


def test_an_artifact_names_its_position_and_its_content_only_by_digest() -> None:
    store, marks = a_log()
    one, two = (build_memory_artifact(ReplayedViews(store, marks[name]), "base")[0] for name in ("two", "candidate"))
    assert one.memory.digest == two.memory.digest
    assert str(one) != str(two)
    assert build_memory_artifact(ReplayedViews(store, marks["two"]), "a" * 64)[0].memory == one.memory


def test_pieces_are_what_the_log_promoted() -> None:
    store, marks = a_log()
    seen = ReplayedViews(store, marks["two"])
    pieces = rewrites_in(build_memory_artifact(seen, "base")[1].body)
    states = seen.find(REWRITES)
    assert list(pieces) == [piece_of(states["rw-a"]), piece_of(states["rw-b"])]
    assert [(piece.wins, piece.confidence) for piece in pieces] == [(3, 500_000), (3, 500_000)]
    assert apply_overlay((OPEN,), pieces).plan == (OPEN.model_copy(update={"url": "/rw-a"}),)


@given(st.permutations(["rw-a", "rw-b", "rw-c", "rw-d"]))
def test_the_order_of_proposals_and_wins_does_not_matter(order: list[str]) -> None:
    store = a_store()
    for rewrite in order:
        propose(store, rewrite)
        decide_rewrite(store, rewrite, *WON)
    content = build_memory_artifact(views(store), "base")[1].body
    assert [piece.piece for piece in rewrites_in(content)] == sorted(order)


def test_a_piece_keeps_the_anchor_that_finds_its_step() -> None:
    store, marks = a_log()
    pieces = rewrites_in(build_memory_artifact(ReplayedViews(store, marks["one"]), "base")[1].body)
    edited = Step(type="navigate", intent="open the boats page", url="/boats?all")
    elsewhere = Step(type="navigate", intent="open the tickets", url="/boats?all")
    assert apply_overlay((elsewhere,), pieces).applied == ()
    assert apply_overlay((edited,), pieces).applied[0].step == 0
    assert apply_overlay((edited, OPEN), pieces).applied[0].step == 1
