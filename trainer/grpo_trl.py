"""TRL's GRPOTrainer on a log: a thin subclass that puts the logged log-probabilities and advantages in place.

Left alone, TRL takes the ratio against what it recomputes with the current weights, and ignores what was logged.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from .bases import load_tokenizer
from .errors import GroupsUneven, NotOffered
from .request import GrpoConfig
from .rows import Rows
from .start import Emit, Start
from .trl_settings import run_trainer, settings

if TYPE_CHECKING:
    from peft import PeftModel
    from trl import GRPOTrainer

Batches = Sequence[Sequence[Sequence[int]]]


def train_trl(
    model: PeftModel, start: Start, rows: Rows, batches: Batches, config: GrpoConfig, emit: Emit
) -> PeftModel:
    """Train on batches of groups of rows, all of one size. Raises GroupsUneven, NotOffered."""
    with tempfile.TemporaryDirectory() as folder:
        return run_trainer(make_trainer(model, start, rows, batches, config, folder), emit, _measures)


def make_trainer(
    model: PeftModel, start: Start, rows: Rows, batches: Batches, config: GrpoConfig, folder: str
) -> GRPOTrainer:
    """TRL's trainer over the log. Raises GroupsUneven, NotOffered."""
    import datasets
    from trl import GRPOConfig

    sizes = sorted({len(group) for batch in batches for group in batch})
    if len(sizes) > 1 or sizes[0] == 1:
        raise GroupsUneven(actual=", ".join(map(str, sizes)))
    if config.reference == "base" and start.parent is not None:
        raise NotOffered(backend="trl", actual="a reference other than its start", expected="the reference start")
    groups = [group for batch in batches for group in batch]
    arguments = GRPOConfig(
        **settings(start, config, folder),
        per_device_train_batch_size=len(batches[0]) * sizes[0],
        gradient_accumulation_steps=1,
        steps_per_generation=1,
        num_generations=sizes[0],
        num_iterations=config.passes,
        shuffle_dataset=False,
        temperature=float(rows.frame["temperature"][0]),
        loss_type=config.aggregation,
        max_completion_length=config.max_tokens,
        beta=float(config.beta),
        epsilon=float(config.epsilon),
        importance_sampling_level="token",
        use_bias_correction_kl=False,
        scale_rewards="group",
        use_vllm=False,
    )
    return _trainer_class()(
        model=model,
        args=arguments,
        train_dataset=datasets.Dataset.from_dict({"prompt": [str(place) for place in range(len(groups))]}),
        processing_class=load_tokenizer(start.base),
        reward_funcs=_logged_reward,
        rollout_func=_Replay(rows.frame, groups),
    )


class _Replay:
    """Answers TRL's wish for rollouts from the log. A prompt is the place of its group in the training."""

    def __init__(self, frame: pl.DataFrame, groups: Sequence[Sequence[int]]) -> None:
        self._frame = frame
        self._groups = groups

    def __call__(self, prompts: Sequence[str], _trainer: object) -> dict[str, Any]:
        """The rows of each prompt's group, one for each time that the prompt was repeated."""
        taken = self._frame[list(self._rows(prompts))].to_dict(as_series=False)
        return {
            "prompt_ids": taken["prompt_ids"],
            "completion_ids": taken["completion_ids"],
            "logprobs": taken["logprobs"],
            "env_mask": taken["mask"],
            "logged_reward": [reward / 1e6 for reward in taken["reward"]],
            "logged_advantage": taken["advantage"],
        }

    def _rows(self, prompts: Sequence[str]) -> Iterator[int]:
        left: dict[str, Iterator[int]] = {}
        for prompt in prompts:
            yield next(left.setdefault(prompt, iter(self._groups[int(prompt)])))


def _logged_reward(*, logged_reward: list[float], **_rest: object) -> list[float]:
    return logged_reward


def _trainer_class() -> type[GRPOTrainer]:
    import torch
    from trl import GRPOTrainer

    class LoggedGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
        """GRPO whose ratio and advantages are those of the log."""

        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            out: dict[str, Any] = super()._generate_and_score_completions(inputs)
            mask = (out["completion_mask"] * out["tool_mask"]).bool()
            out["old_per_token_logps"] = out["sampling_per_token_logps"].masked_fill(~mask, 0.0)
            advantages = [one["logged_advantage"] for one in inputs]
            out["advantages"] = torch.tensor(advantages, device=out["advantages"].device, dtype=torch.float32)
            return out

    return LoggedGRPOTrainer


def _measures(logs: Mapping[str, float]) -> Mapping[str, float | None]:
    return {"kl": logs.get("kl"), "clip_fraction": logs.get("clip_ratio/region_mean"), "reward": logs.get("reward")}
