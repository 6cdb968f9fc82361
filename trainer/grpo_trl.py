"""TRL's GRPOTrainer on a log: a thin subclass that uses the logged log-probabilities and advantages.

By default TRL computes the ratio against log-probabilities recomputed with the current weights and ignores the logged
ones. It would also score the reference again, which the stage has already done.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from .bases import load_tokenizer
from .batches import Policy
from .errors import GroupsUneven, NotSupported
from .request import GrpoConfig
from .rows import TrainingRows
from .start import Emit, StageStart
from .trl_settings import kind_for, on_one_device, run_trainer, settings

if TYPE_CHECKING:
    from peft import PeftModel
    from torch import Tensor
    from trl import GRPOConfig, GRPOTrainer

Batches = Sequence[Sequence[Sequence[int]]]

_FAR = -1e4
"""Reference log-probability at padding: it keeps the KL finite for any log-probability of the policy."""


def train_trl(
    policy: Policy,
    start: StageStart,
    rows: TrainingRows,
    batches: Batches,
    reference: Mapping[int, Tensor],
    config: GrpoConfig,
    emit: Emit,
) -> PeftModel:
    """Train on batches of groups of rows, all of equal size. Raises GroupsUneven, NotSupported.

    `reference` holds the reference log-probabilities of each row.
    """
    _refuse_passes(start, batches)
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_grpo_trainer(policy.model, start, rows, batches, reference, config, folder)
        return run_trainer(trainer, emit, _measures)


def make_grpo_trainer(
    model: PeftModel,
    start: StageStart,
    rows: TrainingRows,
    batches: Batches,
    reference: Mapping[int, Tensor],
    config: GrpoConfig,
    folder: str,
) -> GRPOTrainer:
    """TRL's trainer over the log. Raises GroupsUneven, NotSupported."""
    import datasets

    _refuse_split_runs(rows, config)

    return kind_for(_trainer_class(reference), config, start)(
        model=model,
        args=on_one_device(arguments(start, rows, batches, config, folder)),
        train_dataset=datasets.Dataset.from_dict(prompts(batches)),
        processing_class=load_tokenizer(start.base),
        reward_funcs=logged_reward,
        rollout_func=Replay(rows.frame, batches),
    )


def _refuse_passes(start: StageStart, batches: Batches) -> None:
    """Raise NotSupported if a step has more rows than one pass: TRL takes the loss over a whole step."""
    own = max(sum(map(len, batch)) for batch in batches) // start.device.processes
    if own > start.rows_per_pass:
        actual = f"a step of {own} rows, of which {start.rows_per_pass} go through the model at once"
        expected = f"rows_per_pass and memory for {own}, fewer groups_per_step, or backend own"
        raise NotSupported(backend="trl", actual=actual, expected=expected)


def _refuse_split_runs(rows: TrainingRows, config: GrpoConfig) -> None:
    """Raise NotSupported if a run is several rows, which TRL would weigh as several runs; bnpo counts only tokens."""
    runs = rows.frame["run"].n_unique()
    if config.aggregation != "bnpo" and runs != rows.frame.height:
        actual = f"its {runs} runs are {rows.frame.height} rows"
        raise NotSupported(backend="trl", actual=actual, expected="one row a run, the aggregation bnpo, or backend own")


def arguments(start: StageStart, rows: TrainingRows, batches: Batches, config: GrpoConfig, folder: str) -> GRPOConfig:
    """TRL's training arguments: batches of whole groups, in their order. Raises GroupsUneven."""
    from trl import GRPOConfig

    sizes = sorted({len(group) for batch in batches for group in batch})
    if len(sizes) > 1 or sizes[0] == 1:
        raise GroupsUneven(actual=", ".join(map(str, sizes)))
    return GRPOConfig(
        **settings(start, config, folder, len(batches[0]) * sizes[0]),
        steps_per_generation=1,
        num_generations=sizes[0],
        num_iterations=config.passes,
        shuffle_dataset=False,
        temperature=float(rows.frame["temperature"][0]),
        loss_type=_loss_type(config),
        max_completion_length=config.max_tokens,
        beta=float(config.beta),
        epsilon=float(config.epsilon),
        importance_sampling_level="token",
        use_bias_correction_kl=False,
        scale_rewards="group",
        use_vllm=False,
    )


def _loss_type(config: GrpoConfig) -> str:
    """TRL's loss type: its bnpo normalises by the tokens of one process, dapo by those of all processes."""
    return "dapo" if config.aggregation == "bnpo" and config.processes > 1 else config.aggregation


def prompts(batches: Batches) -> dict[str, list[str]]:
    """The dataset that TRL iterates over: each prompt is the index of a group in the training."""
    return {"prompt": [str(place) for place in range(sum(map(len, batches)))]}


class Replay:
    """Serves TRL's rollout requests from the log."""

    def __init__(self, frame: pl.DataFrame, batches: Batches) -> None:
        self._frame = frame
        self._groups = [group for batch in batches for group in batch]

    def __call__(self, prompts: Sequence[str], _trainer: object) -> dict[str, Any]:
        """Return the rows of each prompt's group, one for each repetition of the prompt."""
        rows = list(self._rows(prompts))
        taken = self._frame[rows].to_dict(as_series=False)
        return {
            "prompt_ids": taken["prompt_ids"],
            "completion_ids": taken["completion_ids"],
            "logprobs": taken["logprobs"],
            "env_mask": taken["mask"],
            "logged_reward": [reward / 1e6 for reward in taken["reward"]],
            "logged_advantage": taken["advantage"],
            "row": rows,
        }

    def _rows(self, prompts: Sequence[str]) -> Iterator[int]:
        left: dict[str, Iterator[int]] = {}
        for prompt in prompts:
            yield next(left.setdefault(prompt, iter(self._groups[int(prompt)])))


def logged_reward(*, logged_reward: list[float], **_rest: object) -> list[float]:
    """The reward that was logged with each rollout."""
    return logged_reward


def _trainer_class(reference: Mapping[int, Tensor]) -> type[GRPOTrainer]:
    import torch
    from torch.nn.utils.rnn import pad_sequence
    from trl import GRPOTrainer

    class LoggedGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
        """GRPO with the ratio and advantages of the log, and a precomputed reference."""

        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            out: dict[str, Any] = super()._generate_and_score_completions(inputs)
            mask = (out["completion_mask"] * out["tool_mask"]).bool()
            out["old_per_token_logps"] = out["sampling_per_token_logps"].masked_fill(~mask, 0.0)
            held = [reference[one["row"]] for one in inputs]
            out["ref_per_token_logps"] = pad_sequence(held, batch_first=True, padding_value=_FAR).to(mask.device)
            advantages = [one["logged_advantage"] for one in inputs]
            out["advantages"] = torch.tensor(advantages, device=mask.device, dtype=torch.float32)
            return out

        def _get_per_token_logps_and_entropies(
            self, model: Any, ids: Tensor, attention: Tensor, width: int, **rest: Any
        ) -> tuple[Tensor, Tensor | None, Tensor | None]:
            """Without gradients TRL requests old and reference log-probabilities; both are known already."""
            if not torch.is_grad_enabled():
                return torch.zeros(len(ids), width, device=ids.device), None, None
            found: tuple[Tensor, Tensor | None, Tensor | None] = super()._get_per_token_logps_and_entropies(
                model, ids, attention, width, **rest
            )
            return found

    return LoggedGRPOTrainer


def _measures(logs: Mapping[str, float]) -> Mapping[str, float | None]:
    return {"kl": logs.get("kl"), "clip_fraction": logs.get("clip_ratio/region_mean"), "reward": logs.get("reward")}
