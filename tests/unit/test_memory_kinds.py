"""Memory of every kind: what an artifact holds of it, and that it is the same whenever and wherever it is made."""

from __future__ import annotations

import pytest

from agents.learning.memory import (
    EVERY_KIND,
    build_memory_artifact,
    content_reader,
    erased_in,
    forget_everything,
    load_piece,
    pieces_from,
    rebuild_memory,
)
from agents.learning.occasions import OccasionPiece, lesson_id
from agents.learning.piece_content import MEDIA_TYPE, content_bytes
from agents.learning.retrieval import overlay_memory
from agents.learning.trial_results import Outcomes, credits_of
from agents.plans import Plan, plan_bytes
from agents.rollouts.sweep import SeedSweep
from agents.rollouts.trials import TrialPiece, treat
from eventlog.blobs import Blob, MemoryBlobs
from eventlog.chain import digest
from eventlog.errors import BlobErased
from eventlog.events import (
    Applied,
    ExemplarCaptured,
    HintRecorded,
    InsertSteps,
    MemoryQuarantined,
    Occasion,
    PairedRule,
    PieceKind,
    PieceTried,
    PreferTarget,
    PromotionRule,
    SeedsRule,
    Spec,
    Step,
    Trials,
)
from eventlog.memory import MemoryStore
from eventlog.store import Position
from projections.engine.views import ReplayedViews
from projections.memories import candidacies
from projections.pieces import HINTS
from projections.rewards import RewardState
from projections.runs import RunState
from tests.unit.test_agent_samples import OPEN, a_store, add, decide_rewrite, propose, spec, template, views

ENGINE = Step(type="click", intent="look for the engine", label="Engine log")
PHONE = Step(type="submit", intent="show its phone number", label="Show phone number")
ASK = Step(type="submit", intent="ask for a contact", label="Start a contact request")
PLAN: Plan = (OPEN, ENGINE, PHONE)
HINT = PreferTarget(label="Haul-out report")
EXEMPLAR = InsertSteps(steps=(ASK,))


def occasion(step: Step) -> Occasion:
    return Occasion(environment="marketplace", type=step.type, intent=step.intent, page="")


HINT_ID, EXEMPLAR_ID = lesson_id("hint", occasion(ENGINE), HINT), lesson_id("exemplar", occasion(PHONE), EXEMPLAR)


def blobs() -> tuple[MemoryBlobs, str, str]:
    """A store of both contents, and their addresses."""
    found = MemoryBlobs()
    hint, exemplar = (
        Blob(MEDIA_TYPE, content_bytes(text, change))
        for text, change in (("it is in the haul-out report", HINT), ("ask first", EXEMPLAR))
    )
    found.put([hint, exemplar])
    return found, hint.digest, exemplar.digest


def record(store: MemoryStore, hint: str, exemplar: str, rule: PromotionRule | None = None) -> None:
    given = rule or SeedsRule()
    add(
        store,
        f"hint/{HINT_ID}",
        HintRecorded(
            hint=HINT_ID,
            occasion=occasion(ENGINE),
            content=hint,
            rule=given,
            run="finder",
            source="recovery",
            confidence=500_000,
        ),
    )
    add(
        store,
        f"exemplar/{EXEMPLAR_ID}",
        ExemplarCaptured(
            exemplar=EXEMPLAR_ID,
            form="inject",
            occasion=occasion(PHONE),
            content=exemplar,
            reward=1_000_000,
            rule=given,
            run="good",
            source="good_run",
        ),
    )


def decide(
    store: MemoryStore, piece: str, kind: PieceKind, *outcomes: bool, controls: tuple[str, ...] = ()
) -> Position:
    for number, won in enumerate(outcomes):
        event = PieceTried(
            piece=piece,
            kind=kind,
            run=f"{piece}-{number}",
            control_runs=controls,
            control_successes=0,
            won=won,
            withheld=False,
        )
        add(store, f"{kind}/{piece}", event)
    return store.head()


def a_history() -> tuple[MemoryStore, MemoryBlobs, dict[str, Position]]:
    """A rewrite, a hint and an exemplar are promoted in turn, then the hint is taken out."""
    store, (kept, hint, exemplar) = a_store(), blobs()
    propose(store, "rw-a")
    record(store, hint, exemplar)
    marks = {"nothing": store.head()}
    marks["rewrite"] = decide_rewrite(store, "rw-a", True, True, True)
    marks["hint"] = decide(store, HINT_ID, "hint", True, True, True)
    marks["exemplar"] = decide(store, EXEMPLAR_ID, "exemplar", False, True, True, True)
    gone = MemoryQuarantined(piece=HINT_ID, kind="hint", restored=0, reason="why")
    marks["quarantined"] = add(store, "champion", gone)
    return store, kept, marks


