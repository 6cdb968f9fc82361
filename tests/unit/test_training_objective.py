from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from eventlog.events.training import Aggregation
from trainer.objective import Objective, Scored, StepTotals, grpo_loss

OLD = [[-1.0, -2.0, -0.5], [-0.7, -1.5, -9.0]]
THETA = [[-0.5, -2.1, -0.5], [-1.3, -1.4, -3.0]]
REFERENCE = [[-0.9, -2.0, -0.4], [-0.8, -1.6, -5.0]]
MASK = [[1, 1, 0], [1, 1, 0]]
ADVANTAGE = [1.5, -0.5]
OBJECTIVE = Objective(epsilon=0.2, beta=0.04, aggregation="grpo", max_tokens=10)
WHOLE = StepTotals(runs=2, tokens=4)


def scored(**changes: Any) -> Scored:
    import torch

    values = {
        "theta": THETA,
        "old": OLD,
        "reference": REFERENCE,
        "mask": MASK,
        "advantage": ADVANTAGE,
        "run_tokens": [2, 2],
    } | changes
    return Scored(**{name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()})


def by_hand(theta: float, old: float, reference: float, advantage: float) -> float:
    rho = math.exp(theta - old)
    held = min(max(rho, 0.8), 1.2)
    kl = math.exp(reference - theta) - (reference - theta) - 1
    return min(rho * advantage, held * advantage) - 0.04 * kl


def tokens_by_hand() -> list[list[float]]:
    return [
        [by_hand(*token, ADVANTAGE[row]) for token in zip(THETA[row][:2], OLD[row], REFERENCE[row], strict=False)]
        for row in (0, 1)
    ]


@pytest.mark.parametrize(
    ("aggregation", "divide"),
    [
        ("grpo", lambda rows: sum(sum(row) / len(row) for row in rows) / 2),
        ("bnpo", lambda rows: sum(map(sum, rows)) / 4),
        ("dr_grpo", lambda rows: sum(map(sum, rows)) / 20),
    ],
)
def test_the_loss_is_the_formula(aggregation: Aggregation, divide: Any) -> None:
    loss = grpo_loss(scored(), replace(OBJECTIVE, aggregation=aggregation), WHOLE)
    assert float(loss.value) == pytest.approx(-divide(tokens_by_hand()), abs=1e-12)


def test_a_token_is_clipped_where_the_clip_decides() -> None:
    # exp(0.5) with A > 0 is held at 1.2; exp(-0.6) with A < 0 is held at 0.8; the other two lie within.
    assert grpo_loss(scored(), OBJECTIVE, WHOLE).clipped == 2
    # Turn the signs: now the clip gives way, because min takes the worse of both.
    assert grpo_loss(scored(advantage=[-1.5, 0.5]), OBJECTIVE, WHOLE).clipped == 0


def test_the_measures_are_sums_over_the_tokens_of_the_model() -> None:
    loss = grpo_loss(scored(), OBJECTIVE, WHOLE)
    told = [(t, o, r) for row in (0, 1) for t, o, r in zip(THETA[row][:2], OLD[row], REFERENCE[row], strict=False)]
    assert loss.ratio == pytest.approx(sum(math.exp(t - o) for t, o, _ in told))
    assert loss.kl == pytest.approx(sum(math.exp(r - t) - (r - t) - 1 for t, _, r in told))


def test_a_clipped_token_moves_nothing_but_its_kl_and_a_masked_one_nothing_at_all() -> None:
    taken = scored()
    taken.theta.requires_grad_()
    grpo_loss(taken, replace(OBJECTIVE, beta=0.0), WHOLE).value.backward()
    gradient = taken.theta.grad
    assert [[bool(value) for value in row] for row in gradient.tolist()] == [[False, True, False], [False, True, False]]


def test_parts_of_a_step_add_up_to_it() -> None:
    whole = grpo_loss(scored(), OBJECTIVE, WHOLE)
    parts = [
        grpo_loss(
            scored(
                theta=THETA[row : row + 1],
                old=OLD[row : row + 1],
                reference=REFERENCE[row : row + 1],
                mask=MASK[row : row + 1],
                advantage=ADVANTAGE[row : row + 1],
                run_tokens=[2],
            ),
            OBJECTIVE,
            WHOLE,
        )
        for row in (0, 1)
    ]
    assert float(sum(part.value for part in parts)) == pytest.approx(float(whole.value), abs=1e-12)
    assert sum(part.kl for part in parts) == pytest.approx(whole.kl)


def test_what_was_never_said_has_no_say_even_where_it_overflows() -> None:
    wild = [[*row[:2], 900.0] for row in THETA]
    assert float(grpo_loss(scored(theta=wild), OBJECTIVE, WHOLE).value) == pytest.approx(
        float(grpo_loss(scored(), OBJECTIVE, WHOLE).value)
    )


def test_a_run_that_became_two_rows_weighs_what_any_other_run_weighs() -> None:
    theta, old, reference = (
        [[*row[:2], 0.0], *values] for row, values in ((THETA[0], THETA), (OLD[0], OLD), (OLD[0], OLD))
    )
    # The first run is two rows of two tokens each, the second one row of two tokens.
    taken = scored(
        theta=theta,
        old=old,
        reference=reference,
        mask=[MASK[0], *MASK],
        advantage=[1.5, 1.5, -0.5],
        run_tokens=[4, 4, 2],
    )
    told = [
        [by_hand(*token, advantage) for token in zip(theta[row][:2], old[row], reference[row], strict=False)]
        for row, advantage in enumerate([1.5, 1.5, -0.5])
    ]
    runs = [sum(told[0] + told[1]) / 4, sum(told[2]) / 2]
    assert float(grpo_loss(taken, OBJECTIVE, StepTotals(runs=2, tokens=6)).value) == pytest.approx(-sum(runs) / 2)
