"""GRPO from the base as a plain loop, in one process without a log: `python -m benchmarks.real.plain BASE TASK OUT`.

TASK is JSON of `PlainTask`, and OUT becomes that of `PlainResult`. It uses transformers and PEFT directly, and of this
project only the reward and the shape of these files.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from .last_number import HALF, reward_of
from .plain_task import Asked, PlainResult, PlainTask

ROWS_A_PASS: Final = 32
"""Most rows that go through the model at once, as in our trainer."""

_EPS: Final = 0.0001


@dataclass
class _Spent:
    """Seconds since the last look."""

    since: float

    def look(self) -> float:
        """Seconds since the last look."""
        before, self.since = self.since, time.perf_counter()
        return self.since - before


def learn(base: Path, task: PlainTask) -> PlainResult:
    """Train an adapter on the base, and answer the held-out questions before and after."""
    model, tokenizer = _load(base, task)
    spent = _Spent(time.perf_counter())
    sampling = training = 0.0
    before = _right(model, tokenizer, task)
    optimizer, rewards = _optimizer(model, task), []
    spent.look()
    for questions in task.steps:
        ids, prompt, texts = _sample(model, tokenizer, questions, task)
        sampling += spent.look()
        groups = [[reward_of(text, asked.answer) for text in own] for asked, own in zip(questions, texts, strict=True)]
        rewards.append(fmean(reward for group in groups for reward in group))
        take_step(model, tokenizer, optimizer, ids, prompt, groups)
        training += spent.look()
        print(f"step {len(rewards)} of {len(task.steps)}: mean reward {rewards[-1]:.3f}", flush=True)
    after = _right(model, tokenizer, task)
    return PlainResult(
        sampling_s=sampling,
        training_s=training,
        before=before,
        after=after,
        rewards=tuple(rewards),
        prompt_tokens=len(_texts(tokenizer, task.steps[0][:1])["input_ids"][0]),
    )


def _load(base: Path, task: PlainTask) -> tuple[Any, Any]:
    logging.disable_progress_bar()
    torch.set_num_threads(task.threads)
    torch.manual_seed(task.seed)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, local_files_only=True)
    lora = LoraConfig(r=task.rank, lora_alpha=task.alpha, target_modules="all-linear", task_type="CAUSAL_LM")
    tokenizer = AutoTokenizer.from_pretrained(base, local_files_only=True, padding_side="left")
    return get_peft_model(model, lora).eval(), tokenizer


def _optimizer(model: Any, task: PlainTask) -> Any:
    weights = [each for each in model.parameters() if each.requires_grad]
    return torch.optim.AdamW(weights, lr=task.learning_rate, weight_decay=0.0)


def _texts(tokenizer: Any, questions: tuple[Asked, ...]) -> Any:
    """Prompts as token ids, padded on the left."""
    talks = [[{"role": "system", "content": e.system}, {"role": "user", "content": e.user}] for e in questions]
    told = [tokenizer.apply_chat_template(talk, add_generation_prompt=True, tokenize=False) for talk in talks]
    return tokenizer(told, return_tensors="pt", padding=True, add_special_tokens=False)


def _sample(model: Any, tokenizer: Any, questions: tuple[Asked, ...], task: PlainTask) -> tuple[Any, Any, Any]:
    """Draw the samples of each question at temperature 1: token ids, prompts, and the texts by question."""
    prompt = _texts(tokenizer, questions)
    with torch.no_grad():
        ids = model.generate(
            **prompt,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=task.answer_tokens,
            num_return_sequences=task.samples,
        )
    drawn = tokenizer.batch_decode(ids[:, prompt["input_ids"].shape[1] :], skip_special_tokens=True)
    return ids, prompt, [drawn[at : at + task.samples] for at in range(0, len(drawn), task.samples)]


def take_step(model: Any, tokenizer: Any, optimizer: Any, ids: Any, prompt: Any, groups: list[list[float]]) -> None:
    """One step on the groups whose rewards differ: advantages as our datasets have them, mean over tokens."""
    width, samples = prompt["input_ids"].shape[1], len(groups[0])
    advantages = [(reward - fmean(group)) / (stdev(group) + _EPS) for group in groups for reward in group]
    rows = [at for at, advantage in enumerate(advantages) if advantage]
    if not rows:
        return
    ended = (ids[:, width:] == tokenizer.eos_token_id).int()
    shown = (ended.cumsum(1) - ended == 0).float()  # up to the first end of turn, with it
    before = prompt["attention_mask"].repeat_interleave(samples, 0)
    mask = torch.cat([before, shown.to(before.dtype)], 1)
    optimizer.zero_grad()
    for at in range(0, len(rows), ROWS_A_PASS):
        part = rows[at : at + ROWS_A_PASS]
        answers = ids[part, width:]
        logits = model(input_ids=ids[part], attention_mask=mask[part], logits_to_keep=answers.shape[1] + 1).logits
        logprobs = torch.log_softmax(logits[:, :-1], -1).gather(-1, answers[..., None])[..., 0]
        weights = torch.tensor([advantages[row] for row in part])[:, None]
        loss = -(weights * logprobs * shown[part]).sum() / shown[rows].sum()
        loss.backward()
    torch.nn.utils.clip_grad_norm_([each for each in model.parameters() if each.requires_grad], 1.0)
    optimizer.step()


def _right(model: Any, tokenizer: Any, task: PlainTask) -> float:
    """Share of the held-out questions whose greedy answer has the right last number."""
    prompt = _texts(tokenizer, task.held_out)
    with torch.no_grad():
        ids = model.generate(**prompt, do_sample=False, max_new_tokens=task.answer_tokens)
    texts = tokenizer.batch_decode(ids[:, prompt["input_ids"].shape[1] :], skip_special_tokens=True)
    return fmean(reward_of(text, asked.answer) >= HALF for text, asked in zip(texts, task.held_out, strict=True))


if __name__ == "__main__":
    found = learn(Path(sys.argv[1]), PlainTask.model_validate_json(Path(sys.argv[2]).read_bytes()))
    Path(sys.argv[3]).write_text(found.model_dump_json(), encoding="utf-8")