def names(store: MemoryStore, kept: MemoryBlobs, upto: Position) -> list[str]:
    content = build_memory_artifact(ReplayedViews(store, upto), "base")[1].body
    return [piece.piece for piece in pieces_from(content, content_reader(kept))]


def test_an_artifact_holds_what_is_promoted_of_every_kind() -> None:
    store, kept, marks = a_history()
    assert {name: names(store, kept, upto) for name, upto in marks.items()} == {
        "nothing": [],
        "rewrite": ["rw-a"],
        "hint": ["rw-a", HINT_ID],
        "exemplar": ["rw-a", HINT_ID, EXEMPLAR_ID],
        "quarantined": ["rw-a", EXEMPLAR_ID],
    }


def test_an_artifact_without_lessons_is_what_it_was_before_there_were_any() -> None:
    store, _, marks = a_history()
    artifact, blob = build_memory_artifact(ReplayedViews(store, marks["rewrite"]), "base")
    assert blob.body.startswith(b'{"rewrites":[{')
    assert artifact.memory.folds == {"rewrites": 4}
    nothing = build_memory_artifact(ReplayedViews(store, marks["nothing"]), "base")
    assert nothing[1] == forget_everything("base")[1]


def test_the_folds_that_an_artifact_names_make_it_again() -> None:
    store, _, marks = a_history()
    for upto in marks.values():
        seen = ReplayedViews(store, upto)
        for kinds in (frozenset[PieceKind]({"hint"}), frozenset[PieceKind]({"rewrite", "exemplar"}), EVERY_KIND):
            artifact, blob = build_memory_artifact(seen, "base", without=["rw-a"], kinds=kinds)
            assert rebuild_memory(seen, "base", artifact.memory) == blob
    other = artifact.memory.model_copy(update={"folds": {"rewrites": 3, "hints": 99}})
    assert rebuild_memory(seen, "base", other) is None


def test_a_kind_can_be_left_out_and_a_piece_that_is_left_out_is_written_down() -> None:
    store, kept, marks = a_history()
    seen = ReplayedViews(store, marks["exemplar"])
    hints = build_memory_artifact(seen, "base", kinds={"hint"})
    assert [piece.piece for piece in pieces_from(hints[1].body, content_reader(kept))] == [HINT_ID]
    assert hints[0].memory.folds == {HINTS.name: HINTS.version}
    without = build_memory_artifact(seen, "base", without=[HINT_ID, "rw-unknown"])
    assert without[0].memory.without == (HINT_ID,)
    assert [piece.piece for piece in pieces_from(without[1].body, content_reader(kept))] == ["rw-a", EXEMPLAR_ID]


def test_memory_at_any_earlier_position_gives_the_plan_that_it_gave_then() -> None:
    """Byte for byte, while the log goes on."""
    store, kept, _ = a_history()
    ran: dict[Position, str] = {}
    for upto in range(1, store.head() + 1):
        ran[Position(upto)] = _executed(store, kept, Position(upto))
    decide(store, EXEMPLAR_ID, "exemplar", False, False)
    decide_rewrite(store, "rw-a", False, False)
    assert {upto: _executed(store, kept, upto) for upto in ran} == ran
    assert len(set(ran.values())) == 5


def _executed(store: MemoryStore, kept: MemoryBlobs, upto: Position) -> str:
    content = build_memory_artifact(ReplayedViews(store, upto), "base")[1].body
    plan = overlay_memory(PLAN, "do it", "marketplace", pieces_from(content, content_reader(kept))).plan
    return digest([plan_bytes(plan).decode()]).hex()


def test_an_erased_content_is_left_out_and_named_and_changes_no_digest() -> None:
    store, _, marks = a_history()
    seen = ReplayedViews(store, marks["exemplar"])
    content = build_memory_artifact(seen, "base")[1].body

    def read(address: str) -> bytes | None:
        return None if address == blobs()[1] else blobs()[0].get(address).body

    assert [piece.piece for piece in pieces_from(content, read)] == ["rw-a", EXEMPLAR_ID]
    assert erased_in(content, read) == (HINT_ID,)
    assert load_piece(candidacies(seen)[HINT_ID], read) is None


def test_whoever_reads_strictly_is_told_of_what_was_erased() -> None:
    store, _, marks = a_history()
    content = build_memory_artifact(ReplayedViews(store, marks["exemplar"]), "base")[1].body

    def read(address: str) -> bytes:
        raise BlobErased(actual=address)

    with pytest.raises(BlobErased):
        pieces_from(content, read)


