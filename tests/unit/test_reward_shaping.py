from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.rewards import SHAPING_VERSION, process_term, progress_term, shaped_return

MICRO = 1_000_000
SHARES = st.integers(0, MICRO)
COUNTS = st.integers(0, 500)


def test_process_is_what_is_left_of_the_effort_a_run_may_take() -> None:
    assert process_term(0, planned=11, max_steps=40) == MICRO
    assert process_term(11, planned=11, max_steps=40) == MICRO * 33 // 44
    assert process_term(44, planned=11, max_steps=40) == 0 == process_term(99, planned=11, max_steps=40)
    assert process_term(5, planned=0, max_steps=0) == 750_000


def test_progress_is_the_share_of_steps_that_went_well_and_whole_where_it_passed() -> None:
    assert progress_term(3, taken=4, planned=11, passed=False) == MICRO * 3 // 11
    assert progress_term(3, taken=20, planned=11, passed=False) == 150_000
    assert progress_term(0, taken=4, planned=11, passed=True) == MICRO
    assert progress_term(0, taken=0, planned=0, passed=False) == 0
    assert progress_term(1, taken=1, planned=40, passed=False) == 25_000


def test_the_shaped_return_is_its_formula() -> None:
    found = shaped_return(MICRO, passed=True, progress=MICRO, process=750_000, penalty=1_234)
    assert found.value == MICRO + MICRO + 500_000 + 187_500 - 1_234
    assert (found.version, found.score, found.passed, found.penalty) == (SHAPING_VERSION, MICRO, True, 1_234)
    assert shaped_return(500_000, passed=False, progress=400_000, process=MICRO, penalty=0).value == 800_000


def test_an_unknown_cost_is_no_shaped_return_and_never_zero() -> None:
    assert shaped_return(MICRO, passed=True, progress=MICRO, process=0, penalty=None).value is None


def test_whoever_does_nothing_earns_nothing_for_being_sparing() -> None:
    process = process_term(0, planned=11, max_steps=40)
    progress = progress_term(0, taken=0, planned=11, passed=False)
    assert (process, shaped_return(0, passed=False, progress=progress, process=process, penalty=0).value) == (MICRO, 0)


@given(SHARES, SHARES, SHARES, SHARES, st.integers(0, MICRO))
def test_a_run_that_passed_beats_every_failed_one_of_the_same_cost(
    score: int, progress: int, process: int, other: int, penalty: int
) -> None:
    passed = shaped_return(MICRO, passed=True, progress=MICRO, process=other, penalty=penalty).value
    failed = shaped_return(score, passed=False, progress=progress, process=process, penalty=penalty).value
    assert passed is not None
    assert failed is not None
    assert passed >= failed + 750_000


@given(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
def test_shares_stay_shares_and_more_effort_is_never_more_sparing(
    succeeded: int, taken: int, planned: int, effort: int, more: int
) -> None:
    assert 0 <= progress_term(succeeded, taken=taken, planned=planned, passed=False) <= MICRO
    less = process_term(effort, planned=planned, max_steps=taken)
    assert 0 <= process_term(effort + more, planned=planned, max_steps=taken) <= less <= MICRO
