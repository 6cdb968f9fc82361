"""How far the logged log-probabilities of a dataset lie from those of the weights that training starts from."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import GrpoConfig
from trainer.errors import RatiosOutside, StalePolicy
from trainer.grpo import check_staleness

TOKENS = 1_000
GRPO = GrpoConfig(steps=1, learning_rate="0.001")


def check(away: dict[int, float], **config: str) -> dict[str, float | int]:
    """Check one row whose tokens are logged at -1, some of them `away` from that under the initial weights."""
    import torch

    values = torch.full((TOKENS,), -1.0)
    for place, distance in away.items():
        values[place] += distance
    frame = pl.DataFrame({"mask": [[1] * TOKENS], "logprobs": [[-1.0] * TOKENS]})
    return check_staleness(frame, {0: values}, GRPO.model_copy(update=config))


def test_a_few_tokens_far_off_are_refused_where_the_mean_is_within_its_bound() -> None:
    far = dict.fromkeys(range(11), -0.5)  # as where a grammar forces a token: mean 0.0055, 1.1 % outside 0.8 to 1.2
    with pytest.raises(RatiosOutside, match=r"0\.011 of 1000 tokens have a ratio outside 0\.8 to 1\.2"):
        check(far)
    assert check(far, outside="0.02")["outside"] == pytest.approx(0.011)
    del far[0]
    assert check(far) == pytest.approx({"mean": 0.005, "largest": 0.5, "tokens": TOKENS, "outside": 0.01})


def test_a_mean_beyond_its_bound_is_told_first() -> None:
    with pytest.raises(StalePolicy, match=r"by 0\.02 on average"):
        check(dict.fromkeys(range(40), -0.5))


def test_tokens_that_are_not_the_policys_do_not_count() -> None:
    import torch

    frame = pl.DataFrame({"mask": [[0, 1]], "logprobs": [[0.0, -1.0]]})
    found = check_staleness(frame, {0: torch.tensor([-9.0, -1.0])}, GRPO)
    assert found == {"mean": 0.0, "largest": 0.0, "tokens": 1, "outside": 0.0}


@given(st.floats(-3.0, 3.0))
def test_one_ratio_is_outside_exactly_if_it_leaves_the_clipped_range(distance: float) -> None:
    import torch

    found = check({0: distance}, staleness="1", outside="1")
    ratio = torch.tensor(-1.0).add(distance).double().sub(-1.0).exp().item()
    assert found["outside"] == (0.001 if abs(ratio - 1) > 0.2 else 0.0)
