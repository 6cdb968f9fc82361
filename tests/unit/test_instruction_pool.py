"""What the successor of an instruction is made from: which instructions, and which runs with it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any

from agents.learning.evolution import NONE
from agents.learning.memory_file import MemoryFileEntry
from agents.rewards import compute_reward
from api.sweeps.evolve import MOST_OVER, InstructionPool, instruction_pool
from api.sweeps.reflect import Question
from eventlog.blobs import MemoryBlobs
from eventlog.events import Applied, Occasion, PairedRule, PieceTried, SweepPlanned, Usage
from eventlog.memory import MemoryStore
from projections.memories import LOOSE
from projections.rewards import RewardState, VerifierGrade
from projections.runs import RunState
from tests.unit.test_agent_samples import BOOK, EMPTY, add, finished, spec, started, template, views

PIECE = "in-a"
OCCASION = Occasion(environment="marketplace", type="navigate", intent="", page="", cluster="c")
ONE_LOOK = PairedRule(looks=(1,))
TRIED, CONTROLS = spec("r0"), tuple(spec(f"r{number}") for number in (1, 2, 3))
SWEEP = SweepPlanned(
    sweep="s1", environment="marketplace", templates=(template(),), specs=(TRIED, *CONTROLS), artifact=EMPTY, rng_seed=0
)


def pool_of(*rewards: RewardState, applied: tuple[str, ...] = (PIECE,)) -> InstructionPool:
    """A pool of one instruction whose runs have these grades, and of one more run without a grade."""
    runs = {each.run: RunState(run=each.run, applied=applied) for each in rewards}
    runs["shop-11__a"] = RunState(run="shop-11__a", applied=applied)
    texts = {PIECE: "Look first."}
    return InstructionPool(texts, texts, {PIECE}, PIECE, (), runs, {each.run: each for each in rewards})


def test_the_newest_runs_are_those_that_were_graded_last_whatever_their_names() -> None:
    pool = pool_of(*(RewardState(run=f"shop-{number}__a", since=number) for number in (10, 9, 8)))
    assert pool.told_runs(PIECE) == ["shop-10__a", "shop-9__a", "shop-8__a"]
    assert pool.told_runs("in-b") == []


def test_a_run_that_was_graded_again_is_as_old_as_before() -> None:
    before = VerifierGrade(version="oracle-1", since=2, score=0, passed=False, value=None, shaped=None)
    old = RewardState(run="shop-2__a", version="outcome-1", since=90, others=(before,))
    assert pool_of(old, RewardState(run="shop-10__a", since=10)).told_runs(PIECE) == ["shop-10__a", "shop-2__a"]


def a_log() -> MemoryStore:
    """A log whose clock goes on by a second with each append."""
    seconds = count()
    return MemoryStore(lambda: datetime(2026, 11, 20, tzinfo=UTC) + timedelta(seconds=next(seconds)))


def propose(store: MemoryStore, text: str, rule: PairedRule = ONE_LOOK, run: str = "old") -> MemoryFileEntry:
    """An instruction that was proposed and tried once; the rule of one look retires it."""
    entry = MemoryFileEntry(kind="instruction", occasion=OCCASION, text=text)
    trial = PieceTried(
        piece=entry.piece,
        kind="instruction",
        run=run,
        control_runs=tuple(each.spec_id for each in CONTROLS),
        control_successes=0,
        won=False,
        withheld=False,
    )
    add(store, f"instruction/{entry.piece}", entry.event(rule))
    add(store, f"instruction/{entry.piece}", trial)
    return entry


def pool_in(store: MemoryStore, blobs: MemoryBlobs) -> InstructionPool:
    house: Any = SimpleNamespace(store=store, blobs=blobs)
    seen: Any = views(store)
    return instruction_pool(house, seen, SWEEP, Question(template(), TRIED.spec_id), {})


def test_of_instructions_that_are_tried_no_further_the_newest_have_successors_and_no_others_are_read() -> None:
    store, blobs = a_log(), MemoryBlobs()
    given_up = [propose(store, f"Look {number} times.") for number in range(MOST_OVER + 3)]
    on_trial = propose(store, "Look around.", PairedRule())
    assert Counter(each.status for each in views(store).find(LOOSE["instruction"]).values()) == {
        "retired": len(given_up),
        "candidate": 1,
    }
    blobs.put([each.content for each in (*given_up[3:], on_trial)])
    found = pool_in(store, blobs)
    assert found.texts == found.known == {each.piece: each.text for each in (*given_up[3:], on_trial)}
    assert {each.piece for each in found.tried} == found.texts.keys()


def test_candidates_that_were_never_tried_and_are_tried_no_further_are_nobodys_parents() -> None:
    store, blobs = a_log(), MemoryBlobs()
    given_up = propose(store, "Look first.")
    for number in range(MOST_OVER + 1):
        entry = MemoryFileEntry(
            kind="instruction", occasion=OCCASION, text=f"Wait {number} times.", title="in-replaced"
        )
        add(store, f"instruction/{entry.piece}", entry.event(PairedRule()))
    blobs.put([given_up.content])
    assert pool_in(store, blobs).texts == {given_up.piece: given_up.text}


def test_a_run_that_was_told_an_instruction_of_long_ago_is_none_without_one() -> None:
    store, blobs = a_log(), MemoryBlobs()
    given_up = [propose(store, f"Look {number} times.") for number in range(MOST_OVER + 1)]
    on_trial = propose(store, "Look around.", PairedRule(), TRIED.spec_id)
    blobs.put([each.content for each in (*given_up[1:], on_trial)])
    usage = Usage(actions=1, wall_microseconds=1, input_tokens=0, output_tokens=0)
    for each, told in ((TRIED, on_trial), *((each, given_up[0]) for each in CONTROLS)):
        applied = (Applied(piece=told.piece, kind="instruction", step=0),)
        reward = compute_reward(each.spec_id, each.group_id, 7, (), usage, BOOK, passed=False, conduct=None)
        begun = started(each).model_copy(update={"applied": applied})
        add(store, f"run/{each.spec_id}", begun, finished(each), reward)
    cards = {each.piece: each for each in pool_in(store, blobs).cards()}
    assert (len(cards[on_trial.piece].scores), cards[NONE].scores) == (1, {})
