"""The GRPO objective in plain torch.

For each token that the model generated, where theta is the trained policy, old the sampling policy (with its logged
log-probabilities) and ref the reference policy:

    rho = exp(log pi_theta - log pi_old)
    kl  = exp(log pi_ref - log pi_theta) - (log pi_ref - log pi_theta) - 1
    J   = min(rho * A, clip(rho, 1 - epsilon, 1 + epsilon) * A) - beta * kl

The loss is -J, aggregated over tokens and runs. Environment tokens are masked out. A run whose calls do not extend one
another is several rows; it weighs what any other run weighs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventlog.events.training import Aggregation

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Objective:
    """Parameters of the objective: the clip range epsilon, the KL weight beta, and the aggregation.

    `max_tokens` is the length that dr_grpo divides by.
    """

    epsilon: float
    beta: float
    aggregation: Aggregation
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Scored:
    """Inputs of the objective for some rows. All tensors are (rows, tokens), the advantage is (rows,).

    `theta` carries the gradient. `mask` is 1 for a token that the model generated, else 0, including padding.
    `run_tokens` (rows,) is the number of model tokens of all rows of the row's run in this step.
    """

    theta: Tensor
    old: Tensor
    reference: Tensor
    mask: Tensor
    advantage: Tensor
    run_tokens: Tensor


@dataclass(frozen=True, slots=True)
class StepTotals:
    """Runs and model tokens of the whole step; the scored rows may be only a part of it."""

    runs: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Loss:
    """Part of the step's loss, and sums over the scored tokens, to be divided by the step's tokens."""

    value: Tensor
    kl: float
    clipped: float
    ratio: float


def grpo_loss(scored: Scored, objective: Objective, whole: StepTotals) -> Loss:
    """Contribution of these rows to the step's loss; the contributions of all rows add up to the loss.

    A token counts as clipped if the clipped term is the minimum, so that its gradient is zero.
    """
    mask = scored.mask
    rho = ((scored.theta - scored.old) * mask).exp()
    away = (scored.reference - scored.theta) * mask
    kl = away.exp() - away - 1
    advantage = scored.advantage[:, None]
    within = rho.clamp(1 - objective.epsilon, 1 + objective.epsilon)
    free, held = rho * advantage, within * advantage
    gain = free.minimum(held) - objective.beta * kl
    value = -_aggregate(gain * mask, scored.run_tokens, objective, whole)
    clipped, far, ratio = (float((seen.detach() * mask).sum()) for seen in (held < free, kl, rho))
    return Loss(value, far, clipped, ratio)


def _aggregate(gain: Tensor, run_tokens: Tensor, objective: Objective, whole: StepTotals) -> Tensor:
    match objective.aggregation:
        case "grpo":
            return (gain.sum(1) / run_tokens).sum() / whole.runs
        case "bnpo":
            return gain.sum() / whole.tokens
        case "dr_grpo":
            return gain.sum() / (whole.runs * objective.max_tokens)
