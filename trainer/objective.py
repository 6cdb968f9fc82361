"""The objective of GRPO, stated once in plain torch.

For each token that the model said, with theta the policy in training, old the policy that sampled (its logged
log-probabilities) and ref the reference:

    rho = exp(log pi_theta - log pi_old)
    kl  = exp(log pi_ref - log pi_theta) - (log pi_ref - log pi_theta) - 1
    J   = min(rho * A, clip(rho, 1 - epsilon, 1 + epsilon) * A) - beta * kl

The loss is -J, aggregated over tokens and rows. Tokens of the environment are masked out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventlog.events.training import Aggregation

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Objective:
    """The numbers of the objective: half the width of the clip, the weight of the KL, and the aggregation.

    `max_tokens` is the length that dr_grpo divides by.
    """

    epsilon: float
    beta: float
    aggregation: Aggregation
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Scored:
    """Tokens of some rows with what the objective needs. All tensors are (rows, tokens), the advantage is (rows,).

    `theta` carries the gradient. `mask` is 1 for a token that the model said and 0 for all else, padding included.
    """

    theta: Tensor
    old: Tensor
    reference: Tensor
    mask: Tensor
    advantage: Tensor


@dataclass(frozen=True, slots=True)
class StepTotals:
    """The size of the whole step, of which the scored rows may be a part: its rows, and its tokens of the model."""

    rows: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Loss:
    """The share of the step's loss, and sums over the tokens scored, to be divided by the step's tokens."""

    value: Tensor
    kl: float
    clipped: float
    ratio: float


def grpo_loss(scored: Scored, objective: Objective, whole: StepTotals) -> Loss:
    """The share of these rows in the loss of the step; the shares of all its rows add up to the loss.

    A token counts as clipped where the clip decides, which is where it takes the gradient away.
    """
    mask = scored.mask
    rho = ((scored.theta - scored.old) * mask).exp()
    away = (scored.reference - scored.theta) * mask
    kl = away.exp() - away - 1
    advantage = scored.advantage[:, None]
    within = rho.clamp(1 - objective.epsilon, 1 + objective.epsilon)
    free, held = rho * advantage, within * advantage
    gain = free.minimum(held) - objective.beta * kl
    value = -_aggregate(gain * mask, mask, objective, whole)
    clipped, far, ratio = (float((seen.detach() * mask).sum()) for seen in (held < free, kl, rho))
    return Loss(value, far, clipped, ratio)


def _aggregate(gain: Tensor, mask: Tensor, objective: Objective, whole: StepTotals) -> Tensor:
    match objective.aggregation:
        case "grpo":
            return (gain.sum(1) / mask.sum(1)).sum() / whole.rows
        case "bnpo":
            return gain.sum() / whole.tokens
        case "dr_grpo":
            return gain.sum() / (whole.rows * objective.max_tokens)
