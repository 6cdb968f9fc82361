"""The runs of an instruction that its successor is made from."""

from __future__ import annotations

from api.sweeps.evolve import InstructionPool
from projections.rewards import RewardState, VerifierGrade
from projections.runs import RunState

PIECE = "in-a"


def pool_of(*rewards: RewardState, applied: tuple[str, ...] = (PIECE,)) -> InstructionPool:
    """A pool of one instruction whose runs have these grades, and of one more run without a grade."""
    runs = {each.run: RunState(run=each.run, applied=applied) for each in rewards}
    runs["shop-11__a"] = RunState(run="shop-11__a", applied=applied)
    texts = {PIECE: "Look first."}
    return InstructionPool(texts, texts, PIECE, (), runs, {each.run: each for each in rewards})


def test_the_newest_runs_are_those_that_were_graded_last_whatever_their_names() -> None:
    pool = pool_of(*(RewardState(run=f"shop-{number}__a", since=number) for number in (10, 9, 8)))
    assert pool.told_runs(PIECE) == ["shop-10__a", "shop-9__a", "shop-8__a"]
    assert pool.told_runs("in-b") == []


def test_a_run_that_was_graded_again_is_as_old_as_before() -> None:
    before = VerifierGrade(version="oracle-1", since=2, score=0, passed=False, value=None, shaped=None)
    old = RewardState(run="shop-2__a", version="outcome-1", since=90, others=(before,))
    assert pool_of(old, RewardState(run="shop-10__a", since=10)).told_runs(PIECE) == ["shop-10__a", "shop-2__a"]
