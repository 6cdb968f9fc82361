"""A sweep's counts: graded is what has a reward."""

from __future__ import annotations

from api.sweeps.progress import sweep_progress
from tests.unit.test_agent_samples import add, finished, started, views
from tests.unit.test_fast_decide import a_log, plan, play


def test_a_run_is_graded_if_it_has_a_reward_and_counts_apart_if_it_ended_without_one() -> None:
    store = a_log()
    sweep = plan(store, "s1", 6)
    play(store, sweep.specs[:3], True, False, None)
    ungraded, playing, _waiting = sweep.specs[3:]
    add(store, f"run/{ungraded.spec_id}", started(ungraded), finished(ungraded))
    add(store, f"run/{playing.spec_id}", started(playing))
    (found,) = sweep_progress(views(store), [sweep])
    assert (found.graded, found.ungraded, found.missing, found.playing, found.waiting) == (2, 1, 1, 1, 1)
    assert found.received == found.graded + found.ungraded + found.missing + found.playing + found.waiting
    assert found.sentence() == ("6 received = 2 graded + 1 missing + 1 ended without a grade + 1 playing + 1 waiting")


def test_a_sweep_without_a_graded_run_was_played_in_vain() -> None:
    store = a_log()
    sweep = plan(store, "s1", 2)
    first, second = sweep.specs
    play(store, [first], None)
    assert not sweep_progress(views(store), [sweep])[0].is_in_vain
    add(store, f"run/{second.spec_id}", started(second), finished(second))
    assert sweep_progress(views(store), [sweep])[0].is_in_vain
