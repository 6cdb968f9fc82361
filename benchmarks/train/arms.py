"""The arms: both backends of our stage, and TRL's own trainer on the same rows in the same order."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import datasets
import torch
from transformers import PrinterCallback
from trl import GRPOTrainer

from trainer.bases import load_tokenizer
from trainer.grpo import schedule, signal_of, train_grpo
from trainer.grpo_trl import Replay, arguments, logged_reward, prompts
from trainer.request import GrpoConfig
from trainer.rows import TrainingRows
from trainer.start import StageStart, policy_model

PLAIN = "TRL as it comes"
BACKENDS = ("backend own", "backend trl")


@dataclass(frozen=True, slots=True)
class Work:
    """Work of every arm: train an adapter on the base over these rows."""

    start: StageStart
    rows: TrainingRows
    config: GrpoConfig

    def batches(self) -> list[list[tuple[int, ...]]]:
        """Row numbers of each group of each batch."""
        return [[group.rows for group in batch] for batch in schedule(signal_of(self.rows)[0], self.config)]

    def tokens(self) -> int:
        """Prompt and completion tokens of all steps; tokens of a batch count once per step on it."""
        frame = self.rows.frame
        of_row = (frame["prompt_ids"].list.len() + frame["completion_ids"].list.len()).to_list()
        steps = [batch for batch in self.batches() for _ in range(self.config.passes)][: self.config.steps]
        return sum(of_row[row] for batch in steps for group in batch for row in group)


def rates(work: Work, repeats: int) -> Mapping[str, list[float]]:
    """Tokens per second of every arm in each turn, after a warm-up training of one step.

    Seconds are CPU time, or wall-clock time on a CUDA device. The order of the arms rotates from turn to turn.
    """
    arms: Mapping[str, Callable[[Work], None]] = {
        PLAIN: plain_trl,
        BACKENDS[0]: lambda given: ours(given, "own"),
        BACKENDS[1]: lambda given: ours(given, "trl"),
    }
    short = replace(work, config=work.config.model_copy(update={"steps": 1}))
    for arm in arms.values():
        arm(short)
    tokens = work.tokens()
    found: dict[str, list[float]] = {name: [] for name in arms}
    for turn in range(repeats):
        for place in range(len(arms)):
            name = [*arms][(turn + place) % len(arms)]
            began = _now(work)
            arms[name](work)
            found[name].append(tokens / (_now(work) - began))
    return found


def _now(work: Work) -> float:
    if not work.start.device.is_cuda:
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def ours(work: Work, backend: str) -> None:
    """Run the whole stage, including its staleness check."""
    config = work.config.model_copy(update={"backend": backend})
    train_grpo(work.start, work.rows, config, lambda _line: None)


def plain_trl(work: Work) -> None:
    """Run GRPOTrainer with the settings of our subclass, treating the logged runs as its rollouts."""
    batches = work.batches()
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=policy_model(work.start),
            args=arguments(work.start, work.rows, batches, work.config, folder),
            train_dataset=datasets.Dataset.from_dict(prompts(batches)),
            processing_class=load_tokenizer(work.start.base),
            reward_funcs=logged_reward,
            rollout_func=Replay(work.rows.frame, batches),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
