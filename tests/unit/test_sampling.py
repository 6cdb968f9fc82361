"""One token out of logits: by what probability it is drawn, and what its logprob is of."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from agents.models.errors import LogitsBroken
from agents.models.local.sampling import draw_token, uniform
from benchmarks.serving.parity import TIE, is_near_draw

LOGITS = np.log(np.array([0.5, 0.05, 0.25, 0.2], dtype=np.float32))
MICRO = 1_000_000


def shares(temperature_micro: int, top_p_micro: int = MICRO, draws: int = 20_000) -> dict[int, float]:
    """How often each token comes, where it comes."""
    drawn = Counter(
        draw_token(LOGITS, temperature_micro, top_p_micro, uniform(7, 0, place))[0] for place in range(draws)
    )
    return {token: count / draws for token, count in drawn.items()}


def test_tokens_come_as_often_as_their_logprob_says() -> None:
    for temperature, top_p in ((MICRO, MICRO), (MICRO // 2, MICRO), (2 * MICRO, MICRO), (MICRO, 700_000)):
        found = shares(temperature, top_p)
        for token, share in found.items():
            number = next(
                n / 1000 for n in range(1, 1000) if draw_token(LOGITS, temperature, top_p, n / 1000)[0] == token
            )
            _, logprob = draw_token(LOGITS, temperature, top_p, number)
            assert share == pytest.approx(math.exp(logprob), abs=0.015)  # four deviations
        assert sum(found.values()) == pytest.approx(1.0)


def test_temperature_sharpens_and_a_cut_takes_the_unlikeliest_away() -> None:
    sharp = 0.25 / (0.25 + 0.0025 + 0.0625 + 0.04)
    for temperature, top_p, share in ((MICRO, MICRO, 0.5), (MICRO // 2, MICRO, sharp), (MICRO, 700_000, 0.5 / 0.75)):
        token, logprob = draw_token(LOGITS, temperature, top_p, 0.1)
        assert (token, round(logprob, 5)) == (0, round(math.log(share), 5))
    assert set(shares(MICRO, 700_000)) == {0, 2}
    assert set(shares(MICRO, 760_000)) == {0, 2, 3}
    assert set(shares(MICRO, 1)) == {0}
    assert set(shares(MICRO)) == {0, 1, 2, 3}


def test_without_temperature_the_likeliest_is_certain_and_of_equals_the_first() -> None:
    assert draw_token(LOGITS, 0, MICRO, 0.99) == (0, 0.0)
    assert draw_token(np.array([1, 3, 3], dtype=np.float32), 0, MICRO, 0.99) == (1, 0.0)


def test_of_equals_a_cut_keeps_the_first() -> None:
    flat = np.zeros(4, dtype=np.float32)
    assert {draw_token(flat, MICRO, 500_000, n / 100)[0] for n in range(1, 100)} == {0, 1}


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_are_refused(bad: float) -> None:
    with pytest.raises(LogitsBroken):
        draw_token(np.array([0.0, bad], dtype=np.float32), MICRO, MICRO, 0.5)


def test_each_place_seed_and_sample_has_a_number_of_its_own_that_stays() -> None:
    numbers = {uniform(seed, sample, place) for seed in range(4) for sample in range(4) for place in range(64)}
    assert len(numbers) == 4 * 4 * 64
    assert all(0 < number < 1 for number in numbers)
    assert np.mean(list(numbers)) == pytest.approx(0.5, abs=0.04)
    assert uniform(1, 2, 3) == 0.9649101454689919  # the same in every process, for ever


def test_every_token_between_the_borders_of_a_tie_is_a_near_draw() -> None:
    small = TIE / 2
    row = np.log(np.array([0.5 - small, small, small, small, 0.5 - 2 * small]))
    assert [is_near_draw(row, token, 0.5) for token in range(5)] == [True, True, True, True, True]
    assert [is_near_draw(row, token, 0.4) for token in range(5)] == [True, False, False, False, False]
    assert is_near_draw(row, 4, 1.0 - TIE / 2)
    assert is_near_draw(row, 0, TIE / 2)