def test_losses_lower_the_rank_that_memory_keeps() -> None:
    """(wins + 1) / (trials + 2) of 500,000, the hint's confidence, and of 1,000,000, the exemplar's reward."""
    store, (kept, hint, exemplar) = a_store(), blobs()
    record(store, hint, exemplar, PairedRule())
    decide(store, HINT_ID, "hint", *[True] * 10, controls=("a", "b", "c"))
    decide(store, EXEMPLAR_ID, "exemplar", *[True, True, True, False, False] * 4, controls=("a", "b", "c"))
    content = build_memory_artifact(views(store), "base")[1].body
    ranks = {
        piece.piece: piece.rank
        for piece in pieces_from(content, content_reader(kept))
        if isinstance(piece, OccasionPiece)
    }
    assert ranks == {HINT_ID: 500_000 * 11 // 12, EXEMPLAR_ID: 1_000_000 * 13 // 22}


ALL_TREATED = Trials(treated_micro=1_000_000, withheld_micro=0)
ALL_WITHHELD = Trials(treated_micro=0, withheld_micro=1_000_000)


def tried(trials: Trials, environment: str = "marketplace") -> set[tuple[str | None, str | None, str]]:
    """What the groups of two templates try of a hint and an exemplar, as candidates and as promoted pieces."""
    store, kept, _ = a_history()
    held = [load_piece(state, content_reader(kept)) for state in candidacies(views(store)).values()]
    pieces = [TrialPiece(piece, 3) for piece in held if isinstance(piece, OccasionPiece)]
    templates = (template("both", PLAN), template("neither", (OPEN,)))
    bare = SeedSweep("s1", templates, range(40), 4).specs()
    specs = treat(bare, templates, pieces, pieces, trials, 7, environment)
    return {(each.candidate, each.withheld, each.template) for each in specs if not each.is_plain}


def test_lessons_are_tried_and_withheld_where_they_change_the_plan() -> None:
    assert tried(ALL_TREATED) == {(HINT_ID, None, "both"), (EXEMPLAR_ID, None, "both")}
    assert tried(ALL_WITHHELD) == {(None, HINT_ID, "both"), (None, EXEMPLAR_ID, "both")}
    assert tried(ALL_TREATED, "helpdesk") == set()


def trial_of(*, candidate: str | None = None, withheld: str | None = None) -> PieceTried:
    """What a group of five is credited where the last of it tried a piece and alone passed."""
    store, (_, hint, exemplar) = a_store(), blobs()
    record(store, hint, exemplar, PairedRule())
    group: list[Spec] = [
        spec(f"g{index}").model_copy(update={"sibling_index": index, "group_id": "s1__g"}) for index in range(5)
    ]
    group[-1] = group[-1].model_copy(update={"candidate": candidate, "withheld": withheld})
    carrying = group[-1:] if candidate else group[:-1]
    applied = {each.spec_id: (candidate or withheld or "",) for each in carrying}
    runs = {each.spec_id: RunState(run=each.spec_id, applied=applied.get(each.spec_id, ())) for each in group}
    rewards = {each.spec_id: RewardState(run=each.spec_id, passed=each is group[-1]) for each in group}
    (append,) = credits_of(group, Outcomes(runs, rewards, frozenset()), candidacies(views(store)), "test")
    assert append.stream == f"hint/{HINT_ID}"
    assert append.key == "credit:s1__g4"
    (event,) = append.events
    assert isinstance(event, PieceTried)
    return event


def test_a_trial_of_a_lesson_is_a_piece_tried_of_its_kind() -> None:
    treated, without = trial_of(candidate=HINT_ID), trial_of(withheld=HINT_ID)
    assert (treated.piece, treated.kind, treated.won, treated.withheld) == (HINT_ID, "hint", True, False)
    assert (without.piece, without.kind, without.won, without.withheld) == (HINT_ID, "hint", True, True)


def test_what_a_run_applied_says_of_which_kind_it_was() -> None:
    store, kept, marks = a_history()
    content = build_memory_artifact(ReplayedViews(store, marks["exemplar"]), "base")[1].body
    applied = overlay_memory(PLAN, "do it", "marketplace", pieces_from(content, content_reader(kept))).applied
    assert applied == (
        Applied(piece="rw-a", kind="rewrite", step=0),
        Applied(piece=HINT_ID, kind="hint", step=1),
        Applied(piece=EXEMPLAR_ID, kind="exemplar", step=2),
    )
