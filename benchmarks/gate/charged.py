"""The test with lost places charged, for many evaluations at once: signs are drawn as the gate draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eventlog.events import Rules
from gate.sequential import alpha_spent

MICRO = 1_000_000


def first_rejections(
    first: Any, second: Any, kept: Any, lost: Any, ends: Sequence[int], rules: Rules, alpha: int, seed: int
) -> Any:
    """The look (from 0) at which the charged test of each evaluation rejects first; `len(ends)` where none does.

    Scores and `kept` are shaped (evaluations, instances), `lost` (arms, evaluations, instances); one repeat each.
    """
    count, draws = len(first), -(-rules.draws_per_alpha * MICRO // alpha)
    rng, found, begin = np.random.default_rng(seed), np.full(count, len(ends)), 0
    deltas = np.where(kept, second - first, 0).astype(np.float32)
    surplus = (lost[1] > 0).astype(np.float32) - (lost[0] > 0)
    sums, lots = (np.zeros((draws, count), dtype=np.float32) for _ in range(2))
    is_gone = np.zeros((draws, count), dtype=bool)
    for place, end in enumerate(ends):
        signs = rng.choice(np.array([-1, 1], dtype=np.float32), (draws, end - begin))
        sums += signs @ deltas[:, begin:end].T
        lots += signs @ surplus[:, begin:end].T
        charge = _charges(first[:, :end], second[:, :end], kept[:, :end], lost[0, :, :end])
        drawn = np.where(is_gone, np.inf, sums - charge * lots)
        observed = deltas[:, :end].sum(axis=1) - charge * surplus[:, :end].sum(axis=1)
        allowed = alpha_spent(alpha, rules.looks[place], rules.spending)
        p = ((drawn >= observed).sum(axis=0) + 1) / (draws + 1)
        found[(p <= float(allowed)) & (found == len(ends))] = place
        room = draws - int(allowed * (draws + 1))
        pool = np.concatenate([drawn, observed[None, :]])
        is_gone = drawn > np.partition(pool, room, axis=0)[room]
        begin = end
    return found


def _charges(first: Any, second: Any, kept: Any, lost: Any) -> Any:
    """What a lost place costs in each evaluation: as `gate.losses.charge_of`, in the unit of the scores."""
    mean = np.where(kept, first + second, 0).sum(axis=1) / np.maximum(1, 2 * kept.sum(axis=1))
    share = np.maximum(1, (lost == 0).sum(axis=1)) / lost.shape[1]
    return np.minimum(1, mean / share).astype(np.float32)
